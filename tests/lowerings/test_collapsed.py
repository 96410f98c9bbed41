"""Few channels are collapsed with the last pooled axis on CPU: the windows stay the same."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._geometry.resolve import Geometry, resolve
from jaxpool._geometry.window import Window
from jaxpool._lowerings import plan as plan_
from jaxpool._lowerings import tuning
from jaxpool._lowerings.parts import collapsed as collapsed_
from jaxpool._lowerings.parts.collapsed import row_length
from jaxpool.reductions import MAX, MIN, SUM, Reduction

FLOAT32 = np.dtype(np.float32)
WINDOWS: dict[str, Window] = {
    "3x3": Window((3, 3), 1),
    "3x3, padded": Window((3, 3), 1, "SAME"),
    "strided before": Window((3, 2), (2, 1), ((1, 0), (0, 1))),
    "dilated": Window((2, 3), 1, 1, (3, 2)),
    "9x8": Window((9, 8), 1, "SAME_LOWER"),
    "longer than the axis": Window((2, 25), 1, ((0, 1), (12, 12))),
    "one axis": Window((1, 12), 1, "SAME"),
}


@pytest.fixture(autouse=True)
def barriers_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let old versions of JAX collapse axes too, which would be slow."""
    monkeypatch.setattr(collapsed_, "BARRIER_HOLDS", True)


def geometry_of(window: Window) -> Geometry:
    return resolve(window, [13, 14], (-3, -2)).compact()


def data(channels: int) -> jax.Array:
    rng = np.random.default_rng(channels)
    x = rng.permutation(2 * 13 * 14 * channels).reshape(2, 13, 14, channels).astype(np.float32)
    x[0, 3, 4, 1], x[1, 5:8, :4, 0] = np.nan, -np.inf
    x[1, 9] = 7.0  # ties
    return jnp.asarray(x)


def results(geometry: Geometry, reduction: Reduction, x: jax.Array) -> Iterator[Any]:
    """Yield the result of every operation of a selection."""
    plan = plan_.plan_for(geometry, reduction, FLOAT32)
    yield plan_.reduce(plan, x)
    for valid in (None, jnp.asarray(np.random.default_rng(1).random(x.shape) < 0.6)):
        values, offsets = plan_.argreduce(plan, x, valid)
        yield values, offsets
    values, offsets = plan_.argreduce(plan, x, None)
    g = jnp.arange(values.size, dtype=jnp.float32).reshape(values.shape)
    assert plan.gather is not None and plan.scatter is not None
    yield plan.gather(x, offsets), plan.scatter(g, offsets, dtype=FLOAT32)
    _, codes = plan_.argreduce(plan, x, None, codes=True)
    yield plan.coded[1](x, codes), plan.coded[2](g, codes, dtype=FLOAT32)


@pytest.mark.grid(58)
@pytest.mark.parametrize("channels", [2, 3, 8, 12])
@pytest.mark.parametrize("reduction", [MAX, MIN], ids=["max", "min"])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_operation_has_the_same_result(
    window: str, reduction: Reduction, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, geometry = data(channels), geometry_of(WINDOWS[window])
    collapsed = jax.jit(lambda x: list(results(geometry, reduction, x)))(x)
    monkeypatch.setattr(tuning, "MAX_COLLAPSED_ROW", 0)
    direct = jax.jit(lambda x: list(results(geometry, reduction, x)))(x)
    jax.tree.map(np.testing.assert_array_equal, collapsed, direct)


def text(x: jax.Array, reduction: Reduction, window: str, platform: str = "cpu") -> str:
    plan = plan_.plan_for(geometry_of(WINDOWS[window]), reduction, FLOAT32)
    traced = jax.jit(functools.partial(plan_.reduce, plan)).trace(x)
    return traced.lower(lowering_platforms=(platform,)).as_text()


def test_only_short_rows_of_extremes_are_collapsed_and_only_on_cpu() -> None:
    collapsed = lambda channels: f"tensor<2x13x{14 * channels}xf32>"  # noqa: E731
    for channels, window, found in ((3, "3x3", True), (12, "9x8", True), (8, "9x8", True),
                                    (8, "3x3", True), (16, "9x8", False)):  # fmt: skip
        assert (collapsed(channels) in text(data(channels), MAX, window)) == found, channels
    assert collapsed(3) not in text(data(3), SUM, "9x8")
    assert collapsed(3) not in text(data(3), MAX, "3x3", "tpu")
    assert collapsed(3) not in text(data(3), MAX, "3x3", "cuda")


def test_rows_are_collapsed_only_at_stride_1_within_32_bits_and_with_little_padding() -> None:
    strided, tiled = Window((3, 3), (1, 2)), Window((2, 2), 2)
    assert row_length(geometry_of(WINDOWS["strided before"]), (2, 13, 14, 3)) == 3
    for window in (strided, tiled):
        assert row_length(geometry_of(window), (2, 13, 14, 3)) == 1
    long = resolve(Window((3,), 1), [2**30], (-2,))
    assert row_length(long, (2**30, 2)) == 1
    padded = resolve(Window((10_001,), 1, "SAME"), [20_000], (-2,))
    assert row_length(padded, (20_000, 1)) == 1 and row_length(padded, (20_000, 2)) == 1


def test_several_axes_after_the_pooled_ones_are_collapsed() -> None:
    x = np.random.default_rng(2).permutation(9 * 8 * 2 * 3).reshape(9, 8, 2, 3)
    pool = functools.partial(jaxpool.max_pool_with_argmax, window_shape=(2, 3), strides=1)
    got = pool(x, data_format="HWCN")
    want = pool(np.moveaxis(x, -1, 0), data_format="NHWC")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, jnp.moveaxis(b, 0, -1))
