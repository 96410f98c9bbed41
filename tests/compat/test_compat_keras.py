"""Keras' front end: every recorded run, and the installed Keras on its JAX backend."""

import inspect
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
from golden import CASES, agrees, read
from helpers import assert_same, permutation

from jaxpool.compat import keras as ours
from jaxpool.testing import oracle_pool

FUNCTIONS = ("max_pool", "average_pool", "adaptive_max_pool", "adaptive_average_pool")
RECORDED = {name: case["runs"]["keras"] for name, case in CASES.items() if "keras" in case["runs"]}
DIFFERENCES = {
    "adaptive_max_2d_tie_nan": "recorded on TensorFlow's backend, which passes over NaN; on JAX's "
    "NaN stays",
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    os.environ["KERAS_BACKEND"] = "jax"
    return peers.require("keras").ops


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs(name: str) -> None:
    case = CASES[name]
    kind = {"adaptive_max": "adaptive_max_pool", "adaptive_avg": "adaptive_average_pool"}
    op = getattr(ours, kind[case["op"]])
    want = read(RECORDED[name]["values"])
    got = op(read(case["x"]), tuple(case["attrs"]["output_size"]), data_format="channels_first")
    assert got.dtype == want.dtype and agrees(np.asarray(got), want) == (name not in DIFFERENCES)
    got = op(np.moveaxis(read(case["x"]), 1, -1), tuple(case["attrs"]["output_size"]))
    assert agrees(np.moveaxis(np.asarray(got), -1, 1), want) == (name not in DIFFERENCES)


def test_the_recorded_runs_are_all_there() -> None:
    assert len(RECORDED) == 9 and set(DIFFERENCES) <= set(RECORDED)


# --- the installed Keras --------------------------------------------------------------------------


def test_the_signatures_are_those_of_keras(theirs: Any) -> None:
    for name in FUNCTIONS:
        mine, keras = (
            {p.name: p.default for p in inspect.signature(getattr(m, name)).parameters.values()}
            for m in (ours, theirs)
        )
        assert mine == keras, name


WINDOWS: list[dict[str, Any]] = [
    {"pool_size": 2},
    {"pool_size": (3, 2), "strides": 2, "padding": "same"},
    {"pool_size": (2, 3), "strides": (1, 2), "padding": "VALID"},
    {"pool_size": (4, 1), "strides": (3, 2), "padding": "Same", "data_format": "channels_first"},
    {"pool_size": [1, 5], "padding": "same", "data_format": "channels_last"},
]


def test_windows_as_in_keras(theirs: Any, rng: np.random.Generator) -> None:
    x = permutation((2, 5, 7, 6), np.float32, rng)

    def run_all(module: Any, x: Any, calls: list[dict[str, Any]]) -> list[Any]:
        return [f(x, **c) for c in calls for f in (module.max_pool, module.average_pool)]

    # Keras 3.15.1 accepts no lists here, and fails on JAX if strides default to the pool size.
    keras_calls = [
        c | {"pool_size": tuple(size) if isinstance(size := c["pool_size"], list) else size}
        for c in WINDOWS
    ]
    keras_calls = [{"strides": c["pool_size"]} | c for c in keras_calls]
    with jax.numpy_dtype_promotion("standard"):
        want = jax.jit(lambda x: run_all(theirs, x, keras_calls))(x)
    for n, (mine, keras) in enumerate(zip(run_all(ours, x, WINDOWS), want, strict=True)):
        assert_same(mine, keras, WINDOWS[n // 2], ulps=2 * (n % 2))


def test_averages_of_integers_are_floats(theirs: Any) -> None:
    x = np.array([100, 100, 50, 3], np.int8).reshape(1, 4, 1)
    with jax.numpy_dtype_promotion("standard"):
        wrapped = np.asarray(theirs.average_pool(x, 2, 2))
    assert wrapped.dtype == np.float32 and wrapped.ravel().tolist() != [100.0, 26.5]
    assert_same(ours.average_pool(x, 2).ravel(), np.array([100, 26.5], np.float32), "means")
    sizes = ours.adaptive_average_pool(x, 2)
    assert_same(sizes.ravel(), np.array([100, 26.5], np.float32), "adaptive means")


def test_adaptive_as_in_keras(theirs: Any, rng: np.random.Generator) -> None:
    x = permutation((2, 7, 5, 3), np.float32, rng)
    for name, size, layout in (
        ("adaptive_max_pool", (3, 4), None),
        ("adaptive_average_pool", 2, "channels_first"),
    ):
        with jax.numpy_dtype_promotion("standard"):
            op = getattr(theirs, name)
            want = jax.jit(lambda x, op=op, size=size, layout=layout: op(x, size, layout))(x)
        assert_same(getattr(ours, name)(x, size, layout), want, (name, size, layout), ulps=4)


def test_adaptive_windows_are_exact_where_those_of_keras_are_not(theirs: Any) -> None:
    x = jnp.arange(7.0).reshape(1, 7, 1)
    for name in ("adaptive_max_pool", "adaptive_average_pool"):
        np.testing.assert_array_equal(getattr(ours, name)(x, 7), x)
        with jax.numpy_dtype_promotion("standard"):
            assert not np.array_equal(getattr(theirs, name)(x, 7), x), "say so no more"


def test_words_may_have_any_case(theirs: Any, rng: np.random.Generator) -> None:
    x = permutation((2, 3, 6, 5), np.float32, rng)
    for name in ("max_pool", "average_pool"):
        want = getattr(theirs, name)(x, 2, 2, "SAME", "Channels_First")
        assert_same(getattr(ours, name)(x, 2, 2, "SAME", "Channels_First"), want, name, ulps=4)


def test_one_and_three_axes(rng: np.random.Generator) -> None:
    """Keras fixes the rank; the oracle supports any rank."""
    for shape, axes in (((2, 9, 3), [1]), ((2, 4, 5, 6, 3), [1, 2, 3])):
        x = permutation(shape, np.float32, rng)
        size = len(axes)
        want = oracle_pool(x, "max", (2,) * size, (2,) * size, "SAME", spatial_axes=axes)
        assert_same(ours.max_pool(x, 2, padding="same"), want, shape)


def test_gradients(rng: np.random.Generator) -> None:
    x = jnp.asarray(permutation((1, 5, 4, 2), np.float32, rng))
    g = jax.grad(lambda x: ours.average_pool(x, (2, 3), 1, "same").sum())(x)
    assert abs(float(g.sum()) - 40) < 1e-4  # each of the 40 averages has weight 1
    g = jax.grad(lambda x: ours.max_pool(x, 2).sum())(x)
    assert float(g.sum()) == ours.max_pool(x, 2).size


# --- refusals -------------------------------------------------------------------------------------

X = np.zeros((1, 4, 5, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ({"pool_size": 0}, "`pool_size` contains 0"),
        ({"pool_size": 6}, "`pool_size` = 6 does not fit"),
        ({"pool_size": (2,)}, "`pool_size` = .2,. does not match `inputs`"),
        ({"pool_size": 2, "strides": 0}, "`strides` contains 0"),
        ({"pool_size": 2, "padding": "SAME_LOWER"}, "`padding` = 'SAME_LOWER' is not a padding"),
        ({"pool_size": 2, "padding": 1}, "`padding` = 1 is not a padding"),
        ({"pool_size": 2, "data_format": "NHWC"}, "`data_format` = 'NHWC' is not a layout"),
    ],
)
def test_what_is_refused(call: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=f"^average_pool: (.|\\n)*{match}"):
        ours.average_pool(X, **call)


def test_what_adaptive_pools_refuse() -> None:
    with pytest.raises(ValueError, match="^adaptive_max_pool: `output_size` = .* does not match"):
        ours.adaptive_max_pool(X, (2, 2, 2))
    with pytest.raises(ValueError, match="^adaptive_average_pool: (.|\n)*`output_size`"):
        ours.adaptive_average_pool(X, -1)
    with pytest.raises(ValueError, match="besides|Besides"):
        ours.max_pool(X[0, 0], 2)
