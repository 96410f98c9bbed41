"""Geometry against counting: every window is enumerated, and numbers are computed by hand."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import jaxpool
from jaxpool import geometry
from jaxpool.testing import oracle_pool, same_padding, window_starts

ROUNDINGS = ("floor", "ceil", "ceil_torch")

# --- one axis, by counting ------------------------------------------------------------------------

axes = st.fixed_dictionaries(
    {
        "size": st.integers(1, 30),
        "kernel": st.integers(1, 9),
        "stride": st.integers(1, 9),
        "dilation": st.integers(1, 5),
        "low": st.integers(0, 25),
        "high": st.integers(0, 25),
        "rounding": st.sampled_from(ROUNDINGS),
    }
)


def span(a: dict[str, Any]) -> int:
    """Return the number of elements from the first tap to the last."""
    return (a["kernel"] - 1) * a["dilation"] + 1


def fits(a: dict[str, Any]) -> bool:
    return span(a) <= a["size"] + a["low"] + a["high"]


def resolved(a: dict[str, Any], padding: Any = None) -> Any:
    """Return the library's axis."""
    padding = ((a["low"], a["high"]),) if padding is None else padding
    words = {"dilations": a["dilation"], "rounding": a["rounding"]}
    return geometry(a["size"], a["kernel"], a["stride"], padding, **words).axes[0]


def taps(a: dict[str, Any]) -> list[list[int]]:
    """Return the positions of the taps of every window."""
    starts = window_starts(
        a["size"], a["kernel"], a["stride"], a["low"], a["high"], a["dilation"], a["rounding"]
    )
    return [[start + t * a["dilation"] for t in range(a["kernel"])] for start in starts]


def check_axis(axis: Any, a: dict[str, Any]) -> None:
    windows = taps(a)
    end = a["size"] + a["high"]
    real = [sum(0 <= q < a["size"] for q in window) for window in windows]
    padded = [sum(q < end for q in window) for window in windows]
    assert axis.out == len(windows)
    assert [axis.start(o) for o in range(axis.out)] == [window[0] for window in windows]
    assert list(axis.counts(include_pad=False)) == real
    assert list(axis.counts(include_pad=True)) == padded
    past = [q - end + 1 for window in windows for q in window]
    assert axis.overhang == max(0, *past)
    assert (axis.size, axis.kernel, axis.stride, axis.dilation) == (
        a["size"], a["kernel"], a["stride"], a["dilation"],
    )  # fmt: skip
    assert (axis.pad_low, axis.pad_high) == (a["low"], a["high"])


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(axes)
def test_explicit_padding_agrees_with_counting(a: dict[str, Any]) -> None:
    assume(fits(a))
    check_axis(resolved(a), a)


@settings(max_examples=700, deadline=None, derandomize=True)
@given(axes, st.sampled_from(["SAME", "SAME_UPPER", "SAME_LOWER", "same", "VALID", "valid"]))
def test_padding_words_agree_with_counting(a: dict[str, Any], word: str) -> None:
    a["low"], a["high"] = 0, 0
    if word.upper() != "VALID":
        a["low"], a["high"] = same_padding(a["size"], a["kernel"], a["stride"], a["dilation"], word)
    assume(fits(a))
    check_axis(resolved(a, word), a)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(axes)
def test_a_window_fits_or_is_refused(a: dict[str, Any]) -> None:
    """The longest windows that fit, dense and of two taps, and windows longer by one element."""
    padded = a["size"] + a["low"] + a["high"]
    assume(padded > 1)
    for kernel, dilation in ((padded, 1), (2, padded - 1)):
        fitting = a | {"kernel": kernel, "dilation": dilation, "rounding": "floor"}
        assert resolved(fitting).out == 1
    for kernel, dilation in ((padded + 1, 1), (2, padded)):
        with pytest.raises(ValueError, match="does not fit pooled axis 0") as caught:
            resolved(a | {"kernel": kernel, "dilation": dilation})
        assert f"= {padded}." in str(caught.value)


def test_every_small_axis_agrees_with_counting() -> None:
    """All of them, not a sample."""
    tried = 0
    ranges = (range(1, 7), range(1, 4), range(1, 5), range(1, 4), range(4), range(4))
    for numbers, rounding in itertools.product(itertools.product(*ranges), ROUNDINGS):
        names = ("size", "kernel", "stride", "dilation", "low", "high")
        a = dict(zip(names, numbers, strict=True)) | {"rounding": rounding}
        if fits(a):
            check_axis(resolved(a), a)
            tried += 1
    assert tried > 7000


# --- several axes ---------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(axes, min_size=1, max_size=4), st.sampled_from(ROUNDINGS))
def test_axes_are_resolved_one_by_one(several: list[dict[str, Any]], rounding: Any) -> None:
    several = [a | {"rounding": rounding} for a in several]
    assume(all(map(fits, several)))
    whole = geometry(
        [a["size"] for a in several],
        [a["kernel"] for a in several],
        [a["stride"] for a in several],
        [(a["low"], a["high"]) for a in several],
        dilations=[a["dilation"] for a in several],
        rounding=rounding,
    )
    assert whole.axes == tuple(resolved(a) for a in several)
    assert whole.spatial_shape == tuple(a["size"] for a in several)
    assert whole.out_shape == tuple(len(taps(a)) for a in several)
    assert whole.kernel == tuple(a["kernel"] for a in several)
    assert whole.taps == np.prod([a["kernel"] for a in several])
    if len(several) == 2:
        check_products(whole, several)


def check_products(whole: Any, several: list[dict[str, Any]]) -> None:
    """Check that a tap of two axes counts if it counts on both."""
    rows, columns = (taps(a) for a in several)
    tall, wide = (a["size"] for a in several)
    counted = [
        [sum(0 <= r < tall and 0 <= c < wide for r in row for c in column) for column in columns]
        for row in rows
    ]
    product = np.outer(*(axis.counts(include_pad=False) for axis in whole.axes))
    assert product.tolist() == counted


# --- SAME -----------------------------------------------------------------------------------------


@settings(max_examples=700, deadline=None, derandomize=True)
@given(axes, st.sampled_from(["SAME", "SAME_LOWER"]))
def test_same_sizes(a: dict[str, Any], word: str) -> None:
    """There are ceil(L / S) windows; plain ceil adds one exactly if padding was clamped at 0."""
    axis = resolved(a, word)
    rest = a["size"] % a["stride"] or a["stride"]
    clamped = span(a) < rest
    assert axis.out == -(-a["size"] // a["stride"]) + (a["rounding"] == "ceil" and clamped)
    assert axis.pad_low + axis.pad_high == max(span(a) - rest, 0)
    assert axis.pad_high - axis.pad_low in ((0, 1) if word == "SAME" else (0, -1))


@settings(max_examples=500, deadline=None, derandomize=True)
@given(axes)
def test_the_roundings_are_ordered(a: dict[str, Any]) -> None:
    """ceil adds at most one window to floor; ceil_torch drops at most one of ceil."""
    assume(fits(a))
    floor, ceil, torch = (resolved(a | {"rounding": rounding}).out for rounding in ROUNDINGS)
    assert floor <= ceil <= floor + 1
    assert ceil - 1 <= torch <= ceil
    if a["high"] < span(a):
        assert torch >= floor


# --- numbers worked by hand -----------------------------------------------------------------------


def outs(size: int, kernel: int, stride: int, padding: Any = 0, dilation: int = 1) -> list[int]:
    """Return the number of windows under each rounding."""
    return [
        geometry(size, kernel, stride, padding, dilations=dilation, rounding=rounding).out_shape[0]
        for rounding in ROUNDINGS
    ]


def test_ceil_torch_looks_at_the_start_of_the_last_window() -> None:
    """It starts at 4, past 4 elements without low padding; an element of low padding keeps it."""
    assert outs(4, 2, 4, ((0, 1),)) == [1, 2, 1]
    assert outs(4, 2, 4, ((1, 0),)) == [1, 2, 2]


def test_ceil_torch_can_give_fewer_windows_than_floor() -> None:
    assert outs(4, 2, 4, ((0, 2),)) == [2, 2, 1]


def test_ceil_torch_keeps_a_window_whose_taps_all_miss_the_data() -> None:
    """Taps -1 and 3 of three elements: the window starts in padding, its other tap past the end."""
    axis = geometry(3, 2, 1, 1, dilations=4, rounding="ceil_torch").axes[0]
    assert (axis.out, axis.counts(include_pad=False), axis.counts(include_pad=True)) == (
        1,
        (0,),
        (2,),
    )


def test_same_with_ceil_exceeds_the_quotient() -> None:
    assert outs(5, 1, 3, "SAME") == [2, 3, 2]
    axis = geometry(5, 1, 3, "SAME", rounding="ceil").axes[0]
    assert axis.counts(include_pad=False) == (1, 1, 0)
    assert axis.overhang == 2


def test_valid_obeys_the_rounding() -> None:
    assert outs(3, 2, 2, "VALID") == [1, 2, 2]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "upper"),
    [
        (6, 3, 2, 1, (0, 1)),
        (4, 4, 1, 1, (1, 2)),
        (6, 3, 2, 2, (1, 2)),  # for the dilated window; ONNX Runtime pads for 3 elements
        (5, 7, 2, 1, (3, 3)),
        (7, 1, 4, 1, (0, 0)),  # clamped; ONNX Runtime would start inside the data
        (5, 1, 3, 1, (0, 0)),
        (224, 7, 2, 1, (2, 3)),
        (1, 1, 1, 1, (0, 0)),
    ],
)
def test_same_padding(
    size: int, kernel: int, stride: int, dilation: int, upper: tuple[int, int]
) -> None:
    for word, pads in (("SAME", upper), ("SAME_UPPER", upper), ("same_lower", upper[::-1])):
        axis = geometry(size, kernel, stride, word, dilations=dilation).axes[0]
        assert (axis.pad_low, axis.pad_high) == pads


def test_overhang_is_no_padding() -> None:
    """1..6, K=3 S=2, pads 1: the last window has element 5, padding 6 and overhang 7."""
    axis = geometry(6, 3, 2, 1, rounding="ceil").axes[0]
    assert (axis.out, axis.pad_high, axis.overhang) == (4, 1, 1)
    assert axis.counts(include_pad=True) == (3, 3, 3, 2)
    assert axis.counts(include_pad=False) == (2, 3, 3, 1)


def test_dilated_overhang() -> None:
    """Taps 5, 7 and 9 of 8 elements and padding 1: only tap 9 is overhang."""
    axis = geometry(8, 3, 3, 1, dilations=2, rounding="ceil").axes[0]
    assert axis.start(2) == 5
    assert axis.counts(include_pad=True)[2] == 2
    assert axis.overhang == 1


def test_real_networks() -> None:
    assert geometry((112, 112), (3, 3), 2, 1).out_shape == (56, 56)
    assert geometry((112, 112), (3, 3), 2, rounding="ceil_torch").out_shape == (56, 56)
    assert geometry((112, 112), (3, 3), 2).out_shape == (55, 55)
    assert geometry((55, 55), 2 * (3,), 2).out_shape == (27, 27)
    assert geometry((16, 7, 7), (2, 2, 2), 2, ((0, 0), (0, 1), (0, 1))).out_shape == (8, 4, 4)


# --- spellings, and the properties of a geometry object -------------------------------------------


def test_one_int_stands_for_all_axes_and_ends() -> None:
    long = geometry((9, 8), (3, 2), (2, 2), ((1, 1), (1, 1)), dilations=(1, 1))
    assert geometry((9, 8), (3, 2), 2, 1) == long
    assert geometry([9, 8], [3, 2], [2, 2], [1, 1], dilations=[1, 1]) == long
    arrays: Any = (np.array([9, 8]), np.array([3, 2]), np.int64(2), np.array([[1, 1], [1, 1]]))
    assert geometry(*arrays) == long


def test_geometry_is_frozen_and_hashable() -> None:
    first, second = (geometry((9, 8), (3, 2), 2, word) for word in ("same", "SAME_UPPER"))
    assert first == second and hash(first) == hash(second)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.axes = ()  # pyright: ignore[reportAttributeAccessIssue]
    assert all(type(n) is int for axis in first.axes for n in dataclasses.astuple(axis))


def test_output_shape_follows_the_layout() -> None:
    """The other axes are unchanged; the pooled axes are those of the geometry."""
    window = ((3, 2), (2, 3), ((1, 0), (0, 2)))
    sizes = geometry((9, 8), *window).out_shape
    for shape, layout, want in [
        ((4, 9, 8, 5), "channels_last", (4, *sizes, 5)),
        ((9, 8, 5), "channels_last", (*sizes, 5)),
        ((2, 4, 9, 8, 5), "channels_last", (2, 4, *sizes, 5)),
        ((4, 5, 9, 8), "channels_first", (4, 5, *sizes)),
        ((5, 9, 8), "CHW", (5, *sizes)),
        ((9, 8), "HW", sizes),
        ((0, 9, 8, 0), "NHWC", (0, *sizes, 0)),
    ]:
        assert jaxpool.output_shape(shape, *window, data_format=layout) == want


# --- rejections -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"window_shape": 0}, ValueError, "`window_shape` contains 0"),
        ({"window_shape": -1}, ValueError, "`window_shape` contains -1"),
        ({"strides": 0}, ValueError, "`strides` contains 0"),
        ({"strides": -2}, ValueError, "`strides` contains -2"),
        ({"dilations": 0}, ValueError, "`dilations` contains 0"),
        ({"padding": -1}, ValueError, "`padding` contains -1"),
        ({"padding": ((0, -1),)}, ValueError, "`padding` contains -1"),
        ({"padding": "full"}, ValueError, "'full' is not a padding"),
        ({"padding": ((0, 1, 2),)}, ValueError, r"the entry \(0, 1, 2\)"),
        ({"rounding": "round"}, ValueError, "'round' is not a rounding"),
        ({"window_shape": 6}, ValueError, "does not fit pooled axis 0"),
        ({"window_shape": 3, "dilations": 3}, ValueError, "spans 7 elements at dilation 3"),
        ({"spatial_shape": 0, "padding": 3}, ValueError, "pooled axis 0 has size 0"),
        ({"spatial_shape": (5, 5)}, ValueError, r"`spatial_shape` = \(5, 5\) has 2 entries"),
        ({"strides": (1, 1)}, ValueError, r"`strides` = \(1, 1\) has 2 entries"),
        ({"dilations": (1, 1)}, ValueError, r"`dilations` = \(1, 1\) has 2 entries"),
        ({"padding": (1, 1)}, ValueError, r"`padding` = \(1, 1\) has 2 entries"),
        ({"window_shape": ()}, ValueError, "`window_shape` has 0 entries"),
        ({"window_shape": 2.0}, TypeError, "`window_shape` contains 2.0"),
        ({"strides": True}, TypeError, "`strides` contains True"),
        ({"padding": 0.5}, TypeError, "`padding` contains 0.5"),
        ({"dilations": None}, TypeError, "`dilations` contains None"),
    ],
)
def test_rejections(words: dict[str, Any], error: type[Exception], message: str) -> None:
    call: dict[str, Any] = {"spatial_shape": 5, "window_shape": 2, "strides": 1}
    geometry(**call)
    with pytest.raises(error, match=message):
        geometry(**(call | words))


def test_span_and_reach_are_those_of_the_taps() -> None:
    cases: list[Any] = [
        (9, 3, 2, (1, 2), 2, "floor"),
        (9, 3, 4, (0, 0), 1, "floor"),
        (10, 4, 3, (2, 0), 1, "ceil"),
    ]
    for size, kernel, stride, pads, dilation, rounding in cases:
        found = jaxpool.geometry(
            size, kernel, stride, (pads,), dilations=dilation, rounding=rounding
        )
        (axis,) = found.axes
        taps = [axis.start(axis.out - 1) + t * dilation for t in range(kernel)]
        assert axis.span == taps[-1] - taps[0] + 1
        assert axis.overshoot == taps[-1] + 1 - size


def test_the_oracle_takes_arrays_as_settings() -> None:
    x = np.arange(42.0).reshape(1, 7, 6, 1)
    want = oracle_pool(x, "max", (3, 2), (2, 1), ((1, 0), (0, 1)))
    settings = np.array([3, 2]), np.array([2, 1]), np.array([[1, 0], [0, 1]])
    np.testing.assert_array_equal(oracle_pool(x, "max", *settings), want)
