"""oneDNN's front end: start values, order of sums, and the names of its formats."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same

from jaxpool.compat import onednn


def test_bfloat16_maxima_start_from_minus_infinity() -> None:
    x = jnp.asarray([[[-jnp.inf, -jnp.inf, jnp.nan, jnp.nan, 1]]], jnp.bfloat16)
    values, workspace = onednn.forward_training(x, "max", (2,), (1,))
    assert values.tolist() == [[[-np.inf, -np.inf, -np.inf, 1]]]
    assert workspace is not None and workspace.tolist() == [[[0, 0, 0, 1]]]
    only = onednn.forward_inference(x, "max", (2,), (1,))
    assert_same(only, values, "inference")
    for dtype in (jnp.float32, jnp.float16):
        low = onednn.forward_inference(x.astype(dtype), "max", (2,), (1,))
        assert low[0, 0, 0] == jnp.finfo(dtype).min


@pytest.mark.grid(2)
@pytest.mark.parametrize(("kernel", "left", "stride"), [(1, 1, 1), (1, 3, 2), (2, 2, 1), (3, 4, 1)])
def test_windows_that_never_reach_the_array(kernel: int, left: int, stride: int) -> None:
    """A negative ``padding_r`` removes the only element of an axis; padding_l remains."""
    x, window = jnp.asarray([[[7.0]]]), ((kernel,), (stride,), 0, left, -1)
    windows = (1 + left - 1 - kernel) // stride + 1
    values, workspace = onednn.forward_training(x, "max", *window)
    assert_same(values, np.full((1, 1, windows), np.finfo(np.float32).min), window)
    assert_same(workspace, np.zeros((1, 1, windows), np.uint8), window)
    assert_same(onednn.forward_inference(x, "max", *window), values, window)
    average = onednn.forward_inference(x, "avg_include_padding", *window)
    assert_same(average, np.zeros((1, 1, windows), np.float32), window)
    with pytest.raises(ValueError, match="may contain no element"):
        onednn.forward_inference(x, "avg_exclude_padding", *window)
    ones = jnp.ones((1, 1, windows))
    for kind, taps in (("max", workspace), ("avg_include_padding", None)):
        back = onednn.backward(ones, taps, kind, *window, src_shape=(1, 1, 1))
        assert back.tolist() == [[[0.0]]], kind
    assert jax.grad(lambda x: onednn.forward_inference(x, "max", *window).sum())(x).item() == 0


def added_in_order(x: np.ndarray, kernel: tuple[int, int], pad: int, whole: bool) -> np.ndarray:
    """Return averages by sequential float32 sums, as in the reference implementation."""
    height, width = (n + 2 * pad - k + 1 for n, k in zip(x.shape, kernel, strict=True))
    y = np.zeros((height, width), np.int64)
    for o in np.ndindex(height, width):
        total, count = np.float32(0), 0
        for tap in np.ndindex(*kernel):
            q = tuple(a + t - pad for a, t in zip(o, tap, strict=True))
            if all(0 <= p < n for p, n in zip(q, x.shape, strict=True)):
                total, count = np.float32(total + np.float32(x[q])), count + 1
        y[o] = np.rint(total / np.float32(kernel[0] * kernel[1] if whole else count))
    return y


@pytest.mark.parametrize("whole", [True, False])
def test_averages_of_large_integers_add_in_row_major_order(whole: bool) -> None:
    x = np.random.default_rng(0).integers(-(2**30), 2**30, (9, 11))
    kind = "avg_include_padding" if whole else "avg_exclude_padding"
    got = onednn.forward_inference(
        x[np.newaxis, np.newaxis].astype(np.int32), kind, (3, 4), (1, 1), 0, 2, 2
    )
    assert_same(got[0, 0], added_in_order(x, (3, 4), 2, whole).astype(np.int32), kind)


@pytest.mark.parametrize("kind", ["avg_include_padding", "avg_exclude_padding"])
def test_averages_of_bytes_are_rounded_quotients(kind: str) -> None:
    """A product with the reciprocal of 82 gives less than 3.5 for the sum 287, and rounds to 3."""
    taps, sums = 82, np.arange(6 * 82)
    x = (sums[:, np.newaxis] // taps + (np.arange(taps) < sums[:, np.newaxis] % taps)).astype(
        np.int8
    )
    got = onednn.forward_inference(x[:, np.newaxis], kind, (taps,), (1,))
    want = np.rint(sums.astype(np.float32) / np.float32(taps)).astype(np.int8)
    assert_same(got[:, 0, 0], want, kind)


@pytest.mark.grid(3)
@pytest.mark.parametrize(
    ("tag", "plain"),
    [("abc", "ncw"), ("acb", "nwc"), ("abcd", "nchw"), ("acdb", "nhwc"), ("abcde", "ncdhw"),
     ("acdeb", "ndhwc")],
)  # fmt: skip
def test_formats_have_the_names_of_their_axes_too(tag: str, plain: str) -> None:
    count = len(tag) - 2
    x = np.random.default_rng(0).normal(size=(2,) + (5,) * (count + 1)).astype(np.float32)
    window = ((2,) * count, (1,) * count)
    for kind in onednn.ALGORITHMS:
        want = onednn.forward_inference(x, kind, *window, tag=plain)
        assert_same(onednn.forward_inference(x, kind, *window, tag=tag), want, tag)
    assert_same(onednn.reorder(x, tag, plain), x, tag)


def test_any_format_is_the_plain_one() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype(np.float32)
    want = onednn.forward_inference(x, "max", (2, 2), (1, 1))
    assert_same(onednn.forward_inference(x, "max", (2, 2), (1, 1), tag="any"), want, "any")


WRONG: dict[str, Any] = {
    "masked": np.ma.array([[[1.0, 2.0]]], mask=[[[False, True]]]),
    "ragged": [[[1.0, 2.0], [3.0]]],
    "times": np.zeros((1, 1, 2), "timedelta64[s]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_array_is_named(name: str) -> None:
    with pytest.raises(TypeError, match="^forward_inference: `src` .* not an array") as caught:
        onednn.forward_inference(WRONG[name], "max", (2,), (1,))
    assert len(str(caught.value).splitlines()) == 3
