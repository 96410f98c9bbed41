"""Indices of maxima in every index space: by hand, and recomputed from taps in NumPy."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same, permutation

import jaxpool

pytestmark = pytest.mark.grid(8)

NAN, INF = float("nan"), float("inf")


def indices(x: Any, *window: Any, **settings: Any) -> np.ndarray:
    """Return the second result of max_pool_with_argmax."""
    return np.asarray(jaxpool.max_pool_with_argmax(jnp.asarray(x), *window, **settings)[1])


def along(x: Any, window: int, strides: int = 1, padding: Any = "VALID", **settings: Any) -> list:
    """Return indices over a vector."""
    x = np.asarray(x, settings.pop("dtype", np.float32))
    return indices(x, window, strides, padding, data_format="W", **settings).tolist()


# --- by hand --------------------------------------------------------------------------------------

COUNTING = np.arange(24, dtype=np.float32)
NCHW, NHWC = (2, 2, 2, 3), (2, 2, 3, 2)

# The largest element of each 2x2 window is its last. Elements of NCHW (2, 2, 2, 3) are numbered
# 0 .. 23: the maxima are elements 4, 5 of the first plane, 10, 11 of the second, and so on.
SPACES_OF_NCHW: dict[str | int, list[int]] = {
    0: [4, 5, 10, 11, 16, 17, 22, 23],
    -4: [4, 5, 10, 11, 16, 17, 22, 23],
    1: [4, 5, 10, 11, 4, 5, 10, 11],
    -3: [4, 5, 10, 11, 4, 5, 10, 11],
    2: [4, 5] * 4,
    -2: [4, 5] * 4,
    "spatial": [4, 5] * 4,
    3: [1, 2] * 4,
    -1: [1, 2] * 4,
    "window": [3] * 8,
}


@pytest.mark.parametrize("space", SPACES_OF_NCHW)
def test_spaces_of_channels_first_by_hand(space: Any) -> None:
    for layout in ("NCHW", "channels_first"):
        got = indices(
            COUNTING.reshape(NCHW), (2, 2), 1, data_format=layout, index_space=space
        )  # fmt: skip
        assert got.ravel().tolist() == SPACES_OF_NCHW[space]


# The same numbers as NHWC (2, 2, 3, 2): the maxima are at h = 1, w = 1 and 2, c = 0 and 1; element
# (h, w, c) of an image has number (3 h + w) * 2 + c, and an image has 12 elements.
SPACES_OF_NHWC: dict[str | int, list[int]] = {
    0: [8, 9, 10, 11, 20, 21, 22, 23],
    1: [8, 9, 10, 11, 8, 9, 10, 11],  # TensorFlow's
    2: [2, 3, 4, 5] * 2,
    3: [0, 1, 0, 1] * 2,
    -1: [0, 1, 0, 1] * 2,
    "spatial": [4, 4, 5, 5] * 2,
    "window": [3] * 8,
}


@pytest.mark.parametrize("space", SPACES_OF_NHWC)
def test_spaces_of_channels_last_by_hand(space: Any) -> None:
    for layout in ("NHWC", "channels_last"):
        got = indices(
            COUNTING.reshape(NHWC), (2, 2), 1, data_format=layout, index_space=space
        )  # fmt: skip
        assert got.ravel().tolist() == SPACES_OF_NHWC[space]


def test_taps_count_row_major_over_three_axes() -> None:
    for td, th, tw in itertools.product(range(2), range(3), range(4)):
        x = np.zeros((2, 3, 4), np.float32)
        x[td, th, tw] = 1
        got = indices(x, (2, 3, 4), 1, data_format="DHW", index_space="window")
        assert got.tolist() == [[[(td * 3 + th) * 4 + tw]]]


HANDMADE: dict[str, tuple[Callable[[], list], list[int]]] = {
    "padding never counts": (lambda: along([1, 2, 3], 2, 1, 1), [0, 1, 2, 2]),
    "low padding alone": (lambda: along([1, 2, 3], 2, 1, ((2, 0),)), [-1, 0, 1, 2]),
    "dilated taps": (lambda: along([5, 1, 2, 3, 4], 2, 1, dilations=3), [0, 4]),
    "dilated, first tap in the padding": (
        lambda: along([1, 2, 3, 4], 2, 2, 1, dilations=2),
        [1, 3],
    ),
    "the first of equals": (lambda: along([7, 7, 7, 7], 3), [0, 1]),
    "the first of equals, padded": (lambda: along([7, 7, 7], 2, 1, 1), [0, 0, 1, 2]),
    "both zeros are equal": (lambda: along([0.0, -0.0, -0.0, 0.0], 2), [0, 1, 2]),
    "NaN first": (lambda: along([NAN, 1, NAN, 2], 4), [0]),
    "NaN last": (lambda: along([1, 5, 2, NAN], 4), [3]),
    "all NaN": (lambda: along([NAN, NAN, NAN], 3), [0]),
    "NaN over infinity": (lambda: along([INF, NAN, INF], 3), [1]),
    "-inf is an element": (lambda: along([-INF, -INF, -INF], 2, 1, 1), [0, 0, 1, 2]),
    "lowest over -inf": (lambda: along([-INF, np.finfo(np.float32).min], 2), [1]),
    "the lowest integer is an element": (
        lambda: along([-128, -128], 2, 1, 1, dtype=np.int8),
        [0, 0, 1],
    ),
    "zero of an unsigned integer is an element": (
        lambda: along([0, 0], 2, 1, 1, dtype=np.uint8),
        [0, 0, 1],
    ),
    "False is an element": (lambda: along([False, False, True], 2, 1, 1, dtype=bool), [0, 0, 2, 2]),
    "overhang": (lambda: along([1, 2, 3, 4, 5], 2, 2, rounding="ceil"), [1, 3, 4]),
    "no element at all": (lambda: along([1, 2, 3], 2, 1, 1, dilations=4), [-1]),
    "windows wholly in the padding": (lambda: along([1, 2], 1, 1, 2), [-1, -1, 0, 1, -1, -1]),
    "masked": (lambda: along([9, 2, 3], 2, where=[False, True, True]), [1, 2]),
    "all of a window masked": (lambda: along([9, 2, 3], 2, where=[False, False, True]), [-1, 2]),
}


@pytest.mark.parametrize("case", HANDMADE)
def test_indices_by_hand(case: str) -> None:
    call, want = HANDMADE[case]
    assert call() == want


# --- against NumPy --------------------------------------------------------------------------------

# layout, shape, window, strides, padding, dilations, rounding: different on every axis.
CASES: dict[str, tuple[Any, ...]] = {
    "vector": ("W", (11,), (3,), (2,), ((1, 2),), (2,), "ceil"),
    "NWC": ("NWC", (2, 9, 3), (4,), (3,), ((3, 0),), (1,), "floor"),
    "NHWC": ("NHWC", (2, 7, 6, 3), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 3), "floor"),
    "NCHW": ("NCHW", (2, 3, 6, 9), (2, 3), (1, 2), ((2, 1), (0, 1)), (2, 1), "ceil"),
    "HWC": ("HWC", (5, 8, 2), (2, 4), (3, 2), "SAME", (1, 1), "ceil_torch"),
    "HWNC": ("HWNC", (6, 5, 2, 3), (3, 2), (1, 3), ((0, 2), (1, 0)), (1, 2), "ceil"),
    "HNW": ("HNW", (7, 2, 5), (2, 3), (2, 1), ((1, 0), (0, 1)), (1, 1), "floor"),
    "NDHWC": ("NDHWC", (2, 4, 5, 6, 2), (2, 1, 3), (1, 2, 2), ((1, 0), (0, 1), (0, 2)),
              (2, 1, 1), "floor"),
    "NCDHW": ("NCDHW", (1, 2, 5, 4, 7), (3, 2, 2), (2, 1, 3), "SAME_LOWER", (1, 2, 3), "ceil"),
    "empty windows": ("NHWC", (2, 3, 4, 2), (1, 2), (2, 1), ((2, 3), (0, 3)), (1, 1), "floor"),
    "batch of batches": ("channels_last", (2, 3, 5, 6, 2), (2, 3), (2, 1), ((0, 1), (2, 0)),
                         (3, 1), "floor"),
    "channels first": ("channels_first", (2, 3, 2, 8, 5), (3, 2), (1, 2), ((1, 1), (0, 0)),
                       (2, 3), "ceil"),
}  # fmt: skip


def pooled_axes(layout: str, rank: int, count: int) -> list[int]:
    if layout == "channels_last":
        return list(range(rank - 1 - count, rank - 1))
    if layout == "channels_first":
        return list(range(rank - count, rank))
    return [axis for axis, letter in enumerate(layout) if letter in "DHW"]


def recomputed(taps: np.ndarray, shape: tuple[int, ...], axes: list[int], *window: Any) -> list:
    """Return the positions of the taps on every axis of the array, by definition."""
    kernel, strides, lows, dilations = window
    position = list(np.indices(taps.shape))
    for number, tap in enumerate(np.unravel_index(np.maximum(taps, 0), kernel)):
        start = position[axes[number]] * strides[number] - lows[number]
        position[axes[number]] = start + tap * dilations[number]
    return position


@pytest.mark.grid(16)
@pytest.mark.parametrize("name", CASES)
def test_every_space_is_recomputed_from_taps(name: str, rng: np.random.Generator) -> None:
    layout, shape, kernel, strides, padding, dilations, rounding = CASES[name]
    rank, x = len(shape), permutation(shape, np.float32, rng)
    axes = pooled_axes(layout, rank, len(kernel))
    spaces: list[Any] = ["window", "spatial", *range(-rank, rank)]
    words: Any = {"dilations": dilations, "rounding": rounding, "data_format": layout}

    @jax.jit
    def pooled(x: jax.Array) -> tuple[jax.Array, dict[str | int, jax.Array]]:
        found = {
            str(space): jaxpool.max_pool_with_argmax(
                x, kernel, strides, padding, index_space=space, **words
            )
            for space in spaces
        }
        return found["window"][0], {space: pair[1] for space, pair in found.items()}

    values, found = jax.tree.map(np.asarray, pooled(x))
    sizes = [shape[axis] for axis in axes]
    geometry = jaxpool.geometry(
        sizes, kernel, strides, padding, dilations=dilations, rounding=rounding
    )
    lows = [axis.pad_low for axis in geometry.axes]
    taps = found["window"]
    none = taps == 255
    assert none.any() == geometry.has_empty_window
    position = recomputed(np.where(none, 0, taps), shape, axes, kernel, strides, lows, dilations)
    inside = tuple(np.where(none, 0, place) for place in position)
    assert all((0 <= p).all() and (p < n).all() for p, n in zip(inside, shape, strict=True))
    assert_same(values, np.where(none, np.float32(-INF), x[inside]), name)
    for space in spaces[1:]:
        counted = axes if space == "spatial" else range(int(space) % rank, rank)
        flat = np.ravel_multi_index(
            [inside[axis] for axis in counted], [shape[axis] for axis in counted]
        )
        want = np.where(none, -1, flat).astype(np.int32)
        assert_same(found[str(space)], want, (name, space))


@pytest.mark.parametrize("name", CASES)
def test_flat_indices_lead_to_the_maxima(name: str, rng: np.random.Generator) -> None:
    layout, shape, kernel, strides, padding, dilations, rounding = CASES[name]
    x = permutation(shape, np.int32, rng)
    words = {"dilations": dilations, "rounding": rounding, "data_format": layout}
    values, index = jaxpool.max_pool_with_argmax(
        x, kernel, strides, padding, index_space=0, **words
    )
    index = np.asarray(index)
    expected = np.where(index < 0, np.iinfo(np.int32).min, x.ravel()[index])
    assert_same(values, expected, name)


# --- dtypes ---------------------------------------------------------------------------------------

DTYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


def test_default_dtypes() -> None:
    x = np.zeros((1, 4, 5, 1), np.float32)
    for space, dtype in {"spatial": "int32", 0: "int32", -1: "int32", "window": "uint8"}.items():
        assert indices(x, (2, 2), 1, index_space=space).dtype == dtype
    with jax.enable_x64(True):
        assert indices(x, (2, 2), 1).dtype == np.int32, "the default does not depend on x64"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("space", ["window", "spatial", 0, 3])
def test_every_index_dtype_holds_the_same_numbers(space: Any, dtype: str) -> None:
    x = np.random.default_rng(7).permutation(2 * 5 * 4 * 3).reshape(2, 5, 4, 3)
    x = x.astype(np.float32)
    want = indices(x, (3, 2), (1, 2), index_space=space)
    got = indices(x, (3, 2), (1, 2), index_space=space, index_dtype=dtype)
    assert got.dtype == dtype
    assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("space", ["window", "spatial", 0])
def test_wide_indices_with_wide_types_on(space: Any, dtype: str) -> None:
    x = np.arange(40, dtype=np.float32)[::-1].reshape(1, 5, 8, 1).copy()
    want = indices(x, (3, 2), (1, 2), index_space=space)
    with jax.enable_x64(True):
        got = indices(x, (3, 2), (1, 2), index_space=space, index_dtype=dtype)
    assert got.dtype == dtype and np.array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_window_without_an_element_is_marked_in_every_dtype(dtype: str) -> None:
    """The sentinel is -1, which is the largest number of an unsigned window space."""
    mark = np.asarray(-1).astype(dtype)
    want = np.array([mark, 0, 0, 1, mark, mark]).astype(dtype)
    got = along([2, 1], 2, 1, ((2, 3),), index_space="window", index_dtype=dtype)
    assert got == [int(mark), 1, 0, 0, int(mark), int(mark)]
    if np.iinfo(dtype).min < 0:
        flat = along([2, 1], 2, 1, ((2, 3),), index_space="spatial", index_dtype=dtype)
        assert flat == want.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_masked_window_is_marked_in_every_dtype(dtype: str) -> None:
    mark = int(np.asarray(-1).astype(dtype))
    words: dict[str, Any] = {"where": [True, False, False], "index_dtype": dtype}
    assert along([1, 2, 3], 2, index_space="window", **words) == [0, mark]


def test_the_largest_index_of_a_dtype_is_right() -> None:
    for elements, dtype in ((128, "int8"), (256, "uint8"), (32768, "int16"), (65536, "uint16")):
        x = np.arange(elements, dtype=np.float32)
        got = along(x, 3, 1, index_dtype=dtype)
        assert got == list(range(2, elements))


# --- many taps ------------------------------------------------------------------------------------

# taps, window, dtype of a tap: 255 taps are numbered 0 .. 254, and 255 marks an empty window.
MANY: dict[int, tuple[tuple[int, ...], str]] = {
    254: ((2, 127), "uint8"),
    255: ((15, 17), "uint8"),
    256: ((16, 16), "int32"),
    257: ((257,), "int32"),
    600: ((5, 4, 30), "int32"),
}


@pytest.mark.parametrize("taps", MANY)
def test_the_dtype_of_taps_changes_after_255(taps: int) -> None:
    kernel, dtype = MANY[taps]
    shape = tuple(k + 1 for k in kernel)
    layout = "DHW"[-len(kernel) :]
    corners = [np.zeros(shape, np.float32) for _ in range(2)]
    corners[0][(0,) * len(shape)] = 1
    corners[1][tuple(k - 1 for k in kernel)] = 1
    for x, tap in zip(corners, (0, taps - 1), strict=True):
        got = indices(x, kernel, kernel, data_format=layout, index_space="window")
        assert got.dtype == dtype
        assert got.ravel().tolist() == [tap]


@pytest.mark.parametrize("taps", MANY)
def test_many_taps_beside_empty_windows(taps: int) -> None:
    kernel, dtype = MANY[taps]
    layout = "DHW"[-len(kernel) :]
    x = np.arange(np.prod(kernel), dtype=np.float32).reshape(kernel)
    padding = [(k, 0) for k in kernel]
    got = indices(x, kernel, kernel, padding, data_format=layout, index_space="window")
    mark = 255 if dtype == "uint8" else -1
    want = np.full((2,) * len(kernel), mark)
    want[(1,) * len(kernel)] = taps - 1
    assert got.tolist() == want.tolist()
    flat = indices(x, kernel, kernel, padding, data_format=layout)
    assert flat.tolist() == np.where(want == mark, -1, want).tolist()


def test_a_signed_byte_holds_128_taps() -> None:
    x = np.arange(200, dtype=np.float32)
    words: dict[str, Any] = {"index_space": "window", "index_dtype": np.int8}
    assert along(x, 128, 72, ((72, 0),), **words) == [127, 127, 127]
    assert along(x, 128, 128, ((128, 0),), **words) == [-1, 127]


# --- inside transformations -----------------------------------------------------------------------


@pytest.mark.parametrize("space", ["window", "spatial", 0, -2])
def test_under_vmap_an_axis_is_that_of_one_example(space: Any) -> None:
    x = np.random.default_rng(3).permutation(3 * 2 * 5 * 4).reshape(3, 2, 5, 4)
    x = x.astype(np.float32)

    def one(x: Any) -> jax.Array:
        return jaxpool.max_pool_with_argmax(
            x, (2, 3), 1, 1, data_format="CHW", index_space=space
        )[1]  # fmt: skip

    want = np.stack([np.asarray(one(example)) for example in x])
    assert_same(jax.vmap(one)(x), want, space)
    moved = jax.vmap(one, in_axes=2, out_axes=1)(np.moveaxis(x, 0, 2))
    assert_same(moved, np.moveaxis(want, 0, 1), space)


@pytest.mark.parametrize("space", ["window", "spatial", 1])
def test_indices_do_not_depend_on_being_compiled_with_gradients(space: Any) -> None:
    x = np.random.default_rng(5).permutation(2 * 6 * 5 * 3).reshape(2, 6, 5, 3)
    x = x.astype(np.float32)

    def squares(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, index = jaxpool.max_pool_with_argmax(x, (3, 2), 2, 1, index_space=space)
        return (values**2).sum(), index

    gradient, index = jax.jit(jax.grad(squares, has_aux=True))(x)
    assert_same(index, indices(x, (3, 2), 2, 1, index_space=space), space)
    assert np.count_nonzero(gradient) > 0
