"""The rules of other libraries: NaN, start values, divisors, rounding of integers.

The files test_compat_*.py compare the front ends with the libraries. This file compares every
implementation of a rule, and its derivative, with a loop over windows.
"""

import functools
import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import PORTABLE, assert_same, counted_compilations

import jaxpool
from jaxpool._geometry.ragged import adaptive_windows
from jaxpool._geometry.window import CEIL_OR_ONE
from jaxpool._lowerings import IMPLEMENTATIONS
from jaxpool._lowerings.request import Request
from jaxpool._numerics import integer_mean as _exact
from jaxpool.compat._averages import Averaging, adaptive_average_by, average_by
from jaxpool.compat._rules import (
    adaptive_max_by,
    adaptive_max_with_argmax_by,
    fractional_max_by_last_nan,
    max_by,
    max_with_argmax_by,
)
from jaxpool.ops._dispatch import WindowArguments
from jaxpool.reductions import MAX_LAST_NAN

pytestmark = pytest.mark.grid(4)

NAN, INF = np.nan, np.inf
CHANNELS_FIRST: dict[str, Any] = {"data_format": "channels_first"}
LOWEST = float(np.finfo(np.float32).min)


def holed(shape: tuple[int, ...], rng: np.random.Generator, dtype: str = "float32") -> np.ndarray:
    """Return few distinct numbers, including NaN, -inf and the lowest number."""
    numbers = [NAN, NAN, -INF, np.finfo(dtype).min, 1, 2, 3]
    return rng.choice(np.array(numbers, dtype), shape)


def argmax(elements: list[tuple[tuple[int, ...], Any]], rule: str) -> int | None:
    """Return the number of the argmax among the elements of a window, in row-major order."""
    if rule == "from_first_element":
        if np.isnan(elements[0][1]):
            return 0
        elements = [(place, -INF if np.isnan(value) else value) for place, value in elements]
    nans = [n for n, (_, value) in enumerate(elements) if np.isnan(value)]
    if nans and rule != "from_lowest":
        return nans[-1] if rule == "last_nan" else nans[0]
    best, found = (LOWEST, None) if rule == "from_lowest" else (None, None)
    for n, (_, value) in enumerate(elements):
        if best is None or value > best:
            best, found = value, n
    return found


def brute(x: np.ndarray, windows: list[list[range]], rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Return values and flat indices of a plane; for an empty window the lowest number and -1.

    ``windows`` has for each axis the positions that each window reads.
    """
    out = tuple(len(axis) for axis in windows)
    values, indices = np.full(out, np.finfo(x.dtype).min), np.full(out, -1)
    for o in np.ndindex(out):
        places = itertools.product(*(axis[i] for axis, i in zip(windows, o, strict=True)))
        real = [p for p in places if all(0 <= q < n for q, n in zip(p, x.shape, strict=True))]
        if real:
            found = argmax([(p, x[p]) for p in real], rule)
            if found is not None:
                values[o] = x[real[found]]
                indices[o] = np.ravel_multi_index(real[found], x.shape)
    if rule in ("first_nan", "last_nan"):
        values[indices < 0] = -INF
    return values, indices


def sliding(shape, kernel, strides, pads, dilations) -> list[list[range]]:
    axes = jaxpool.geometry(shape, kernel, strides, pads, dilations=dilations).axes
    return [
        [range(a.start(o), a.start(o) + a.kernel * a.dilation, a.dilation) for o in range(a.out)]
        for a in axes
    ]


# Kernel, strides, padding, dilations over a plane of 7 x 11; the fourth has empty windows.
WINDOWS = {
    "small": ((3, 2), (1, 2), ((1, 2), (0, 1)), (1, 2)),
    "long": ((2, 9), (2, 1), ((0, 1), (3, 1)), (1, 1)),
    "apart": ((2, 5), (2, 5), ((1, 0), (0, 4)), (1, 1)),
    "hollow": ((2, 3), (3, 2), ((1, 0), (4, 3)), (7, 1)),
}
RULES = ("last_nan", "from_lowest", "from_first_element")


@pytest.mark.grid(8)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", WINDOWS)
def test_values_indices_and_gradients_by_rule(
    name: str, rule: Any, rng: np.random.Generator
) -> None:
    shape, settings = (7, 11), WINDOWS[name]
    x = holed((3, *shape), rng)
    pairs = [brute(plane, sliding(shape, *settings), rule) for plane in x]
    values, indices = (np.stack(parts) for parts in zip(*pairs, strict=True))
    assert (indices >= 0).any() and np.isnan(values).any() == (rule != "from_lowest")
    # The cotangent of every output is its own number.
    numbers = np.arange(1, indices.size + 1, dtype=np.float32).reshape(indices.shape)
    want = np.zeros((3, 77), np.float32)
    for n, i in zip(range(3), indices, strict=True):
        np.add.at(want[n], i[i >= 0], numbers[n][i >= 0])

    @jax.jit
    def program(x: jax.Array) -> tuple[list, list, jax.Array | None]:
        windows = WindowArguments(*settings, **CHANNELS_FIRST)
        pools = max_with_argmax_by, lambda *arguments: (max_by(*arguments), None)
        pairs = [
            jax.vjp(lambda x, pool=pool: pool(rule, x, windows), x, has_aux=True) for pool in pools
        ]
        gradients = [pull(numbers)[0].reshape(3, 77) for _, pull, _ in pairs]
        return [pair[0] for pair in pairs], gradients, pairs[0][2]

    got_values, got_gradients, got_indices = program(x)
    assert_same(got_indices, indices.astype(np.int32), name)
    for got_value, got_gradient in zip(got_values, got_gradients, strict=True):
        assert_same(got_value, values, name)
        assert_same(got_gradient, want, name)


@pytest.mark.parametrize(
    ("name", "dtype"), [("small", "float32"), ("long", "float32"), ("long", "float16")]
)
def test_every_implementation_finds_the_last_nan(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    x = holed((7, 11), rng, dtype)
    kernel, strides, pads, dilations = WINDOWS[name]
    geometry = jaxpool.geometry(x.shape, kernel, strides, pads, dilations=dilations)
    _, indices = brute(x, sliding(x.shape, *WINDOWS[name]), "last_nan")
    asked = set()
    request = Request("argreduce", geometry, MAX_LAST_NAN, np.dtype(dtype), False, "cpu")
    for implementation in PORTABLE:
        module = IMPLEMENTATIONS[implementation].module
        if module.unsupported_reason(request) is None:
            argreduce = functools.partial(
                module.argreduce, valid=None, geometry=geometry, reduction=MAX_LAST_NAN
            )
            taps = np.unravel_index(np.asarray(jax.jit(argreduce)(x)[1], int), kernel)
            elements = np.indices(geometry.out_shape)
            places = [
                c * a.stride - a.pad_low + t * a.dilation
                for c, a, t in zip(elements, geometry.axes, taps, strict=True)
            ]
            assert (np.ravel_multi_index(places, x.shape) == indices).all(), module
            asked.add(implementation)
    some = {"reduce_window", "separable"}
    assert asked >= (some | {"slices"} if name == "small" else some | {"doubling"}), asked


@pytest.mark.parametrize(
    "marked", [("spatial", 0, False), (0, 0, False), (-1, 0, False), (0, -1, False), (0, -1, True)]
)
def test_the_index_of_an_empty_window(marked: tuple[Any, int, bool]) -> None:
    """The index is the first element of the plane in OpenVINO, -1 on every axis in ONNX Runtime."""
    space, element, column_major = marked
    x = np.zeros((2, 3, 5, 4), np.float32)
    windows = WindowArguments((2, 1), (1, 3), 1, (6, 1), **CHANNELS_FIRST)
    options = {"index_space": space, "empty_at": element, "column_major": column_major}
    _, indices = max_with_argmax_by("from_lowest", jnp.asarray(x), windows, **options)
    row, column = 1 if column_major else 4, 5 if column_major else 1
    in_plane = (row + column) * element if space != -1 else element
    plane = np.arange(6).reshape(2, 3, 1, 1) * 20 if space == 0 else 0
    empty = np.broadcast_to(plane + in_plane, (2, 3, 1, 2))
    assert_same(indices[..., :1], empty.astype(np.int32)[..., :1], marked)
    windows = WindowArguments((2, 1), 1, **CHANNELS_FIRST)
    in_data = max_with_argmax_by("from_first_element", jnp.asarray(x), windows, column_major=True)[
        1
    ]
    assert in_data[0, 0].tolist() == [[r + 5 * c for c in range(4)] for r in range(4)]


def test_start_values_by_dtype() -> None:
    """Integers and floats start from their lowest number, but 16-bit floats from -inf.

    bfloat16 does so only by OpenVINO's rule; ONNX Runtime has no kernel for it.
    """
    lowest = float(jnp.finfo(jnp.bfloat16).min)
    starts = {"float16": (-INF, -INF), "bfloat16": (-INF, lowest), "int8": (-128, -128),
              "uint8": (0, 0)}  # fmt: skip
    for dtype, expected in starts.items():
        x = jnp.full((1, 3), -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else 0, dtype)
        rules = ("from_lowest", "from_first_element")
        for rule, start in zip(rules, expected, strict=True):
            value = max_by(rule, x[:, :1], WindowArguments((1,), 2, 1, **CHANNELS_FIRST))[0, 0]
            assert value == start, (dtype, rule)


ADAPTIVE = {"uneven": (3, 5), "upsampled": (10, 2), "blocks": (1, 1), "even": (7, 1)}


@pytest.mark.grid(8)
@pytest.mark.parametrize("rule", ["last_nan", "from_first_element"])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_maxima_by_rule(name: str, rule: Any, rng: np.random.Generator) -> None:
    x = holed((7, 11), rng)
    windows = []
    for size, count in zip(x.shape, ADAPTIVE[name], strict=True):
        runs = adaptive_windows(size, count)
        windows.append([range(s, s + n) for s, n in zip(runs.starts, runs.lengths, strict=True)])
    values, indices = brute(x, windows, rule)
    arguments = rule, jnp.asarray(x[None]), ADAPTIVE[name]
    got = adaptive_max_with_argmax_by(*arguments, index_dtype=None)
    assert_same(got[0][0], values, name)
    assert_same(got[1][0], indices.astype(np.int32), name)
    assert_same(adaptive_max_by(*arguments)[0], values, name)
    gradient = jax.grad(lambda x: adaptive_max_by(rule, x, ADAPTIVE[name]).sum())(arguments[1])
    reached = indices if rule == "last_nan" else indices[~np.isnan(values)]
    want = np.bincount(reached.ravel(), minlength=77).reshape(1, 7, 11)
    assert_same(gradient, want.astype(np.float32), name)


def test_fractional_maxima_take_the_last_nan() -> None:
    x = jnp.array([[NAN, 1, NAN, 2, 5]])
    samples = jnp.array([0.5])
    _, indices = fractional_max_by_last_nan(x, (4,), 2, samples, None, "spatial", None)
    assert indices.tolist() == [[2, 2]]


# --- averages -------------------------------------------------------------------------------------


def rounded(number: Fraction, rounding: str) -> int:
    floor = number.numerator // number.denominator
    half = number - floor - Fraction(1, 2)
    if rounding == "trunc":
        return int(number)
    return floor + (half > 0 if half else floor % 2)


@pytest.mark.parametrize("rounding", ["half_even", "trunc"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integer_averages_by_rounding(rounding: Any, dtype: str, rng: np.random.Generator) -> None:
    info = np.iinfo(dtype)
    small = rng.integers(-9 if info.min else 0, 10, (40, 4))
    large = rng.integers(info.min, info.max, (40, 4), endpoint=True, dtype=dtype)
    with jax.enable_x64(dtype == "int64"):
        x = jnp.asarray(np.concatenate([small.astype(dtype), large]))
        for divisor in (4, 6, -4, 7):
            rule = Averaging(divisor=divisor, rounding=rounding)
            got = average_by(rule, x, WindowArguments((4,), 1, **CHANNELS_FIRST))[:, 0]
            exact = [Fraction(sum(row), divisor) for row in x.tolist()]
            want = [min(max(rounded(n, rounding), info.min), info.max) for n in exact]
            assert got.tolist() == want, divisor
        got = adaptive_average_by(rounding, x, (3,))
        assert got[:, 1].tolist() == [
            rounded(Fraction(row[1] + row[2], 2), rounding) for row in x.tolist()
        ]


@pytest.mark.parametrize("size", [41, 47, 55, 61, 83, 109, 243])
@pytest.mark.parametrize("rounding", ["half_even", "trunc"])
def test_an_average_that_is_an_integer_is_that_integer(size: int, rounding: Any) -> None:
    """XLA multiplies by the inverse of a constant, and 41 / 41 is less than one then."""
    x = jnp.broadcast_to(jnp.arange(-128, 128, dtype=jnp.int8)[:, None], (256, size))
    got = average_by(Averaging(rounding=rounding), x, WindowArguments((size,), 1, **CHANNELS_FIRST))
    np.testing.assert_array_equal(got[:, 0], x[:, 0])


def test_the_test_knows_the_roundings() -> None:
    halves = [Fraction(n, 2) for n in (-5, -3, 3, 5)]
    expected = {
        "half_even": [-2, -2, 2, 2],
        "trunc": [-2, -1, 1, 2],
    }
    assert set(expected) == set(_exact.Rounding.__args__)
    for rounding, whole in expected.items():
        assert [rounded(n, rounding) for n in halves] == whole


@pytest.mark.parametrize(
    ("counted", "padded", "bare"),
    [("real", 5.5, 5.5), ("declared", 11 / 3, 5.5), ("taps", 11 / 4, 11 / 3),
     ("taps_if_padded", 11 / 4, 5.5)],
)  # fmt: skip
def test_what_counts(counted: Any, padded: float, bare: float) -> None:
    """The last window has two elements, one of padding if any, and one of overhang."""
    x, rule, ceil = jnp.arange(1.0, 7.0)[None], Averaging(counted), {"rounding": "ceil"}
    padding = WindowArguments((4,), 4, ((0, 1),), **ceil, **CHANNELS_FIRST)
    with_pad = average_by(rule, x, padding)
    without = average_by(rule, x[:, 1:], WindowArguments((3,), 3, **ceil, **CHANNELS_FIRST))
    assert [with_pad[0, -1], without[0, -1]] == [np.float32(padded), np.float32(bare)]


def test_the_average_of_an_empty_window() -> None:
    x, empty = jnp.ones((1, 3)), WindowArguments((2,), 1, 1, 4, **CHANNELS_FIRST)
    past = WindowArguments((1,), 3, rounding="ceil", **CHANNELS_FIRST)
    by: Any
    for by, padded, bare in (("zero", 0, 0), ("zero_by_count", NAN, 0)):
        rule = Averaging("real", empty=by)
        assert_same(average_by(rule, x, empty), np.full((1, 1), padded, np.float32), by)
        bare_window = average_by(rule, x[:, :2], past)[:, 1:]
        assert_same(bare_window, np.full((1, 1), bare, np.float32), by)
        assert average_by(rule, jnp.ones((1, 3), jnp.int8), empty).tolist() == [[0]]


def test_one_window_that_does_not_fit() -> None:
    """PyTorch and ONNX, ceil_mode: a kernel may exceed the padded axis by less than a stride."""
    x = jnp.arange(1.0, 6.0)[None]
    windows = WindowArguments((6,), 2, rounding=CEIL_OR_ONE, **CHANNELS_FIRST)
    assert max_by("last_nan", x, windows).tolist() == [[5]]
    assert average_by(Averaging(), x, windows).tolist() == [[3]]
    for too_long in (windows._replace(window_shape=(7,)), windows._replace(rounding="ceil_torch")):
        with pytest.raises(ValueError, match="does not fit"):
            max_by("last_nan", x, too_long)


def test_the_rounding_of_front_ends_is_none_that_a_caller_can_write() -> None:
    unknown: Any = str(CEIL_OR_ONE)
    x = jnp.arange(1.0, 6.0)[None]
    for window in (6, 2):
        for _ in range(2):  # the second call would find what the first one left in a cache
            jaxpool.compat.torch.max_pool1d(x, window, 2, ceil_mode=True)
            with pytest.raises(ValueError, match="`rounding` = 'ceil_torch_or_one' is not"):
                jaxpool.max_pool(x, (window,), 2, rounding=unknown, **CHANNELS_FIRST)
    with pytest.raises(ValueError, match="is not a rounding"):
        jaxpool.geometry(5, 6, 2, rounding=unknown)


# --- one program for one rule ---------------------------------------------------------------------


def test_front_ends_share_the_program_of_the_native_op() -> None:
    """The rule is the same for averages of floats and for maxima of integers."""
    x = jnp.ones((1, 2, 9, 7))
    torch, onnx = jaxpool.compat.torch, jaxpool.compat.onnx
    native = {"padding": ((0, 0), (0, 0)), "data_format": "channels_first"}
    averages = {
        "native": lambda: jaxpool.avg_pool(x, (3, 2), (3, 2), **native),
        "torch": lambda: torch.avg_pool2d(x, (3, 2)),
        "onnx": lambda: onnx.average_pool(x, (3, 2), strides=(3, 2), count_include_pad=1),
    }
    whole = x.astype(jnp.int8)
    maxima = {
        "native": lambda: jaxpool.max_pool(whole, (3, 2), (3, 2), **native),
        "torch": lambda: torch.max_pool2d(whole, (3, 2)),
    }
    for calls in (averages, maxima):
        with counted_compilations() as found:
            for call in calls.values():
                call()
        assert len(found) == 1, found
