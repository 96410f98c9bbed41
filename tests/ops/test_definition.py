"""The one-page definition of the documentation against the library.

The test runs the program of docs/definition.md unchanged. The data are permutations, with some
ties, NaN and infinities.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh import ROOT

import jaxpool

PAGE = (ROOT / "docs" / "definition.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NAMES: dict[str, Any] = {}
exec(BLOCKS[0].partition("\nx = ")[0], NAMES)
defined = NAMES["max_pool"]


def draw(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
    """Return an array of one to three axes, and matching settings that differ on every axis."""
    count = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(2, (14, 9, 6)[count - 1], count))
    per_axis = lambda low, high: tuple(int(k) for k in rng.integers(low, high, count))  # noqa: E731
    window, dilations = per_axis(1, 4), per_axis(1, 3)
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    pads = tuple(
        (int(rng.integers(0, 3)), int(rng.integers(0, 3)) + max(span - n, 0))
        for n, span in zip(shape, spans, strict=True)
    )
    x = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    for value in rng.choice([np.nan, np.inf, -np.inf, 1.0], int(rng.integers(0, 3))):
        x[tuple(rng.integers(0, shape))] = value
    words = dict(window_shape=window, strides=per_axis(1, 4), padding=pads, dilations=dilations)
    return x, words


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 300))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_library_computes_the_definition(seed: int) -> None:
    x, words = draw(np.random.default_rng(seed))
    names = "DHW"[-x.ndim :] if x.ndim > 1 else "W"
    run = lambda x: jaxpool.max_pool_with_argmax(x, **words, data_format=names)  # noqa: E731
    values, indices = run(jnp.asarray(x))
    cotangent = np.arange(1, values.size + 1, dtype=np.float32).reshape(values.shape)
    expected = defined(x, *words.values(), cotangent)
    (gradient,) = jax.vjp(lambda x: run(x)[0], jnp.asarray(x))[1](jnp.asarray(cotangent))
    for got, want in zip((values, indices, gradient), expected, strict=True):
        np.testing.assert_array_equal(got, want, str((x.shape, words)))


def test_the_settings_are_those_of_the_page() -> None:
    assert list(draw(np.random.default_rng(0))[1]) == [
        "window_shape", "strides", "padding", "dilations",
    ]  # fmt: skip
    assert "def max_pool(x, window, strides, pads, dilations, cotangent=None)" in BLOCKS[0]


def test_the_definition_is_short_and_shares_no_code_with_the_library() -> None:
    program = BLOCKS[0].partition("\nx = ")[0]
    assert "jax" not in program
    assert sum(1 for line in program.splitlines() if line.strip()) <= 45
