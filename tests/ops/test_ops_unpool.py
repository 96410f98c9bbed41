"""Max unpooling against its definition, pooling, PyTorch and ONNX Runtime."""

import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, check_derivatives, permutation
from peers import require

import jaxpool
from jaxpool._autodiff import flat_index

pytestmark = pytest.mark.grid(8)

# --- the definition, as a loop --------------------------------------------------------------------

Element = tuple[int, ...]


def write(y: np.ndarray, shape: tuple[int, ...], elements: Iterator[Element | None]) -> np.ndarray:
    """Write the values of ``y``, in row-major order, to elements of an array of zeros."""
    out = np.zeros(shape, y.dtype)
    for value, element in zip(y.ravel(), elements, strict=True):
        if element is not None:
            out[element] = value
    return out


def elements_of_indices(
    indices: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Iterator[Element | None]:
    """Yield the element of every index, flat over ``axes`` of the result; None if outside."""
    lengths = [shape[axis] for axis in axes]
    for source, index in np.ndenumerate(indices):
        if not 0 <= index < math.prod(lengths):
            yield None
            continue
        element = list(source)
        for axis, place in zip(axes, np.unravel_index(int(index), lengths), strict=True):
            element[axis] = int(place)
        yield tuple(element)


def elements_of_taps(
    taps: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...], window: dict[str, Any]
) -> Iterator[Element | None]:
    """Yield the element of every tap; None for the sentinel and on padding."""
    geometry = jaxpool.geometry([shape[axis] for axis in axes], **window)
    for source, tap in np.ndenumerate(taps):
        if not 0 <= tap < geometry.taps:
            yield None
            continue
        element = list(source)
        digits = np.unravel_index(int(tap), geometry.kernel)
        for axis, line, digit in zip(axes, geometry.axes, digits, strict=True):
            element[axis] = line.start(source[axis]) + int(digit) * line.dilation
        inside = all(0 <= element[axis] < shape[axis] for axis in axes)
        yield tuple(element) if inside else None


class Flat(NamedTuple):
    """Shapes of values and result, and the axes that the index counts."""

    given: tuple[int, ...]
    result: tuple[int, ...]
    axes: tuple[int, ...]
    space: Any
    data_format: str


FLAT = {
    "channels last": Flat((2, 3, 2, 3), (2, 4, 5, 3), (1, 2), "spatial", "channels_last"),
    "channels first": Flat((2, 3, 4, 2), (2, 3, 3, 5), (2, 3), "spatial", "channels_first"),
    "no batch": Flat((5, 2), (7, 2), (0,), "spatial", "channels_last"),
    "two batch axes": Flat((2, 3, 4, 2), (2, 3, 6, 2), (2,), "spatial", "channels_last"),
    "3-D": Flat((2, 2, 2, 3, 2), (2, 3, 4, 2, 2), (1, 2, 3), "spatial", "NDHWC"),
    "no channels": Flat((3, 2), (4, 5), (0, 1), "spatial", "HW"),
    "pooled axes apart": Flat((3, 2, 4), (5, 2, 3), (0, 2), "spatial", "HNW"),
    "three axes apart": Flat((2, 3, 2, 2), (3, 3, 2, 4), (0, 2, 3), "spatial", "DCHW"),
    "smaller result": Flat((2, 6, 3), (2, 4, 3), (1,), "spatial", "NWC"),
    "everything": Flat((2, 3, 2, 3), (2, 4, 5, 3), (0, 1, 2, 3), 0, "channels_last"),
    "from axis 1": Flat((2, 3, 2, 3), (2, 4, 5, 3), (1, 2, 3), 1, "NHWC"),
    "from axis -1": Flat((2, 3, 4, 3), (2, 3, 4, 6), (3,), -1, "channels_first"),
    "from axis 1 of channels first": Flat((2, 3, 2), (2, 3, 7), (1, 2), 1, "NCW"),
}
over_flat = pytest.mark.parametrize("case", FLAT)


def flat_call(c: Flat):
    """Return max_unpool with the settings of the case."""
    letters = ("channels_last", "channels_first").count(c.data_format) == 0
    pooled = [axis for axis in range(len(c.given)) if c.given[axis] != c.result[axis]]
    if c.space == "spatial":
        pooled = list(c.axes)
    lengths = tuple(c.result[axis] for axis in pooled)
    return functools.partial(
        jaxpool.max_unpool,
        output_shape=c.result if letters else lengths,
        index_space=c.space,
        data_format=c.data_format,
    )


def draw_indices(c: Flat, rng: np.random.Generator) -> np.ndarray:
    """Return few distinct indices, so that many are equal; some mark an empty window."""
    count = math.prod(c.result[axis] for axis in c.axes)
    few = rng.choice(count, max(count // 3, 2), replace=False)
    indices = rng.choice(few, c.given).astype(np.int32)
    return np.where(rng.random(c.given) < 0.1, np.int32(-1), indices)


@over_flat
def test_values_go_to_their_indices_and_the_last_write_wins(
    case: str, rng: np.random.Generator
) -> None:
    c = FLAT[case]
    y, indices = permutation(c.given, np.float32, rng), draw_indices(c, rng)
    want = write(y, c.result, elements_of_indices(indices, c.result, c.axes))
    assert len(np.unique(want)) < y.size  # some are overwritten
    assert_same(flat_call(c)(y, indices), want, case)


@pytest.mark.parametrize(
    "case", ["channels last", "pooled axes apart", "smaller result", "everything"]
)
def test_the_derivative_is_that_of_the_last_write(case: str, rng: np.random.Generator) -> None:
    """The transpose of the linear map, by unpooling the numbers of the sources."""
    c = FLAT[case]
    y, indices = permutation(c.given, np.float32, rng), draw_indices(c, rng)
    numbers = np.arange(1, y.size + 1, dtype=np.int32).reshape(c.given)
    writer = write(numbers, c.result, elements_of_indices(indices, c.result, c.axes))
    g = permutation(c.result, np.float32, rng)
    want = np.zeros(y.size, np.float32)
    want[writer[writer > 0] - 1] = g[writer > 0]
    f = functools.partial(flat_call(c), indices=indices)
    both = lambda y, g: (*jax.vjp(f, y)[1](g), jax.jvp(f, (y,), (y,))[1])  # noqa: E731
    got, tangent = jax.jit(both, compiler_options=QUICK)(y, g)
    assert_same(got, want.reshape(c.given), case)
    written = write(y, c.result, elements_of_indices(indices, c.result, c.axes))
    assert_same(tangent, written, case)


# Blocks of tiled windows: on CPU, a check finds that the indices stay in their blocks.
BLOCKS = {
    "2x2, a rest": Flat((2, 2, 3, 2), (2, 5, 7, 2), (1, 2), "spatial", "channels_last"),
    "2x2, cut short": Flat((2, 2, 3, 4), (2, 2, 5, 7), (2, 3), "spatial", "channels_first"),
    "3x1": Flat((2, 2, 5, 3), (2, 6, 5, 3), (1, 2), "spatial", "NHWC"),
    "1-D, cut short": Flat((2, 3, 2), (2, 11, 2), (1,), "spatial", "NWC"),
    "counted from axis 0": Flat((2, 2, 3, 2), (2, 4, 5, 2), (0, 1, 2, 3), 0, "channels_last"),
    "counted from axis 1": Flat((2, 3, 2), (2, 3, 5), (1, 2), 1, "NCW"),
}
over_blocks = pytest.mark.parametrize("case", BLOCKS)


def draw_in_blocks(c: Flat, rng: np.random.Generator) -> np.ndarray:
    """Return an element in the block of each source; some mark an empty window."""
    indices = np.full(c.given, -1, np.int32)
    for source in np.ndindex(c.given):
        element = list(source)
        for axis, (out, size) in enumerate(zip(c.given, c.result, strict=True)):
            length = max(round(size / out), 1)
            element[axis] = source[axis] * length
            if out != size:
                element[axis] = int(rng.integers(element[axis], min(element[axis] + length, size)))
        if rng.random() < 0.8:
            lengths = [c.result[axis] for axis in c.axes]
            indices[source] = np.ravel_multi_index([element[axis] for axis in c.axes], lengths)
    return indices


def check_writes(case: str, c: Flat, indices: np.ndarray, rng: np.random.Generator) -> None:
    """Check values, tangents and cotangents, separately and in a batch with other indices."""
    y, g = permutation(c.given, np.float32, rng) + 1, permutation(c.result, np.float32, rng)
    numbers = np.arange(1, y.size + 1, dtype=np.int32).reshape(c.given)
    writer = write(numbers, c.result, elements_of_indices(indices, c.result, c.axes))
    back = np.zeros(y.size, np.float32)
    back[writer[writer > 0] - 1] = g[writer > 0]
    value, back = np.where(writer > 0, y.ravel()[writer - 1], 0), back.reshape(c.given)
    call, quick = flat_call(c), functools.partial(jax.jit, compiler_options=QUICK)
    pull = lambda y, i: jax.vjp(lambda y: call(y, i), y)[1](jnp.asarray(g))[0]  # noqa: E731
    push = lambda y, i: jax.jvp(lambda y: call(y, i), (y,), (y,))[1]  # noqa: E731
    assert_same(jax.jit(call)(y, indices), value, case)
    assert_same(quick(pull)(y, indices), back, case)
    assert_same(quick(push)(y, indices), value, case)
    both = np.stack([indices, np.full_like(indices, -1), np.zeros_like(indices)])
    for way, want in ((call, value), (pull, back)):
        assert_same(quick(jax.vmap(way, (None, 0)))(y, both)[0], want, case)


@over_blocks
def test_indices_that_keep_to_their_blocks(case: str, rng: np.random.Generator) -> None:
    check_writes(case, BLOCKS[case], draw_in_blocks(BLOCKS[case], rng), rng)


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("size", "windows", "length"), [(5, 2, 2), (7, 3, 2), (11, 3, 4), (3, 2, None), (8, 5, None)]
)
def test_blocks_are_as_long_as_windows_of_a_pool_would_be(
    size: int, windows: int, length: int | None
) -> None:
    """For the others, every index leaves its block, and all are scattered."""
    blocks = flat_index.target((size, 3), (-2,), (windows, 3), (-2,)).blocks
    assert (blocks and blocks.kernel) == (length and (length,))


@pytest.mark.deep
@over_blocks
def test_one_index_that_leaves_its_block(case: str, rng: np.random.Generator) -> None:
    c = BLOCKS[case]
    indices = draw_in_blocks(c, rng)
    indices[tuple(out - 1 for out in c.given)] = indices[tuple(0 for _ in c.given)] = 0
    check_writes(case, c, indices, rng)


@pytest.mark.deep
def test_behind_a_block_that_is_cut_short_the_next_row_begins(rng: np.random.Generator) -> None:
    case = "2x2, cut short"
    indices = draw_in_blocks(BLOCKS[case], rng)
    indices[0, 0, 0, 3] = 7  # the element (1, 0); the block has (0, 6) and (1, 6)
    check_writes(case, BLOCKS[case], indices, rng)


@pytest.mark.cpu_program
def test_a_batch_has_one_choice_for_all_its_indices(rng: np.random.Generator) -> None:
    """If vmap turned the choice into a selection, both branches would run; the scatter is slow."""
    c = BLOCKS["2x2, a rest"]
    y, indices = permutation((3, *c.given), np.float32, rng), draw_in_blocks(c, rng)
    indices = np.stack([indices] * 3)
    text = jax.jit(jax.vmap(flat_call(c))).lower(y, indices).compile().as_text() or ""
    one = jax.jit(flat_call(c)).lower(y[0], indices[0]).compile().as_text() or ""
    assert one.count(" conditional(") == text.count(" conditional(") > 0


# --- taps -----------------------------------------------------------------------------------------

# name -> shape of the result (channels last), window
TAPS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "tiled": ((2, 6, 4, 2), {"window_shape": (2, 2), "strides": 2}),
    "gaps between windows": ((1, 8, 9, 2), {"window_shape": (2, 3), "strides": (3, 4)}),
    "overlapping": ((2, 5, 4, 2), {"window_shape": (3, 2), "strides": 1, "padding": 1}),
    "overlapping on one axis": ((1, 6, 7, 2), {"window_shape": (2, 3), "strides": 2}),
    "dilated": (
        (1, 7, 6, 2),
        {"window_shape": (3, 2), "strides": (1, 2), "dilations": (2, 3), "padding": (2, 1)},
    ),
    "interleaved without a shared element": (
        (1, 9, 2),
        {"window_shape": (2,), "strides": 1, "dilations": 8},
    ),
    "3-D": ((1, 4, 3, 5, 1), {"window_shape": (2, 2, 3), "strides": (2, 1, 2), "padding": 1}),
    "ceil": ((1, 6, 7, 2), {"window_shape": 3, "strides": 2, "rounding": "ceil"}),
    "SAME": ((1, 7, 6, 2), {"window_shape": (3, 2), "strides": 2, "padding": "SAME"}),
    "25 taps": ((1, 6, 5, 2), {"window_shape": (5, 5), "strides": 1, "padding": 2}),
    "49 taps": ((1, 7, 8, 2), {"window_shape": (7, 7), "strides": (1, 2), "padding": 3}),
    "49 taps, tiled": ((1, 14, 7, 2), {"window_shape": (7, 7), "strides": 7}),
    "300 taps": ((1, 21, 17, 1), {"window_shape": (20, 15), "strides": 1, "padding": 2}),
}


def tap_call(case: str):
    shape, window = TAPS[case]
    letters = {3: "NWC", 4: "NHWC", 5: "NDHWC"}[len(shape)]
    return functools.partial(
        jaxpool.max_unpool,
        output_shape=shape[1:-1],
        index_space="window",
        data_format=letters,
        **window,
    )


def tap_data(case: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return values, and taps that no pooling would return; some windows have none."""
    shape, window = TAPS[case]
    letters = {3: "NWC", 4: "NHWC", 5: "NDHWC"}[len(shape)]
    given = jaxpool.output_shape(shape, **window, data_format=letters)
    window = {**window, "window_shape": _kernel(shape, window)}
    count = math.prod(window["window_shape"])
    dtype = np.uint8 if count <= 255 else np.int32
    taps = rng.integers(0, count, given).astype(dtype)
    taps[rng.random(given) < 0.1] = np.asarray(-1).astype(dtype)
    return permutation(given, np.float32, rng), taps


def _kernel(shape: tuple[int, ...], window: dict[str, Any]) -> tuple[int, ...]:
    kernel = window["window_shape"]
    return (kernel,) * (len(shape) - 2) if isinstance(kernel, int) else kernel


def tap_elements(case: str, taps: np.ndarray) -> Iterator[Element | None]:
    shape, window = TAPS[case]
    window = {**window, "window_shape": _kernel(shape, window)}
    return elements_of_taps(taps, shape, tuple(range(1, len(shape) - 1)), window)


@pytest.mark.parametrize("case", [case for case in TAPS if case not in ("SAME", "25 taps", "3-D")])
def test_values_go_to_their_taps_and_the_last_write_wins(
    case: str, rng: np.random.Generator
) -> None:
    y, taps = tap_data(case, rng)
    assert_same(tap_call(case)(y, taps), write(y, TAPS[case][0], tap_elements(case, taps)), case)


@pytest.mark.parametrize(
    "case", ["gaps between windows", "overlapping", "dilated", "3-D", "49 taps"]
)
def test_the_derivative_through_taps_is_that_of_the_last_write(
    case: str, rng: np.random.Generator
) -> None:
    y, taps = tap_data(case, rng)
    numbers = np.arange(1, y.size + 1, dtype=np.int32).reshape(y.shape)
    writer = write(numbers, TAPS[case][0], tap_elements(case, taps))
    g = permutation(writer.shape, np.float32, rng)
    want = np.zeros(y.size, np.float32)
    want[writer[writer > 0] - 1] = g[writer > 0]
    call = tap_call(case)
    (got,) = jax.vjp(lambda y: call(y, taps), y)[1](jnp.asarray(g))
    assert_same(got, want.reshape(y.shape), case)


# --- flat indices whose windows are known ---------------------------------------------------------

KNOWN = ["gaps between windows", "overlapping", "dilated", "3-D", "ceil", "49 taps", "SAME"]


def known_call(case: str, space: Any):
    """Return max_unpool by flat indices, with the windows of their pooling."""
    return functools.partial(tap_call(case), index_space=space)


def indices_in_windows(case: str, taps: np.ndarray, space: Any) -> np.ndarray:
    """Return the taps as flat indices; -1 for the sentinel and on padding."""
    shape = TAPS[case][0]
    first = 1 if space == "spatial" else space
    lengths = shape[first : -1 if space == "spatial" else None]
    indices = [
        -1
        if element is None
        else np.ravel_multi_index(element[first : first + len(lengths)], lengths)
        for element in tap_elements(case, taps)
    ]
    return np.array(indices, np.int32).reshape(taps.shape)


@pytest.mark.grid(16)
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("case", "space"), [*zip(KNOWN, itertools.cycle(["spatial", 0, 1]))])
def test_known_windows_change_no_result(
    case: str, space: Any, elsewhere: bool, rng: np.random.Generator
) -> None:
    y, taps = tap_data(case, rng)
    shape, indices = TAPS[case][0], indices_in_windows(case, taps, space)
    counted = {"spatial": tuple(range(1, len(shape) - 1)), 0: tuple(range(len(shape)))}
    axes = counted.get(space, tuple(range(1, len(shape))))
    if elsewhere:  # the last source names the first element
        indices.flat[-1] = 0
    numbers = np.arange(1, y.size + 1, dtype=np.int32).reshape(y.shape)
    writer = write(numbers, shape, elements_of_indices(indices, shape, axes))
    g = permutation(shape, np.float32, rng)
    back = np.zeros(y.size, np.float32)
    back[writer[writer > 0] - 1] = g[writer > 0]
    call = known_call(case, space)
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    pull = lambda y, i: jax.vjp(lambda y: call(y, i), y)[1](jnp.asarray(g))[0]  # noqa: E731
    want = np.where(writer > 0, y.ravel()[writer - 1], np.float32(0))
    assert_same(quick(call)(y, indices), want, case)
    assert_same(quick(pull)(y, indices), back.reshape(y.shape), case)
    both = np.stack([indices, np.full_like(indices, -1)])
    assert_same(quick(jax.vmap(pull, (None, 0)))(y, both)[0], back.reshape(y.shape), case)
    with pytest.raises(ValueError, match="outside the result(.|\n)*as `output_shape`, and"):
        call(y, np.full_like(indices, writer.size))


@pytest.mark.parametrize(("kernel", "low"), [((3, 1), (2, 0)), ((5, 3), (1, 1))])
def test_known_windows_over_an_axis_that_indices_do_not_count(
    kernel: tuple[int, int], low: tuple[int, int], rng: np.random.Generator
) -> None:
    x = permutation((6, 7), np.float32, rng)
    padding = tuple((p, k - 1 - p) for k, p in zip(kernel, low, strict=True))
    columns = rng.integers(0, 7, x.shape).astype(np.int32)
    want, back = np.zeros_like(x), np.zeros_like(x)
    for row, column in itertools.product(range(6), range(7)):
        want[row, columns[row, column]] = x[row, column]
    call = functools.partial(
        jaxpool.max_unpool, indices=columns, output_shape=(6, 7), index_space=1, data_format="HW",
        window_shape=kernel, strides=1, padding=padding,
    )  # fmt: skip
    assert_same(call(x), want, "values")
    for row, column in itertools.product(range(6), range(7)):
        back[row, column] = want[row, columns[row, column]] == x[row, column]
    assert_same(jax.grad(lambda x: call(x).sum())(x), back, "derivatives")


def must_scatter(f: Any, y: Any) -> bool:
    """Return whether every path through the branches of the program scatters, or gathers."""

    def found(inner: Any) -> bool:
        jaxpr = getattr(inner, "jaxpr", inner)
        for equation in getattr(jaxpr, "eqns", ()):
            parts = jax.tree.leaves(
                list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns")
            )
            some = all if equation.primitive.name == "cond" else any
            inside = [part for part in parts if hasattr(getattr(part, "jaxpr", part), "eqns")]
            if equation.primitive.name.startswith(("scatter", "gather")):
                return True
            if inside and some(map(found, inside)):
                return True
        return False

    return found(jax.make_jaxpr(f)(y))


@pytest.mark.parametrize(("case", "space"), [("overlapping", "spatial"), ("3-D", 0)])
def test_known_windows_scatter_only_in_a_branch(
    case: str, space: Any, rng: np.random.Generator
) -> None:
    y, taps = tap_data(case, rng)
    f = functools.partial(known_call(case, space), indices=indices_in_windows(case, taps, space))
    for g in (f, jax.grad(lambda y: (f(y) ** 2).sum())):
        assert not must_scatter(g, y)
    unknown = functools.partial(
        jaxpool.max_unpool, indices=f.keywords["indices"], output_shape=TAPS[case][0][1:-1],
        index_space=space,
    )  # fmt: skip
    assert must_scatter(unknown, y)


# --- pooling and unpooling ------------------------------------------------------------------------

BACK: dict[str, dict[str, Any]] = {
    "2x2": {"window_shape": (2, 2), "strides": 2},
    "3x2, overlapping, padded": {"window_shape": (3, 2), "strides": (2, 1), "padding": 1},
    "dilated": {"window_shape": (2, 3), "strides": 1, "dilations": (3, 2), "padding": (1, 2)},
    "ceil, empty windows": {
        "window_shape": 1, "strides": 3, "padding": 1, "rounding": "ceil",
    },
    "whole": {"window_shape": (7, 5), "strides": 1, "padding": ((3, 2), (1, 4))},
}  # fmt: skip
SPACES = ["window", "spatial", "window", 0, -3]


@pytest.mark.parametrize(("case", "space"), [*zip(BACK, itertools.cycle(SPACES), strict=False)])
def test_unpooling_after_pooling_keeps_the_maxima_alone(
    case: str, space: Any, rng: np.random.Generator
) -> None:
    x, window = permutation((2, 7, 5, 3), np.float32, rng), BACK[case]
    y, indices = jaxpool.max_pool_with_argmax(x, **window, index_space=space, data_format="NHWC")
    settings = window if space == "window" else {}
    back = jaxpool.max_unpool(
        y, indices, x.shape, index_space=space, data_format="NHWC", **settings
    )
    won = np.isin(x, np.asarray(y))
    assert_same(back, np.where(won, x, np.float32(0)), case)
    assert 0 < won.sum() < x.size


@pytest.mark.parametrize("case", ["3x2, overlapping, padded", "ceil, empty windows"])
def test_pooling_after_unpooling_of_positives_is_the_identity(
    case: str, rng: np.random.Generator
) -> None:
    x, window = permutation((2, 7, 5, 3), np.uint16, rng) + np.uint16(1), BACK[case]
    y, indices = jaxpool.max_pool_with_argmax(x, **window, data_format="NHWC")
    back = jaxpool.max_unpool(y, indices, (7, 5), data_format="NHWC")
    assert_same(jaxpool.max_pool(back, **window, data_format="NHWC"), y, case)


def test_offsets_are_not_taken_for_flat_indices() -> None:
    y, offsets = jaxpool.max_pool_with_argmax(
        np.zeros((1, 18, 20, 1)), (2, 2), 2, index_space="window"
    )
    with pytest.raises(ValueError, match=r"(?s)dtype uint8.*360 positions.*index_space=.window."):
        jaxpool.max_unpool(y, offsets, (18, 20))
    small = np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1)
    assert jaxpool.max_unpool(small, small, (16, 16)).sum() == 6


@pytest.mark.parametrize("settings", [{}, {"window_shape": (2, 3), "strides": (2, 3)}])
def test_booleans_go_back_to_their_blocks(settings: Any, rng: np.random.Generator) -> None:
    x = rng.random((2, 6, 9, 3)) < 0.3
    y, indices = jaxpool.max_pool_with_argmax(x, (2, 3), (2, 3))
    got = jaxpool.max_unpool(y, indices, (6, 9), **settings)
    want = np.zeros((2, 54, 3), bool)
    np.put_along_axis(want, np.reshape(indices, (2, 9, 3)), np.reshape(y, (2, 9, 3)), 1)
    assert got.dtype == bool
    np.testing.assert_array_equal(np.reshape(got, want.shape), want)


@pytest.mark.parametrize(
    ("space", "dtype"),
    [
        ("spatial", "bool"),
        ("window", "uint8"),
        ("window", "float8_e4m3fn"),
    ],
)
def test_the_dtype_stays(space: Any, dtype: str, rng: np.random.Generator) -> None:
    window: dict[str, Any] = {"window_shape": (3, 2), "strides": 1, "padding": 1}
    x = rng.integers(0, 2, (1, 5, 4, 2)).astype(jnp.dtype(dtype))
    y, indices = jaxpool.max_pool_with_argmax(x, **window, index_space=space)
    settings = window if space == "window" else {}
    got = jaxpool.max_unpool(y, indices, (5, 4), index_space=space, **settings)
    assert got.dtype == x.dtype
    wide = jaxpool.max_unpool(
        np.asarray(y, np.float32), indices, (5, 4), index_space=space, **settings
    )
    assert_same(np.asarray(got, np.float32), wide, dtype)


@pytest.mark.parametrize("wide", ["int8", "int64", "uint8", "uint64"])
def test_indices_of_every_integer_dtype(wide: str, rng: np.random.Generator) -> None:
    y, indices = permutation((1, 6, 2), np.float32, rng), rng.integers(0, 9, (1, 6, 2))
    want = write(y, (1, 9, 2), elements_of_indices(indices, (1, 9, 2), (1,)))
    assert_same(jaxpool.max_unpool(y, indices.astype(wide), (9,)), want, wide)


# --- derivatives and transformations --------------------------------------------------------------


def problem(space: Any, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return an unpooling with overlapping windows as a function of the values, and values."""
    window: dict[str, Any] = {"window_shape": (3, 2), "strides": (2, 1), "padding": (1, 0)}
    x = permutation((2, 6, 5, 2), np.float32, rng)
    y, indices = jaxpool.max_pool_with_argmax(x, **window, index_space=space)
    settings = window if space == "window" else {}
    return (
        lambda y, indices=indices: jaxpool.max_unpool(
            y, indices, (6, 5), index_space=space, **settings
        ),
        np.asarray(y),
    )


over_spaces = pytest.mark.parametrize("space", ["spatial", "window"])


@pytest.mark.deep
@over_spaces
def test_derivatives_to_order_two(space: Any, rng: np.random.Generator) -> None:
    f, y = problem(space, rng)
    with jax.enable_x64(True):
        check_derivatives(lambda y: f(y) ** 2, jnp.asarray(y, jnp.float64), rng=rng, eps=1e-3)


@over_spaces
def test_a_batch_of_values_of_indices_or_of_both(space: Any, rng: np.random.Generator) -> None:
    window: dict[str, Any] = {"window_shape": (3, 2), "strides": 2, "padding": (1, 0)}
    x = permutation((3, 2, 6, 5, 2), np.float32, rng)
    y, indices = jaxpool.max_pool_with_argmax(
        x, **window, index_space=space, data_format="channels_last"
    )
    settings = window if space == "window" else {}
    f = lambda y, i: jaxpool.max_unpool(y, i, (6, 5), index_space=space, **settings)  # noqa: E731
    pull = lambda y, i: jax.vjp(lambda y: f(y, i), y)[1](f(y, i) ** 2)[0]  # noqa: E731
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    one = quick(pull)
    for axes in ((0, 0), (None, 0)):
        pairs = list(zip((y, indices), axes, strict=True))
        arguments = [a[0] if axis is None else a for a, axis in pairs]
        calls = [[a[0 if axis is None else n] for a, axis in pairs] for n in range(3)]
        one_by_one = np.stack([one(*call) for call in calls])
        assert_same(quick(jax.vmap(pull, axes))(*arguments), one_by_one, axes)


@over_spaces
def test_the_same_inside_jit_and_for_an_empty_batch(space: Any, rng: np.random.Generator) -> None:
    f, y = problem(space, rng)
    assert_same(jax.jit(f)(y), f(y), space)
    empty = jnp.zeros((0, *y.shape[1:]))
    result = f(empty, empty.astype(jnp.int32))
    assert result.size == 0 and result.shape[1:3] == (6, 5)


def scatters(f: Any, y: Any) -> set[str]:
    """Return the dtypes that the program of ``f`` scatters, on any platform."""
    text = jax.jit(f).trace(y).lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
    assert "stablehlo" in text
    found = re.findall(r'"stablehlo.scatter"\(.*?\}\) : \(tensor<([^>]*)>', text, re.DOTALL)
    return {kind.split("x")[-1] for kind in found}


@pytest.mark.parametrize(
    "case", ["gaps between windows", "overlapping", "dilated", "25 taps", "49 taps, tiled"]
)
def test_taps_need_no_scatter_on_any_platform(case: str, rng: np.random.Generator) -> None:
    y, taps = tap_data(case, rng)
    f = functools.partial(tap_call(case), indices=taps)
    assert not scatters(f, y)
    assert not scatters(jax.grad(lambda y: (f(y) ** 2).sum()), y)


def test_flat_indices_scatter_source_numbers_alone(rng: np.random.Generator) -> None:
    """A maximum of integers does not depend on the order of writes."""
    f, y = problem("spatial", rng)
    for g in (f, jax.grad(lambda y: (f(y) ** 2).sum())):
        assert scatters(g, y) == {"i32"}


def test_a_float_scatter_would_be_seen() -> None:
    assert scatters(lambda y: jnp.zeros(5).at[jnp.array([1, 1])].add(y), jnp.ones(2)) == {"f32"}


@pytest.mark.deep
@pytest.mark.parametrize("case", ["2x2, a rest"])
def test_the_program_of_other_platforms_writes_the_same(
    case: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs by indices, even if these stay in their blocks, run on CPU."""
    c = BLOCKS[case]
    y, indices = permutation(c.given, np.float32, rng), draw_in_blocks(c, rng)
    f = lambda y: flat_call(c)(y, indices)  # noqa: E731
    here, pull = jax.vjp(f, y)
    back = pull(here**2)[0]
    monkeypatch.setattr(flat_index, "by_platform", lambda *a, default, **_: default(*a))
    jax.clear_caches()
    there, pull = jax.vjp(f, y)
    assert_same(there, here, case)
    assert_same(pull(here**2)[0], back, case)
    assert_same(jax.jvp(f, (y,), (y,))[1], here, case)
    monkeypatch.undo()
    jax.clear_caches()


@over_spaces
def test_reverse_mode_keeps_indices_alone(space: Any, rng: np.random.Generator) -> None:
    f, y = problem(space, rng)
    leaves = jax.tree.leaves(jax.eval_shape(lambda y: jax.vjp(f, y)[1], y))
    kept = [(math.prod(leaf.shape), str(leaf.dtype)) for leaf in leaves if leaf.shape]
    assert kept == [(y.size, "int32" if space == "spatial" else "uint8")]


@over_spaces
def test_one_export_serves_every_platform_and_batch(space: Any, rng: np.random.Generator) -> None:
    window: dict[str, Any] = {"window_shape": (2, 2), "strides": 2}
    x = permutation((4, 6, 4, 2), np.float32, rng)
    y, indices = jaxpool.max_pool_with_argmax(x, **window, index_space=space)
    settings = window if space == "window" else {}
    f = lambda y, i: jaxpool.max_unpool(y, i, (6, 4), index_space=space, **settings)  # noqa: E731
    (batch,) = jax.export.symbolic_shape("batch")
    arguments = [jax.ShapeDtypeStruct((batch, *y.shape[1:]), a.dtype) for a in (y, indices)]
    exported = jax.export.export(jax.jit(f), platforms=("cpu", "cuda", "tpu"))(*arguments)
    assert_same(exported.call(y, indices), f(y, indices), space)


# --- indices outside the result -------------------------------------------------------------------

OUTSIDE: dict[str, np.ndarray] = {
    "past the end": np.array([1, 9], np.int32),
    "negative": np.array([1, -2], np.int32),
    "uint32, -1 in 32 bits": np.array([1, 2**32 - 1], np.uint32),
    "int64, 1 in 32 bits": np.array([3, 2**32 + 1], np.int64),
    "int64, far negative": np.array([3, -(2**32) + 2], np.int64),
    "a mark that uint8 flat indices do not have": np.array([1, 255], np.uint8),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_index_outside_is_an_error_when_it_is_known(case: str) -> None:
    indices = OUTSIDE[case]
    with pytest.raises(
        ValueError, match=f"max_unpool: `indices` contain {indices[1]}, which is outside"
    ) as error:
        jaxpool.max_unpool(np.ones(2, np.float32), indices, (4,), data_format="W")
    assert str(error.value).count("\n") == 2 and "never wraps" in str(error.value)


@pytest.mark.parametrize(
    ("make", "number"),
    [(np.int32, -7), *itertools.product((np.int64, jnp.int64, list), (-7, 2**32 + 2))],
)
def test_the_error_names_the_index_that_is_outside(make: Any, number: int) -> None:
    """An array of JAX may have 64 bits although new ones have not."""
    y, f = np.ones(2, np.float32), functools.partial(jaxpool.max_unpool, data_format="W")
    with jax.enable_x64(True):
        inside, outside = make([1, 3]), make([1, number])
    assert_same(f(y, inside, 4), np.array([0, 1, 0, 1], np.float32), "inside")
    with pytest.raises(ValueError, match=f"`indices` contain {number}, which is outside"):
        f(y, outside, 4)


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_index_outside_is_dropped_inside_jit(case: str) -> None:
    indices = OUTSIDE[case]
    y = np.array([5, 6], np.float32)
    want = np.zeros(4, np.float32)
    want[indices[0]] = 5
    f = lambda y, i: jaxpool.max_unpool(y, i, (4,), data_format="W")  # noqa: E731
    inside = jax.jit(lambda y: f(y, indices))
    assert_same(inside(y), want, case)
    if indices.itemsize < 8:
        assert_same(jax.jit(f)(y, indices), want, case)
        assert_same(jax.vmap(f)(y[None], indices[None])[0], want, case)
        np.testing.assert_array_equal(jax.grad(lambda y: inside(y).sum())(y), [1, 0])


@pytest.mark.parametrize(
    ("taps", "held"), [([0, 2], 2), (np.array([0, 254], np.uint8), 254), ([0, -2], -2)]
)
def test_a_tap_outside_the_window(taps: Any, held: int) -> None:
    f = functools.partial(
        jaxpool.max_unpool, output_shape=4, index_space="window", data_format="W",
        window_shape=2, strides=2,
    )  # fmt: skip
    y = jnp.array([5.0, 6.0])
    with pytest.raises(ValueError, match=f"`indices` contain {held}, which is outside"):
        f(y, taps)
    assert_same(jax.jit(f)(y, jnp.asarray(taps)), np.array([5, 0, 0, 0], np.float32), taps)


def test_a_tap_on_padding_is_dropped() -> None:
    got = jaxpool.max_unpool(
        jnp.array([5.0, 6.0, 7.0]), np.zeros(3, np.uint8), 4, index_space="window",
        data_format="W", window_shape=2, strides=2, padding=1,
    )  # fmt: skip
    assert_same(
        got, np.array([0, 6, 0, 7], np.float32), "the first tap of the first window is padding"
    )


@pytest.mark.parametrize("mark", [np.int32(-1), np.int8(-1), np.uint8(255), np.uint16(2**16 - 1)])
def test_the_mark_of_an_empty_window_is_ignored(mark: Any) -> None:
    indices = np.array([0, mark], mark.dtype)
    settings: dict[str, Any] = {"index_space": "window", "window_shape": 2, "strides": 2}
    got = jaxpool.max_unpool(jnp.array([5.0, 6.0]), indices, 4, data_format="W", **settings)
    assert_same(got, np.array([5, 0, 0, 0], np.float32), mark)
    if mark < 0:
        got = jaxpool.max_unpool(jnp.array([5.0, 6.0]), indices, 4, data_format="W")
        assert_same(got, np.array([5, 0, 0, 0], np.float32), mark)


def test_large_planes_are_refused() -> None:
    big = jax.ShapeDtypeStruct((2**31,), jnp.uint8)
    index = jax.ShapeDtypeStruct((2**31,), jnp.int32)
    with pytest.raises(ValueError, match="would count 2147483648 elements"):
        jax.eval_shape(lambda y, i: jaxpool.max_unpool(y, i, 8, data_format="W"), big, index)


# --- errors ---------------------------------------------------------------------------------------

Y = np.ones((2, 3, 4, 5), np.float32)
INDICES = np.zeros(Y.shape, np.int32)
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "indices of another shape": ({"indices": INDICES[0]}, ValueError, "have shape .3, 4, 5."),
    "indices of floats": ({"indices": Y}, TypeError, "have dtype float32"),
    "indices of booleans": ({"indices": Y > 0}, TypeError, "have dtype bool"),
    "complex values": ({"y": Y.astype(np.complex64)}, TypeError, "dtype complex64"),
    "the full shape without letters": (
        {"output_shape": (2, 6, 8, 5)}, ValueError, r"`output_shape` = .* has 4 entries",
    ),
    "an int without letters": ({"output_shape": 6}, TypeError, "does not say how many axes"),
    "a float": ({"output_shape": (6.5, 8)}, TypeError, "`output_shape` contains 6.5"),
    "negative": ({"output_shape": (-6, 8)}, ValueError, "`output_shape` contains -6"),
    "an empty axis": ({"output_shape": (0, 8)}, ValueError, "pooled axis 0 has size 0"),
    "a wrong number of lengths": (
        {"output_shape": (6, 8, 9), "data_format": "NHWC"}, ValueError, "has 3 entries",
    ),
    "another batch": (
        {"output_shape": (3, 6, 8, 5), "data_format": "NHWC"}, ValueError, "does not fit the val",
    ),
    "another rank": ({"data_format": "HW"}, ValueError, "the array has 4 axes"),
    "an unknown layout": ({"data_format": "XY"}, ValueError, "`data_format` = 'XY'"),
    "an unknown space": ({"index_space": "element"}, ValueError, "`index_space` = 'element'"),
    "no such axis": ({"index_space": 4}, ValueError, "`index_space` = 4 is not an axis"),
    "an index that misses a pooled axis": (
        {"index_space": 2}, ValueError, "`index_space` = 2 does not count pooled axis -3",
    ),
    "taps without a window": ({"index_space": "window"}, ValueError, "needs `window_shape` and"),
    "taps without strides": (
        {"index_space": "window", "window_shape": (2, 2)}, ValueError, "needs `window_shape` and",
    ),
    "a window without strides": ({"window_shape": (2, 2)}, ValueError, "are given without"),
    "padding without a window": ({"padding": 1}, ValueError, "are given without"),
    "other windows of flat indices": (
        {"window_shape": (2, 2), "strides": 1}, ValueError,
        r"the values have shape \(2, 3, 4, 5\)",
    ),
    "other windows": (
        {"index_space": "window", "window_shape": (2, 2), "strides": 1}, ValueError,
        r"the values have shape \(2, 3, 4, 5\)",
    ),
    "a window of other axes": (
        {"index_space": "window", "window_shape": (2,), "strides": 2}, ValueError,
        "has 2 entries",
    ),
    "a window that does not fit": (
        {"index_space": "window", "window_shape": (9, 2), "strides": 2}, ValueError,
        "`window_shape` = 9 does not fit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_three_lines_in_the_name_of_the_op(case: str) -> None:
    words, error, what = ERRORS[case]
    words = {"y": Y, "indices": INDICES, "output_shape": (6, 8)} | words
    with pytest.raises(error, match=what) as caught:
        jaxpool.max_unpool(**words)
    lines = str(caught.value).split("\n")
    assert len(lines) == 3 and lines[0].startswith("max_unpool: ")
    assert all(re.match(r"  \S.*\.$", line) for line in lines[1:]), lines
    with pytest.raises(error, match=what):
        jax.jit(lambda y: jaxpool.max_unpool(**words | {"y": y}))(words["y"])


# --- PyTorch and ONNX Runtime ---------------------------------------------------------------------

LIVE = [(1, 1), (2, 0), (3, 2)]


def draw_live(pooled: int, seed: int) -> tuple[np.ndarray, list[int], list[int], list[int]]:
    """Return an array, channels first, and kernel, stride and padding of a max pooling."""
    rng = np.random.default_rng([pooled, seed])
    kernel = [int(k) for k in rng.integers(1, 4, pooled)]
    stride = [int(s) for s in rng.integers(1, 4, pooled)]
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    shape = (2, 3, *(int(n) for n in rng.integers(4, 8, pooled)))
    return permutation(shape, np.float32, rng), kernel, stride, padding


@pytest.mark.parametrize(("pooled", "seed"), LIVE)
def test_values_are_those_of_torch(pooled: int, seed: int) -> None:
    """Indices of a real pooling: overlapping windows repeat an index with the same value."""
    torch = require("torch")
    F = torch.nn.functional
    x, kernel, stride, padding = draw_live(pooled, seed)
    pool, unpool = (getattr(F, f"max_{kind}{pooled}d") for kind in ("pool", "unpool"))
    y, indices = pool(torch.tensor(x), kernel, stride, padding, return_indices=True)
    want = unpool(y, indices, kernel, stride, padding, output_size=x.shape[2:])
    given = y.numpy(), indices.numpy().astype(np.int32)
    got = jaxpool.max_unpool(*given, x.shape[2:], data_format="channels_first")
    assert_same(got, want.numpy(), (kernel, stride, padding))


@pytest.mark.parametrize(("pooled", "seed"), LIVE)
def test_any_indices_give_the_values_of_torch_and_the_gradient_where_they_differ(
    pooled: int, seed: int
) -> None:
    torch = require("torch")
    x, *_ = draw_live(pooled, seed)
    rng = np.random.default_rng([seed, pooled])
    given = (2, 3, *(max(n // 2, 2) for n in x.shape[2:]))
    y, count = permutation(given, np.float32, rng), math.prod(x.shape[2:])
    distinct = np.stack([rng.permutation(count)[: math.prod(given[2:])] for _ in range(6)])
    unpool = getattr(torch.nn.functional, f"max_unpool{pooled}d")
    for indices in (rng.integers(0, count, given), distinct.reshape(given)):
        t = torch.tensor(y, requires_grad=True)
        # Kernel and stride only say how large a result is allowed: any size, here.
        stride = [n // m for n, m in zip(x.shape[2:], given[2:], strict=True)]
        size = [(m - 1) * s + s for m, s in zip(given[2:], stride, strict=True)]
        fits = all(abs(n - d) < s for n, d, s in zip(x.shape[2:], size, stride, strict=True))
        output_size = x.shape[2:] if fits else None
        shape = tuple(output_size or size)
        here = indices % math.prod(shape)
        want = unpool(t, torch.tensor(here), stride, stride, output_size=output_size)
        f = lambda y, i=here, s=shape: jaxpool.max_unpool(  # noqa: E731
            y, i.astype(np.int32), s, data_format="channels_first"
        )
        assert_same(f(y), want.detach().numpy(), here)
        g = permutation(want.shape, np.float32, rng)
        (theirs,) = torch.autograd.grad(want, t, torch.tensor(g))
        ours = jax.vjp(f, y)[1](jnp.asarray(g))[0]
        wrote = np.asarray(f(y)).reshape(2, 3, -1)
        last = np.take_along_axis(wrote, here.reshape(2, 3, -1), -1).reshape(given) == y
        assert_same(ours, np.where(last, theirs.numpy(), np.float32(0)), here)


def test_torch_gives_an_overwritten_source_a_gradient_that_it_has_not() -> None:
    torch = require("torch")
    t = torch.tensor([[[10.0, 20.0]]], requires_grad=True)
    out = torch.nn.functional.max_unpool1d(t, torch.tensor([[[1, 1]]]), 2, 2)
    (theirs,) = torch.autograd.grad(out.sum(), t)
    f = lambda y: jaxpool.max_unpool(y, jnp.array([1, 1]), 4, data_format="W")  # noqa: E731
    y = jnp.array([10.0, 20.0])
    assert_same(f(y), out.detach().numpy()[0, 0], "values")
    np.testing.assert_array_equal(theirs[0, 0], [1, 1])
    np.testing.assert_array_equal(jax.grad(lambda y: f(y).sum())(y), [0, 1])
    np.testing.assert_array_equal((f(y + jnp.array([1.0, 0.0])) - f(y)).sum(), 0)  # the truth


@pytest.mark.parametrize(("pooled", "seed"), LIVE)
def test_values_are_those_of_onnx_runtime(pooled: int, seed: int) -> None:
    onnx, onnxruntime = require("onnx"), require("onnxruntime")
    x, kernel, stride, _ = draw_live(pooled, seed)
    y, indices = jaxpool.max_pool_with_argmax(
        x, tuple(kernel), tuple(stride), index_space=0, data_format="channels_first"
    )
    if seed % 2:  # any indices, many of them equal
        rng = np.random.default_rng([seed, pooled])
        indices = rng.integers(0, x.size, y.shape).astype(np.int32)
    info, tensor = onnx.helper.make_tensor_value_info, onnx.TensorProto
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                "MaxUnpool", ["y", "indices", "shape"], ["x"], kernel_shape=kernel, strides=stride
            )
        ],
        "unpooling",
        [
            info("y", tensor.FLOAT, y.shape),
            info("indices", tensor.INT64, y.shape),
            info("shape", tensor.INT64, [x.ndim]),
        ],
        [info("x", tensor.FLOAT, None)],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {
        "y": np.asarray(y),
        "indices": np.asarray(indices, np.int64),
        "shape": np.array(x.shape, np.int64),
    }
    (want,) = session.run(None, feed)
    got = jaxpool.max_unpool(y, indices, x.shape[2:], index_space=0, data_format="channels_first")
    assert_same(got, want, (kernel, stride))
