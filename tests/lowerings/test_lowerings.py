"""Every implementation against brute force: implementation x geometry x reduction x dtype.

The brute force loops over the elements of a window in order, with NumPy. It uses only the sizes,
starts and counts of the geometry, which test_geometry.py checks. An implementation must compute
exactly what it supports, so all of them agree. All geometries of a dtype share one program, which
runs on several arrays, because compiling is expensive.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import PORTABLE, QUICK, assert_same, x64_for

import jaxpool
from jaxpool import Geometry
from jaxpool._lowerings import IMPLEMENTATIONS, tuning
from jaxpool._lowerings import plan as _plan
from jaxpool._lowerings.implementations import doubling
from jaxpool._lowerings.plan import NAMES, Choice, Plan
from jaxpool._lowerings.request import Request
from jaxpool.reductions import MAX, MIN, SUM, Reduction

pytestmark = pytest.mark.grid(8)

# --- geometries -----------------------------------------------------------------------------------

# name -> spatial shape, window, strides, padding, dilations, rounding, and the pooled axes, counted
# from the end: by default those before the last. Different on every axis.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "1-D": ((11,), (3,), (2,), ((1, 2),), 1, "floor"),
    "1-D dilated, ceil": ((10,), (3,), (3,), ((0, 1),), 2, "ceil"),
    "1-D, last axis": ((9,), (4,), (1,), ((0, 2),), 1, "floor", (-1,)),
    "one element": ((5,), (1,), (2,), 0, 1, "floor"),
    "one window, elements behind it": ((6,), (3,), (4,), 0, 1, "floor"),
    "kernel == axis": ((7,), (7,), (1,), 0, 1, "floor"),
    "kernel == axis, padded": ((5,), (5,), (2,), ((2, 1),), 1, "floor"),
    "stride == kernel": ((9,), (3,), (3,), 0, 1, "floor"),
    "stride == kernel, elements left over": ((11,), (3,), (3,), 0, 1, "floor"),
    "stride == kernel, ceil": ((10,), (4,), (4,), ((1, 0),), 1, "ceil"),
    "stride > kernel": ((11,), (2,), (5,), ((1, 1),), 1, "ceil_torch"),
    "pads longer than the kernel": ((4,), (2,), (1,), ((5, 3),), 1, "floor"),
    "no element between offsets": ((3,), (2,), (1,), ((1, 1),), 4, "floor"),
    "a last window without an element": ((4,), (2,), (4,), ((0, 1),), 1, "ceil"),
    "non-overlapping, last axis": ((30,), (9,), (10,), ((1, 2),), 1, "ceil", (-1,)),
    "non-overlapping, dilated": ((40,), (8,), (17,), ((2, 0),), 2, "floor"),
    "2-D, non-overlapping": ((17, 15), (4, 6), (5, 7), ((1, 0), (0, 2)), 1, "ceil"),
    "2-D, 320 elements": ((45, 17), (20, 16), (21, 17), ((1, 0), (0, 2)), 1, "ceil"),
    "2-D, edges in rows alone": ((8, 9), (4, 3), (4, 3), ((0, 0), (1, 0)), 1, "ceil", (-2, -1)),
    "2-D, low rows": ((5, 18), (2, 8), (3, 8), ((0, 1), (0, 0)), 1, "floor", (-2, -1)),
    "17 elements": ((23,), (17,), (2,), ((3, 0),), 1, "floor"),
    "24 elements dilated": ((50,), (24,), (1,), ((4, 1),), 2, "ceil_torch"),
    "40 elements": ((45,), (40,), (3,), ((2, 5),), 1, "ceil"),
    "2-D": ((7, 6), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 3), "floor"),
    "2-D, channels first": ((6, 7), (2, 3), (1, 2), ((2, 1), (1, 0)), (2, 1), "ceil", (-2, -1)),
    "2-D at stride 1": ((6, 5), (3, 2), 1, ((3, 0), (1, 2)), (1, 2), "floor"),
    "2-D at stride 1, channels first": ((5, 6), (2, 4), 1, ((1, 2), (0, 3)), 1, "floor", (-2, -1)),
    "2-D, distant axes": ((5, 8), (2, 3), (2, 3), ((0, 1), (1, 0)), (1, 2), "ceil", (-4, -2)),
    "2-D, ceil_torch": ((8, 7), (2, 3), (3, 2), ((1, 0), (1, 1)), 1, "ceil_torch"),
    "2-D, SAME_LOWER": ((5, 6), (2, 4), (2, 1), "SAME_LOWER", 1, "floor"),
    "2-D, tiled": ((6, 8), (3, 2), (3, 2), 0, 1, "floor"),
    "2-D, long tiles, elements left over": (
        (31, 23), (9, 20), (9, 20), ((2, 0), (0, 5)), 1, "floor"),
    "2-D, long tiles, ends cut, channels first": (
        (41, 20), (18, 8), (18, 8), ((3, 0), (0, 1)), 1, "ceil", (-2, -1)),
    "2-D, the whole plane": ((5, 6), (5, 6), 1, 0, 1, "floor"),
    "2-D, empty windows": ((3, 4), (2, 3), (2, 3), ((4, 0), (0, 7)), 1, "floor"),
    "2-D, 306 elements": ((20, 19), (17, 18), (2, 1), ((0, 3), (2, 0)), 1, "floor"),
    "3-D": ((4, 5, 3), (2, 3, 1), (1, 2, 3), ((1, 0), (0, 1), (0, 0)), (2, 1, 1), "floor"),
    "3-D, ceil": ((5, 4, 6), (2, 2, 3), (2, 3, 2), ((0, 1), (1, 0), (0, 0)), 1, "ceil"),
    "3-D, tiled, channels first": (
        (4, 3, 6), (2, 1, 3), (2, 1, 3), ((0, 0), (1, 0), (0, 0)), 1, "floor", (-3, -2, -1)),
    "blocks of 6 elements": ((53,), (18,), (12,), ((3, 2),), 1, "ceil"),
    "18 blocks, last axis": ((91,), (72,), (4,), ((1, 5),), 1, "floor", (-1,)),
    "blocks of 24 elements": ((130,), (72,), (48,), ((5, 0),), 1, "ceil_torch"),
    "2-D, blocks": ((14, 37), (4, 18), (2, 12), ((1, 0), (0, 2)), 1, "ceil", (-2, -1)),
    "blocks in gaps": ((40,), (6,), (9,), ((4, 7),), 1, "ceil"),
}  # fmt: skip

# One of each kind, for the long list of dtypes.
FEW = (
    "1-D dilated, ceil",
    "stride == kernel, ceil",
    "17 elements",
    "2-D",
    "2-D, empty windows",
)


@functools.cache
def build(name: str) -> tuple[Geometry, tuple[int, ...]]:
    """Return the geometry of a case, and the shape of an array for it."""
    sizes, window, strides, padding, dilations, rounding, *rest = SETTINGS[name]
    found = jaxpool.geometry(
        sizes, window, strides, padding, dilations=dilations, rounding=rounding
    )
    positions = rest[0] if rest else tuple(range(-len(sizes) - 1, -1))
    shape = [2] + [3] * -positions[0]
    for position, size in zip(positions, sizes, strict=True):
        shape[position] = size
    return dataclasses.replace(found, positions=positions).compact(), tuple(shape)


# --- brute force ----------------------------------------------------------------------------------


def taps_of(geometry: Geometry, x: np.ndarray, valid: np.ndarray):
    """Yield every offset, row-major: its number, its elements, and the mask of real ones."""
    for number, offset in enumerate(np.ndindex(*geometry.kernel)):
        elements, real = x, valid
        for axis, position, t in zip(geometry.axes, geometry.positions, offset, strict=True):
            q = np.array([axis.start(o) + t * axis.dilation for o in range(axis.out)])
            inside = (q >= 0) & (q < axis.size)
            q = np.where(inside, q, 0)
            elements, real = np.take(elements, q, position), np.take(real, q, position)
            real = real & inside.reshape((-1,) + (1,) * (-position - 1))
        yield number, elements, real


def argmaxes(
    x: np.ndarray, valid: np.ndarray, geometry: Geometry, largest: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first extreme element of every window, and its offset; -1 if empty."""
    low, high = ends(x.dtype)
    best = offsets = None
    for number, elements, real in taps_of(geometry, x, valid):
        if best is None or offsets is None:
            best = np.full(elements.shape, low if largest else high, x.dtype)
            offsets = np.full(elements.shape, -1)
        with np.errstate(invalid="ignore"):
            better = elements > best if largest else elements < best
        better |= (elements != elements) & (best == best)
        take = real & (better | (offsets < 0))
        best, offsets = np.where(take, elements, best), np.where(take, number, offsets)
    assert best is not None and offsets is not None
    return best, offsets


def total(x: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Return the sum of every window: integers wrap, floats are added in float64."""
    wide = x.dtype if x.dtype.kind in "iu" else np.dtype(np.float64)
    result = None
    for _, elements, real in taps_of(geometry, x.astype(wide), np.ones(x.shape, bool)):
        with np.errstate(invalid="ignore"):
            part = np.where(real, elements, np.zeros((), wide))
            result = part if result is None else result + part
    assert result is not None
    return result.astype(x.dtype)


def ends(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the lower and upper limit of the numbers of the dtype."""
    if dtype == np.bool_:
        return False, True
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    unbounded = np.isinf(np.asarray(np.inf).astype(dtype))
    limits = jnp.finfo(dtype)
    return (-np.inf, np.inf) if unbounded else (float(limits.min), float(limits.max))


# --- data -----------------------------------------------------------------------------------------


def is_float(dtype: np.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def arrays(dtype: np.dtype) -> dict[str, Sequence[Any]]:
    """Return values for arrays: many ties, and all special values of an order."""
    low, high = ends(dtype)
    if dtype == np.bool_:
        return {"truths": [False, False, True], "all False": [False], "all True": [True]}
    if not is_float(dtype):
        middle = [int(low) // 2, 0, 1, 2, int(high) // 2]
        return {
            "integers": [int(low), int(low) + 1, *middle, int(high)],
            "lowest": [int(low)],
            "highest": [int(high)],
        }
    some = (np.random.default_rng(1).normal(size=40) * 4).tolist()
    return {
        "numbers": some,
        "signed zeros": [-0.0, 0.0],
        "ties": [-1.0, -0.0, 0.0, -2.0],
        "infinities": [low, low, float(jnp.finfo(dtype).min), high],
        "lowest": [low],
        "few NaN": [*some, np.nan],
        "NaN of both signs": [np.nan, -np.nan, high, low, 0.0],
    }


def draw(values: Sequence[Any], dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    index = np.random.default_rng(seed).integers(len(values), size=shape)
    return np.array(values, dtype)[index]


def summands(dtype: np.dtype) -> dict[str, Sequence[Any]]:
    """Return values whose sums are exact in any order."""
    if not is_float(dtype):
        return arrays(dtype)
    exact = [-1.0, 0.0, 1.0, -1.0, 0.0, 1.0]
    return {"small integers": exact, "NaN and infinities": exact * 9 + [np.inf, -np.inf, np.nan]}


# --- the matrix -----------------------------------------------------------------------------------


def accepted(
    implementation: str,
    reduction: Reduction,
    dtype: np.dtype,
    names: Sequence[str],
    argreduce: bool = False,
) -> list[str]:
    """Return the cases that an implementation supports."""
    return [n for n in names if reason(implementation, n, reduction, dtype, argreduce) is None]


def reason(
    implementation: str, name: str, reduction: Reduction, dtype: np.dtype, argreduce: bool = False
) -> str | None:
    """Return why an implementation does not support a case, or None."""
    operation = "argreduce" if argreduce else "reduce"
    request = Request(operation, build(name)[0], reduction, dtype, False, "cpu")
    return IMPLEMENTATIONS[implementation].module.unsupported_reason(request)


def planned(implementation: str, reduction: Reduction, name: str) -> Plan:
    """Return the plan of a case with one implementation on every platform."""
    geometry, n = build(name)[0], implementation
    reduce, argreduce = (
        Choice(operation, geometry, n, n, n) for operation in ("reduce", "argreduce")
    )
    return Plan(geometry, reduction, n, reduce, argreduce, None, None, None)


Arrays = Mapping[str, Any]
Options = dict[str, Any] | None
"""Of the compiler."""


def reduced(implementation: str, reduction: Reduction, options: Options) -> Callable[[Arrays], Any]:
    """Return a compiled function that reduces every case."""

    def all_cases(arrays: Arrays) -> Arrays:
        return {
            n: _plan.reduce(planned(implementation, reduction, n), x) for n, x in arrays.items()
        }

    return jax.jit(all_cases, compiler_options=options)


def selected(
    implementation: str, reduction: Reduction, masked: bool, options: Options
) -> Callable[[Arrays, Arrays], Any]:
    """Return a compiled function of argmax values and offsets."""

    def all_cases(arrays: Arrays, masks: Arrays) -> dict[str, tuple[jax.Array, jax.Array]]:
        found = {}
        for name, x in arrays.items():
            mask = masks[name] if masked else None
            plan = planned(implementation, reduction, name)
            found[name] = _plan.argreduce(plan, x, mask)
        return found

    return jax.jit(all_cases, compiler_options=options)


def masks_for(names: Sequence[str]) -> dict[str, np.ndarray]:
    return {name: draw([True, True, False], np.dtype(bool), build(name)[1], 9) for name in names}


def check_extremes(
    implementation: str,
    largest: bool,
    dtype: np.dtype,
    names: Sequence[str],
    masked: Sequence[bool],
    options: Options = None,
) -> int:
    """Fail unless values and offsets of every case are right; return how many are supported.

    Args:
      masked: whether to mask elements; each entry is one check.
    """
    reduction = MAX if largest else MIN
    runs = accepted(implementation, reduction, dtype, names)
    names = accepted(implementation, reduction, dtype, names, argreduce=True)
    masks, everywhere = masks_for(names), {n: np.ones(build(n)[1], bool) for n in names}
    run = reduced(implementation, reduction, options)
    ways = {way: selected(implementation, reduction, way, options) for way in masked}
    for seed, (kind, values) in enumerate(arrays(dtype).items()):
        data = {name: draw(values, dtype, build(name)[1], seed) for name in names}
        got = jax.device_get(run({name: data[name] for name in runs}))
        pairs = {way: jax.device_get(select(data, masks)) for way, select in ways.items()}
        for name in names:
            case = f"{implementation}, {reduction.name}, {name}, {kind}"
            want = argmaxes(data[name], everywhere[name], build(name)[0], largest)
            if name in runs:
                assert_same(got[name], want[0], case)
            for way in ways:
                if way:
                    want = argmaxes(data[name], masks[name], build(name)[0], largest)
                check_pair(pairs[way][name], want, build(name)[0], f"{case}, masked: {way}")
    return len(names)


def check_pair(got: Any, want: Any, geometry: Geometry, case: str) -> None:
    """Check values, and offsets in their dtype with its sentinel for empty windows."""
    dtype = np.dtype("uint8" if geometry.taps <= 255 else "int32")
    assert_same(got[0], want[0], f"{case}: values")
    assert_same(got[1], want[1].astype(dtype), f"{case}: offsets")


def check_sums(
    implementation: str, dtype: np.dtype, names: Sequence[str], options: Options = None
) -> int:
    """Fail unless an implementation adds every case exactly, and random floats up to rounding."""
    names = accepted(implementation, SUM, dtype, names)
    run = reduced(implementation, SUM, options)
    for seed, (kind, values) in enumerate(summands(dtype).items()):
        data = {name: draw(values, dtype, build(name)[1], seed) for name in names}
        got = jax.device_get(run(data))
        for name in names:
            want = total(data[name], build(name)[0])
            assert_same(got[name], want, f"{implementation}, sum, {name}, {kind}")
    if is_float(dtype):
        check_rounding(implementation, dtype, names, run)
    return len(names)


def check_rounding(implementation: str, dtype: np.dtype, names: Sequence[str], run: Any) -> None:
    """Check that every addition has at most half an ulp of error, of the absolute sum."""
    rng = np.random.default_rng(3)
    data = {name: rng.normal(size=build(name)[1]).astype(dtype) for name in names}
    got = jax.device_get(run(data))
    for name in names:
        geometry = build(name)[0]
        exact = total(data[name].astype(np.float64), geometry)
        size = total(np.abs(data[name].astype(np.float64)), geometry)
        error = np.abs(got[name].astype(np.float64) - exact)
        bound = geometry.taps * float(jnp.finfo(dtype).eps) * size
        assert (error <= bound).all(), f"{implementation}, sum, {name}: off by {error.max()}"


over_implementations = pytest.mark.parametrize("implementation", PORTABLE)
DTYPES = (
    "float64", "float32", "bfloat16", "float16", "float8_e4m3fn",
    "int2", "uint4", "int8", "int32", "uint8", "uint32", "bool",
)  # fmt: skip


@pytest.mark.grid(12)
@over_implementations
@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
def test_extremes_of_every_geometry(implementation: str, largest: bool) -> None:
    dtype = np.dtype("float32" if largest else "int32")
    masked = (False, True) if largest else (False,)
    assert check_extremes(implementation, largest, dtype, list(SETTINGS), masked)


@over_implementations
def test_sums_of_every_geometry(implementation: str) -> None:
    assert check_sums(implementation, np.dtype("float32"), list(SETTINGS))


@pytest.mark.grid(56)
@over_implementations
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(implementation: str, dtype: str) -> None:
    resolved = np.dtype(dtype)
    with x64_for(resolved):
        for largest in (True, False):
            assert check_extremes(implementation, largest, resolved, FEW, (not largest,), QUICK)
        if resolved.itemsize > 1 or resolved.kind in "iu":  # the others have a wider accumulator
            assert check_sums(implementation, resolved, FEW, QUICK)


@pytest.mark.grid(9)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_windows_tiled_as_if_they_were_long(
    kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "MAX_ADDED_IN_LOOP", 2)
    if kind == "sum":
        assert check_sums("tiled", np.dtype(dtype), list(SETTINGS), QUICK)
    else:
        largest, masked = kind == "max", (False, True)
        assert check_extremes("tiled", largest, np.dtype(dtype), list(SETTINGS), masked, QUICK)


@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "blocks of 24 elements"])
def test_extremes_on_cpu_compare_no_bfloat16(name: str, largest: bool) -> None:
    """XLA:CPU (jaxlib 0.12) does not vectorise a loop that does.

    The argmax of blocks of elements may compare bfloat16: blocks are few.
    """
    geometry, shape = build(name)
    reduction = MAX if largest else MIN
    plan = _plan.plan_for(geometry, reduction, np.dtype(jnp.bfloat16))

    def values_and_offsets(x: jax.Array) -> Any:
        return _plan.reduce(plan, x), _plan.argreduce(plan, x, None)

    traced = jax.jit(values_and_offsets).trace(jnp.zeros(shape, jnp.bfloat16))
    program = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo" in program
    assert not re.search(r"stablehlo.(compare|maximum|minimum).*bf16", program)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_argmax_of_segments_as_in_large_arrays(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "MIN_BYTES_OF_SEGMENTS", 0)
    for largest in (True, False):
        assert check_extremes(
            "slices", largest, np.dtype(dtype), list(SETTINGS), (False, True), QUICK
        )


@pytest.mark.grid(4)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_argmax_by_a_padded_copy_and_without_as_in_large_arrays(
    kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in SETTINGS if "at stride 1" in name]
    for limit in (tuning.MAX_BYTES_COPIED, 0):
        monkeypatch.setattr(tuning, "MAX_BYTES_COPIED", limit)
        assert check_extremes("slices", kind == "max", np.dtype(dtype), names, (False, True), QUICK)


def test_the_reference_takes_everything() -> None:
    for reduction in (MAX, MIN, SUM):
        assert accepted("reduce_window", reduction, np.dtype("float32"), list(SETTINGS)) == list(
            SETTINGS
        )


def test_every_case_is_taken_by_two_implementations() -> None:
    for name in SETTINGS:
        supporting = [low for low in PORTABLE if accepted(low, MAX, np.dtype("float32"), [name])]
        assert len(supporting) >= 2, name


def test_cases_are_asymmetric_and_complete() -> None:
    """The matrix contains every combination that it promises."""
    built = [build(name)[0] for name in SETTINGS]
    axes = [axis for geometry in built for axis in geometry.axes]
    assert {len(geometry.axes) for geometry in built} == {1, 2, 3}
    assert {settings[5] for settings in SETTINGS.values()} == {"floor", "ceil", "ceil_torch"}
    assert any(geometry.has_empty_window for geometry in built)
    assert any(axis.overhang for axis in axes) and any(axis.dilation > 1 for axis in axes)
    assert any(axis.pad_low > axis.kernel for axis in axes)
    assert any(axis.stride == axis.kernel > 1 for axis in axes)
    assert any(axis.kernel == axis.size for axis in axes)
    assert {axis.kernel for axis in axes} >= {1, 2, 3, 17, 24, 40}
    assert any(geometry.taps > 255 for geometry in built)
    for geometry in built:
        if len(geometry.axes) > 1:
            assert len(set(geometry.axes)) == len(geometry.axes)


# --- the named implementation is the one that runs ------------------------------------------------

OPS: dict[str, Callable[..., Any]] = {
    "max_pool": jaxpool.max_pool,
    "min_pool": jaxpool.min_pool,
    "max_pool_with_argmax": jaxpool.max_pool_with_argmax,
    "avg_pool": jaxpool.avg_pool,
    "sum_pool": jaxpool.sum_pool,
}
X = np.arange(2 * 6 * 8 * 3, dtype=np.float32).reshape(2, 6, 8, 3)
TILED: dict[str, Any] = {"window_shape": (2, 4), "strides": (2, 4)}


@over_implementations
@pytest.mark.parametrize("op", OPS)
def test_the_named_implementation_is_the_one_that_runs(op: str, implementation: str) -> None:
    named = functools.partial(OPS[op], **TILED, implementation=implementation)
    program = str(jax.make_jaxpr(named)(X))
    selects = op == "max_pool_with_argmax"
    by_windows = implementation in ("reduce_window", "separable", *([] if selects else ["blocks"]))
    assert ("reduce_window" in program) == by_windows
    reshaped = "reduce_max" in program or "reduce_min" in program or "reduce_sum" in program
    has_tiles = implementation in ("tiled", "blocks")
    assert reshaped == has_tiles or "reduce[" in program
    plain = OPS[op](X, **TILED)
    jax.tree.map(lambda a, b: assert_same(a, b, (op, implementation)), named(X), plain)


def test_named_lowerings_are_different_programs() -> None:
    programs = {
        str(jax.make_jaxpr(functools.partial(jaxpool.max_pool, **TILED, implementation=name))(X))
        for name in NAMES[1:]
    }
    assert len(programs) == len(NAMES) - 1


UNSUPPORTED = [
    (implementation, name, why)
    for implementation in NAMES[1:]
    for name in SETTINGS
    if (why := reason(implementation, name, MAX, np.dtype("float32"))) is not None
]


@pytest.mark.parametrize(
    "implementation", sorted({implementation for implementation, _, _ in UNSUPPORTED})
)
def test_a_named_implementation_says_why_it_does_not_support_a_window(implementation: str) -> None:
    for _, name, reason in (row for row in UNSUPPORTED if row[0] == implementation):
        sizes, window, strides, padding, dilations, rounding, *_ = SETTINGS[name]
        words = {"dilations": dilations, "rounding": rounding, "implementation": implementation}
        call = functools.partial(jaxpool.max_pool, **words)
        x = np.zeros((1, *sizes, 1), np.float32)
        with pytest.raises(NotImplementedError) as caught:
            call(x, window, strides, padding)
        what, facts, advice = str(caught.value).split("\n")
        assert what == (
            f"max_pool: `implementation` = {implementation!r} does not support these windows."
        )
        assert reason in facts and facts.startswith("  ")
        assert advice.startswith('  Use implementation="auto"')


# --- special sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", range(1, 42))
def test_doubling_of_every_length(kernel: int) -> None:
    """Windows with every number of offsets; weighted sums reveal a tap that counts twice."""
    found = jaxpool.geometry(kernel + 9, kernel, 2, ((kernel // 2, 3),))
    geometry = dataclasses.replace(found, positions=(-1,))
    x = draw([1, 2, 4, 8, 64, -128], np.dtype("int32"), (2, kernel + 9), kernel)
    valid = np.ones(x.shape, bool)
    run = jax.jit(
        lambda x: (
            doubling.reduce(x, geometry, SUM),
            doubling.reduce(x, geometry, MIN),
            doubling.argreduce(x, None, geometry, MAX),
        ),
        compiler_options=QUICK,
    )
    sums, least, pair = jax.device_get(run(x))
    assert_same(sums, total(x, geometry), f"sum of {kernel}")
    assert_same(least, argmaxes(x, valid, geometry, False)[0], f"min of {kernel}")
    check_pair(pair, argmaxes(x, valid, geometry, True), geometry, f"max of {kernel}")


def test_the_brute_force_by_hand() -> None:
    geometry = dataclasses.replace(
        jaxpool.geometry(3, 2, 1, 1, dilations=1), positions=(-1,)
    )  # fmt: skip
    x = np.array([[3.0, 3.0, np.nan]])
    values, offsets = argmaxes(x, np.array([[True, True, False]]), geometry, True)
    assert values.tolist() == [[3.0, 3.0, 3.0, -math.inf]] and offsets.tolist() == [[1, 0, 0, -1]]
    assert total(x[:, :2].repeat(2, 1)[:, :3], geometry).tolist() == [[3.0, 6.0, 6.0, 3.0]]
    assert argmaxes(x, np.ones((1, 3), bool), geometry, False)[1].tolist() == [[1, 0, 1, 0]]
