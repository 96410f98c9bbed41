"""The rules of other systems inside the ops: NaN, start values, divisors, rounding of integers.

What the front ends make of them is compared with the systems themselves, in test_compat_*.py; here
every way to compute a rule is compared with a loop over windows, and with its derivative.
"""

import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same

import jaxpool
from jaxpool import _exact
from jaxpool._reductions import MAX_LAST_NAN
from jaxpool.lowerings import LOWERINGS
from jaxpool.ops.adaptive import (
    adaptive_average_by,
    adaptive_max_by,
    adaptive_max_with_argmax_by,
    share_out,
)
from jaxpool.ops.average import Averaging, average_by
from jaxpool.ops.fractional import fractional_max_by
from jaxpool.ops.max import max_by, max_with_argmax_by

NAN, INF = np.nan, np.inf
LOWEST = float(np.finfo(np.float32).min)


def holed(shape: tuple[int, ...], rng: np.random.Generator, dtype: str = "float32") -> np.ndarray:
    """Few distinct numbers, with NaN, -inf and the lowest number among them."""
    numbers = [NAN, NAN, -INF, np.finfo(dtype).min, 1, 2, 3]
    return rng.choice(np.array(numbers, dtype), shape)


def best_cell(cells: list[tuple[tuple[int, ...], Any]], rule: str) -> int | None:
    """The number of the cell that wins, of the real cells of a window in row-major order."""
    if rule == "from_first_cell":
        if np.isnan(cells[0][1]):
            return 0
        cells = [(place, -INF if np.isnan(value) else value) for place, value in cells]
    nans = [n for n, (_, value) in enumerate(cells) if np.isnan(value)]
    if nans and rule != "from_lowest":
        return nans[-1] if rule == "last_nan" else nans[0]
    best, found = (LOWEST, None) if rule == "from_lowest" else (None, None)
    for n, (_, value) in enumerate(cells):
        if best is None or value > best:
            best, found = value, n
    return found


def brute(x: np.ndarray, windows: list[list[range]], rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Values and flat indices of a plane; an empty window has the lowest number and index -1.

    ``windows`` holds for each axis the positions that each window reads.
    """
    out = tuple(len(axis) for axis in windows)
    values, indices = np.full(out, np.finfo(x.dtype).min), np.full(out, -1)
    for o in np.ndindex(out):
        places = itertools.product(*(axis[i] for axis, i in zip(windows, o, strict=True)))
        real = [p for p in places if all(0 <= q < n for q, n in zip(p, x.shape, strict=True))]
        if real:
            winner = best_cell([(p, x[p]) for p in real], rule)
            if winner is not None:
                values[o] = x[real[winner]]
                indices[o] = np.ravel_multi_index(real[winner], x.shape)
    if rule in ("first_nan", "last_nan"):
        values[indices < 0] = -INF
    return values, indices


def sliding(shape, kernel, strides, pads, dilations) -> list[list[range]]:
    axes = jaxpool.geometry(shape, kernel, strides, pads, dilations=dilations).axes
    return [
        [range(a.start(o), a.start(o) + a.kernel * a.dilation, a.dilation) for o in range(a.out)]
        for a in axes
    ]


# Kernel, strides, padding, dilations over a plane of 7 x 11; the fourth has windows without a cell.
WINDOWS = {
    "small": ((3, 2), (1, 2), ((1, 2), (0, 1)), (1, 2)),
    "long": ((2, 9), (2, 1), ((0, 1), (3, 1)), (1, 1)),
    "apart": ((2, 5), (2, 5), ((1, 0), (0, 4)), (1, 1)),
    "hollow": ((2, 3), (3, 2), ((1, 0), (4, 3)), (7, 1)),
}
RULES = ("last_nan", "from_lowest", "from_first_cell")


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
    # Every output sends its own number to the cell that its index names.
    numbers = np.arange(1, indices.size + 1, dtype=np.float32).reshape(indices.shape)
    want = np.zeros((3, 77), np.float32)
    for n, i in zip(range(3), indices, strict=True):
        np.add.at(want[n], i[i >= 0], numbers[n][i >= 0])

    @jax.jit
    def program(x: jax.Array) -> tuple[list, list, jax.Array | None]:
        pools = max_with_argmax_by, lambda *words: (max_by(*words), None)
        pairs = [
            jax.vjp(lambda x, pool=pool: pool("test", rule, x, *settings), x, has_aux=True)
            for pool in pools
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
def test_every_lowering_finds_the_last_nan(name: str, dtype: str, rng: np.random.Generator) -> None:
    x = holed((7, 11), rng, dtype)
    kernel, strides, pads, dilations = WINDOWS[name]
    geometry = jaxpool.geometry(x.shape, kernel, strides, pads, dilations=dilations)
    _, indices = brute(x, sliding(x.shape, *WINDOWS[name]), "last_nan")
    asked = 0
    for module in LOWERINGS.values():
        if module.why_not(geometry, MAX_LAST_NAN, np.dtype(dtype)) is None:
            select = jax.jit(lambda x, m=module: m.select(x, None, geometry, MAX_LAST_NAN)[1])
            taps = np.unravel_index(np.asarray(select(x), int), kernel)
            cells = np.indices(geometry.out_shape)
            places = [
                c * a.stride - a.pad_low + t * a.dilation
                for c, a, t in zip(cells, geometry.axes, taps, strict=True)
            ]
            assert (np.ravel_multi_index(places, x.shape) == indices).all(), module
            asked += 1
    assert asked == (3 if name == "small" else 2)


@pytest.mark.parametrize(
    "marked", [("spatial", 0, False), (0, 0, False), (-1, 0, False), (0, -1, False), (0, -1, True)]
)
def test_the_index_of_an_empty_window(marked: tuple[Any, int, bool]) -> None:
    """OpenVINO names the first cell of the plane, ONNX Runtime the one before it on every axis."""
    space, cell, column_major = marked
    x = np.zeros((2, 3, 5, 4), np.float32)
    _, indices = max_with_argmax_by(
        "test", "from_lowest", x, (2, 1), (1, 3), 1, (6, 1),
        index_space=space, empty_cell=cell, column_major=column_major,
    )  # fmt: skip
    row, column = 1 if column_major else 4, 5 if column_major else 1
    in_plane = (row + column) * cell if space != -1 else cell
    plane = np.arange(6).reshape(2, 3, 1, 1) * 20 if space == 0 else 0
    empty = np.broadcast_to(plane + in_plane, (2, 3, 1, 2))
    assert_same(indices[..., :1], empty.astype(np.int32)[..., :1], marked)
    in_data = max_with_argmax_by("test", "from_first_cell", x, (2, 1), 1, 0, column_major=True)[1]
    assert in_data[0, 0].tolist() == [[r + 5 * c for c in range(4)] for r in range(4)]


def test_start_values_by_dtype() -> None:
    """float16 starts from -inf, other floats from their lowest number, integers from theirs."""
    for dtype, start in (("float16", -INF), ("bfloat16", None), ("int8", -128), ("uint8", 0)):
        x = jnp.full((1, 3), -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else 0, dtype)
        for rule in ("from_lowest", "from_first_cell"):
            value = max_by("test", rule, x[:, :1], (1,), 2, 1)[0, 0]
            assert value == (jnp.finfo(dtype).min if start is None else start), (dtype, rule)


ADAPTIVE = {"uneven": (3, 5), "upsampled": (10, 2), "blocks": (1, 1), "even": (7, 1)}


@pytest.mark.parametrize("rule", ["last_nan", "from_first_cell"])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_maxima_by_rule(name: str, rule: Any, rng: np.random.Generator) -> None:
    x = holed((7, 11), rng)
    windows = []
    for size, count in zip(x.shape, ADAPTIVE[name], strict=True):
        runs = share_out(size, count)
        windows.append([range(s, s + n) for s, n in zip(runs.starts, runs.lengths, strict=True)])
    values, indices = brute(x, windows, rule)
    words = "test", rule, x[None], ADAPTIVE[name]
    got = adaptive_max_with_argmax_by(*words)
    assert_same(got[0][0], values, name)
    assert_same(got[1][0], indices.astype(np.int32), name)
    assert_same(adaptive_max_by(*words)[0], values, name)
    gradient = jax.grad(lambda x: adaptive_max_by("test", rule, x, ADAPTIVE[name]).sum())(x[None])
    reached = indices if rule == "last_nan" else indices[~np.isnan(values)]
    want = np.bincount(reached.ravel(), minlength=77).reshape(1, 7, 11)
    assert_same(gradient, want.astype(np.float32), name)


def test_fractional_maxima_take_the_last_nan() -> None:
    x = jnp.array([[NAN, 1, NAN, 2, 5]])
    rule: Any
    for rule, index in (("last_nan", 2), ("first_nan", 0)):
        _, indices = fractional_max_by("test", rule, x, (4,), 2, jnp.array([0.5]))
        assert indices.tolist() == [[index, 2]]


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
    x = np.concatenate([small.astype(dtype), large])
    with jax.enable_x64(dtype == "int64"):
        for divisor in (4, 6, -4, 7):
            rule = Averaging(divisor=divisor, rounding=rounding)
            got = average_by("test", rule, x, (4,), 1, 0)[:, 0]
            exact = [Fraction(sum(map(int, row)), divisor) for row in x]
            want = [min(max(rounded(n, rounding), info.min), info.max) for n in exact]
            assert got.tolist() == want, divisor
        got = adaptive_average_by("test", rounding, x, (3,))
        assert got[:, 1].tolist() == [
            rounded(Fraction(int(row[1]) + int(row[2]), 2), rounding) for row in x
        ]


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
    """A last window of two cells, a cell of padding if any, and a cell of overhang."""
    x, rule = jnp.arange(1.0, 7.0)[None], Averaging(counted)
    with_pad = average_by("test", rule, x, (4,), 4, ((0, 1),), rounding="ceil")
    without = average_by("test", rule, x[:, 1:], (3,), 3, 0, rounding="ceil")
    assert [with_pad[0, -1], without[0, -1]] == [np.float32(padded), np.float32(bare)]


def test_the_average_of_nothing() -> None:
    nothing: Any
    x = jnp.ones((1, 3))
    for nothing, padded, bare in (("zero", 0, 0), ("nan", NAN, NAN), ("zero_by_count", NAN, 0)):
        rule = Averaging("real", nothing=nothing)
        hollow = average_by("test", rule, x, (2,), 1, 1, 4)
        assert_same(hollow, np.full((1, 1), padded, np.float32), nothing)
        past = average_by("test", rule, x[:, :2], (1,), 3, 0, rounding="ceil")[:, 1:]
        assert_same(past, np.full((1, 1), bare, np.float32), nothing)
    assert average_by("test", Averaging("real", nothing="nan"), jnp.ones((1, 3), jnp.int8),
                      (2,), 1, 1, 4).tolist() == [[0]]  # fmt: skip


def test_one_window_that_does_not_fit() -> None:
    """PyTorch and ONNX, ceil_mode: a kernel may exceed the padded axis by less than a stride."""
    x = jnp.arange(1.0, 6.0)[None]
    assert max_by("test", "first_nan", x, (6,), 2, 0, 1, "ceil_torch_or_one").tolist() == [[5]]
    assert average_by("test", Averaging(), x, (6,), 2, 0, 1, "ceil_torch_or_one").tolist() == [[3]]
    with pytest.raises(ValueError, match="does not fit"):
        max_by("test", "first_nan", x, (7,), 2, 0, 1, "ceil_torch_or_one")
    with pytest.raises(ValueError, match="does not fit"):
        max_by("test", "first_nan", x, (6,), 2, 0, 1, "ceil_torch")
