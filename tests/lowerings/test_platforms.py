"""The plan's choices for GPU and TPU, run on CPU: the same results as the CPU's choice.

Each platform has specific formulations for values, argmax and transpose. They are portable
programs, so they run on CPU; only their speed depends on the platform.
"""

import dataclasses
import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, lowered
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxpool
from jaxpool._geometry.resolve import Geometry
from jaxpool._lowerings import IMPLEMENTATIONS, tuning
from jaxpool._lowerings import plan as _plan
from jaxpool._lowerings.implementations import axis_codes, match_chain
from jaxpool._lowerings.parts import phase_sums, tiles
from jaxpool._lowerings.parts.argreduce import sentinel
from jaxpool._lowerings.plan import Choice, Plan, plan_for
from jaxpool._lowerings.request import Request
from jaxpool.reductions import MAX, MAX_LAST_NAN, MIN, PRODUCT, SUM, Reduction, mask_with_identity

pytestmark = pytest.mark.grid(4)

PLATFORMS = ("gpu", "tpu")
FLOAT32 = np.dtype(np.float32)

# spatial shape, window, strides, padding, dilations, rounding, axes after the pooled ones
CASES: dict[str, tuple[Any, ...]] = {
    "stride 1": ((7, 6), (3, 2), 1, ((1, 1), (0, 1)), 1, "floor", 1),
    "overlapping": ((9, 7), (3, 3), 2, ((1, 0), (0, 1)), 1, "ceil", 1),
    "whole groups": ((8, 6), (3, 3), 2, ((1, 1), (1, 0)), 1, "floor", 1),
    "whole groups, dilated": ((12, 9), (3, 2), (2, 3), ((3, 1), (2, 2)), 2, "floor", 1),
    "whole groups, empty windows": ((4, 6), (2, 3), (2, 3), ((4, 0), (0, 6)), 1, "floor", 1),
    "strides beyond windows": ((11, 8), (2, 3), (5, 4), ((1, 0), (0, 2)), 1, "ceil", 1),
    "tiled": ((6, 8), (3, 2), (3, 2), 0, 1, "floor", 1),
    "tiled, elements left over": ((7, 9), (3, 2), (3, 2), 0, 1, "floor", 1),
    "tiled, padded": ((7, 9), (3, 2), (3, 2), ((2, 0), (1, 0)), 1, "ceil", 1),
    "dilated": ((9, 10), (3, 2), (1, 3), ((2, 1), (0, 0)), (2, 3), "floor", 1),
    "dilated, strides share a factor": ((13,), (3,), (2,), ((1, 1),), 2, "floor", 1),
    "empty windows": ((3, 4), (2, 3), (2, 3), ((4, 0), (0, 7)), 1, "floor", 1),
    "one element": ((5,), (1,), (3,), 0, 1, "floor", 1),
    "channels first": ((6, 7), (2, 3), (1, 2), ((1, 1), (1, 0)), 1, "ceil_torch", 0),
    "3-D": ((4, 5, 3), (2, 3, 2), (1, 2, 1), ((1, 0), (0, 1), (0, 0)), (2, 1, 1), "floor", 1),
    "8 x 8": ((10, 11), (8, 8), (2, 3), ((3, 2), (1, 4)), 1, "floor", 1),
    "two steps": ((12, 9), (8, 7), (1, 2), ((3, 4), (3, 3)), 1, "floor", 1),
    "levels": ((70, 5), (60, 2), (1, 1), ((20, 30), (0, 1)), 1, "floor", 1),
    "levels, strided and dilated": ((90,), (30,), (3,), ((9, 30),), 2, "floor", 0),
    "levels, then one element": ((40, 3), (17, 1), (1, 1), ((2, 0), (0, 0)), 1, "floor", 1),
    "levels, then strides": ((45, 5), (20, 1), (2, 3), ((3, 1), (0, 0)), 1, "floor", 0),
    "levels of chains": ((100, 5), (70, 2), (2, 1), ((20, 30), (0, 1)), 1, "floor", 1),
    "blocks": ((75, 5), (48, 2), (16, 1), ((7, 20), (0, 1)), 1, "ceil", 1),
    "blocks of rows": ((3, 131), (1, 64), (1, 16), ((0, 0), (5, 9)), 1, "floor", 0),
    "dilated and apart": ((17, 13), (2, 3), (6, 7), ((2, 1), (1, 0)), 2, "ceil", 1),
    "more than 255 elements": ((20, 19), (17, 18), (2, 1), ((0, 3), (2, 0)), 1, "floor", 1),
}
over_cases = pytest.mark.parametrize("case", CASES)


def built(case: str) -> tuple[Geometry, tuple[int, ...]]:
    """Return the geometry of a case, and the shape of an array with two batch axes."""
    sizes, window, strides, padding, dilations, rounding, behind = CASES[case]
    made = jaxpool.geometry(sizes, window, strides, padding, dilations=dilations, rounding=rounding)
    count = len(sizes)
    positions = tuple(p - behind for p in range(-count, 0))
    return Geometry(made.axes, positions).compact(), (2, 1, *sizes, *[3] * behind)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return few numbers, with ties; floats include both infinities and NaN."""
    x = rng.integers(-2, 3, shape)
    if not jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(x, dtype)
    odd = rng.random(shape)
    x = np.where(odd < 0.5, x, np.where(odd < 0.9, -np.inf, np.where(odd < 0.95, np.inf, np.nan)))
    return jnp.asarray(x, dtype)


def on(platform: str, plan: Plan) -> Plan:
    """Return the plan with a platform's choices on every platform."""

    def everywhere(choice: Choice | None) -> Choice | None:
        name = choice and getattr(choice, platform)
        return choice and dataclasses.replace(choice, cpu=name, gpu=name, tpu=name)

    operations = ("reduce", "argreduce", "gather", "scatter", "sum_transpose")
    return dataclasses.replace(
        plan, **{operation: everywhere(getattr(plan, operation)) for operation in operations}
    )


def received(g: np.ndarray, offsets: np.ndarray, geometry: Geometry, shape: Any) -> np.ndarray:
    """Return the transpose by its definition: scatter-add each value to its offset's element."""
    dx = np.zeros(shape)
    for index in np.ndindex(*g.shape):
        offset, at = int(offsets[index]), list(index)
        if offset == int(sentinel(offsets.dtype)):
            continue
        for axis, position in geometry.placed[::-1]:
            offset, digit = divmod(offset, axis.kernel)
            at[position] = index[position] * axis.stride - axis.pad_low + digit * axis.dilation
        dx[tuple(at)] += g[index]
    return dx


def check(
    geometry: Geometry, x: jax.Array, valid: jax.Array | None, seed: int, reduction: Reduction = MAX
) -> None:
    """Fail unless values, argmax and transpose equal the CPU's on every platform."""
    dtype = np.dtype(x.dtype)
    plan, full = plan_for(geometry, reduction, dtype), mask_with_identity(x, valid, reduction)
    plans = [plan, *(on(platform, plan) for platform in PLATFORMS)]
    g = np.random.default_rng(seed).integers(-8, 9, geometry.full_shape(x.shape))

    @functools.partial(jax.jit, compiler_options=QUICK)
    def everything(x: jax.Array, full: jax.Array, g: jax.Array) -> Any:
        pairs = [_plan.argreduce(p, x, valid) for p in plans]
        sent = [p.scatter(g, pairs[0][1], dtype=dtype) for p in plans[1:] if p.scatter]
        return [_plan.reduce(p, full) for p in plans], pairs, sent

    alone, pairs, sent = everything(x, full, jnp.asarray(g, jnp.float32))
    values, offsets = (np.asarray(a) for a in pairs[0])
    want = received(g, offsets, geometry, x.shape).astype(np.float32)
    for platform, one, pair, dx in zip(PLATFORMS, alone[1:], pairs[1:], sent, strict=True):
        for got in (one, pair[0]):
            assert_same(np.asarray(got, np.float32), np.float32(values), platform)
        assert_same(np.asarray(pair[1]), offsets, platform)
        assert_same(np.asarray(dx), want, platform)


@pytest.mark.grid(16)
@over_cases
def test_every_case(case: str, rng: np.random.Generator) -> None:
    geometry, shape = built(case)
    check(geometry, drawn(rng, shape, jnp.float32), None, 1)


@pytest.mark.grid(8)
@over_cases
def test_windows_of_identities(case: str, rng: np.random.Generator) -> None:
    """If all elements of a window tie, the argmax is the first that is no padding."""
    geometry, shape = built(case)
    x = np.where(rng.random(shape) < 0.1, rng.integers(-2, 3, shape), -np.inf)
    check(geometry, jnp.asarray(x, jnp.float32), None, 3)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", [(3, 2), (2, 3)])
def test_elements_that_are_strided_slices(
    window: tuple[int, int], masked: bool, rng: np.random.Generator
) -> None:
    made = jaxpool.geometry((9, 7), window, (2, 3))
    geometry, shape = Geometry(made.axes, (-3, -2)), (8, 9, 7, 128)
    valid = jnp.asarray(rng.random(shape) < 0.6) if masked else None
    assert match_chain.is_sliced_in_place(shape, geometry)
    check(geometry, drawn(rng, shape, jnp.float32), valid, 5)


@pytest.mark.grid(2)
@pytest.mark.parametrize("limit", [0, 36])
@pytest.mark.parametrize("case", ["overlapping", "whole groups, dilated", "tiled, padded"])
def test_a_mask_is_applied_before_or_after_the_reads(
    case: str, limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """As TPU does for windows of many elements and of few."""
    monkeypatch.setattr(tuning, "MAX_MASKED_LATE_ON_TPU", limit)
    geometry, shape = built(case)
    valid = jnp.asarray(rng.random(shape) < 0.6)
    check(geometry, drawn(rng, shape, jnp.bfloat16), valid, 6)
    check(geometry, drawn(rng, shape, jnp.float32), valid, 7, MIN)


@pytest.mark.parametrize(
    ("shape", "padding", "expected"),
    [
        ((64, 55, 55, 128), 0, True),
        ((64, 27, 27, 192), 0, True),
        ((64, 55, 55, 64), 0, True),
        ((64, 55, 55, 128), 1, False),  # slices of a padded array
        ((64, 56, 56, 128), 0, False),  # multiples of the stride
        ((64, 57, 56, 128), 0, False),  # columns along sublanes pad as little
        ((12, 55, 55, 256), 0, False),  # columns along sublanes pad less than the batch
        ((32, 147, 147, 64), 0, False),  # columns along lanes pad less than channels
        ((1, 55, 55, 128), 0, False),  # only one axis is not pooled
    ],
)
def test_which_arrays_are_strided_slices(
    shape: tuple[int, ...], padding: int, expected: bool
) -> None:
    """XLA:TPU would store each slice of an array whose minor axes are pooled."""
    made = jaxpool.geometry(shape[1:3], (3, 3), 2, ((padding, 0), (padding, 0)))
    geometry = Geometry(made.axes, (-3, -2))
    assert match_chain.is_sliced_in_place(shape, geometry) == expected


# shape, window, strides, padding, dilations, layout
SHIFTED_ROWS: dict[str, tuple[Any, ...]] = {
    "5 x 5": ((2, 9, 11, 3), (5, 5), 1, "SAME", 1, "NHWC"),
    "3 x 3": ((3, 9, 9, 2), (3, 3), 1, "SAME", 1, "NHWC"),
    "2 x 2": ((3, 8, 9, 2), (2, 2), 1, "VALID", 1, "NHWC"),
    "4 x 3, dilated": ((2, 9, 13, 3), (4, 3), 1, 2, (1, 2), "NHWC"),
    "no padding": ((3, 8, 9, 2), (5, 6), 1, "VALID", 1, "NHWC"),
    "dilated": ((2, 13, 17, 3), (5, 5), 1, ((3, 1), (0, 6)), (1, 2), "NHWC"),
    "more padding than elements": ((2, 4, 3, 3), (5, 5), 1, ((4, 4), (2, 4)), 1, "NHWC"),
    "strided along the other axis": ((2, 9, 9, 3), (5, 7), (2, 1), 2, 1, "NHWC"),
    "channels first": ((2, 3, 9, 11), (5, 5), 1, "SAME", 1, "NCHW"),
    "3-D": ((2, 5, 6, 9, 3), (3, 3, 4), 1, "SAME", 1, "NDHWC"),
}


@pytest.mark.parametrize("case", SHIFTED_ROWS)
def test_sums_of_few_images_add_shifted_rows_on_tpu(case: str, rng: np.random.Generator) -> None:
    """Sums of small integers are exact, in whichever order; no element of a row is left out."""
    shape, window, strides, padding, dilations, layout = SHIFTED_ROWS[case]
    settings = {"dilations": dilations, "data_format": layout}

    def sums(x: jax.Array, g: jax.Array) -> Any:
        y, pull = jax.vjp(lambda x: jaxpool.sum_pool(x, window, strides, padding, **settings), x)
        return y, pull(jnp.resize(g, y.shape))[0]

    x, g = (jnp.asarray(rng.integers(-9, 10, shape), jnp.float32) for _ in range(2))
    text = jax.export.export(jax.jit(sums), platforms=["tpu"])(x, g).mlir_module()
    assert text.count("stablehlo.pad") >= 2 * window[-1]
    want = jax.jit(sums)(x, g)
    for got, expected in zip(lowered(sums, "tpu", x, g)(x, g), want, strict=True):
        assert_same(np.asarray(got), np.asarray(expected), case)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((12, 56, 56, 128), True),  # columns pad less than the batch
        ((1, 112, 112, 128), True),
        ((32, 28, 28, 192), False),  # the batch pads less
        ((8, 56, 56, 128), False),  # both pad as little
        ((56, 56, 128), False),  # jax.vmap may add a batch
    ],
)
def test_which_sums_add_shifted_rows(shape: tuple[int, ...], expected: bool) -> None:
    made = jaxpool.geometry(shape[-3:-1], (5, 5), 1, "SAME")
    geometry = Geometry(made.axes, (-3, -2))
    assert tiles.has_pooled_axis(shape, geometry) == expected


@pytest.mark.parametrize("case", ["overlapping", "whole groups", "levels"])
def test_the_last_of_several_nan(case: str, rng: np.random.Generator) -> None:
    geometry, shape = built(case)
    x = np.where(rng.random(shape) < 0.3, np.nan, rng.integers(-2, 3, shape))
    check(geometry, jnp.asarray(x, jnp.float32), None, 4, MAX_LAST_NAN)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize("case", ["overlapping", "whole groups", "tiled", "two steps"])
def test_other_dtypes(case: str, dtype: str, rng: np.random.Generator) -> None:
    geometry, shape = built(case)
    check(geometry, drawn(rng, shape, jnp.dtype(dtype)), None, 1)


@pytest.mark.grid(7)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", ["overlapping", "whole groups", "tiled", "two steps"])
def test_argmax_of_bool(case: str, masked: bool, rng: np.random.Generator) -> None:
    """Offsets are numbers, although boolean elements are not."""
    geometry, shape = built(case)
    x = jnp.asarray(rng.random(shape) < 0.3)
    valid = jnp.asarray(rng.random(shape) < 0.6) if masked else None
    plan = plan_for(geometry, MAX, np.dtype(bool))
    values, offsets = _plan.argreduce(plan, x, valid)
    for platform in PLATFORMS:
        got = _plan.argreduce(on(platform, plan), x, valid)
        assert_same(np.asarray(got[0]), np.asarray(values), platform)
        assert_same(np.asarray(got[1]), np.asarray(offsets), platform)


@pytest.mark.parametrize(
    "case", ["overlapping", "whole groups", "dilated", "empty windows", "levels"]
)
def test_masked_minima(case: str, rng: np.random.Generator) -> None:
    geometry, shape = built(case)
    valid = jnp.asarray(rng.random(shape) < 0.6)
    check(geometry, drawn(rng, shape, jnp.float32), valid, 2, MIN)


@over_cases
def test_sums(case: str, rng: np.random.Generator) -> None:
    """Sums of integers, exact in every order, and their transposes."""
    geometry, shape = built(case)
    x = jnp.asarray(rng.integers(-8, 9, shape), jnp.float32)
    g = jnp.asarray(rng.integers(-8, 9, geometry.full_shape(shape)), jnp.float32)
    plan = plan_for(geometry, SUM, np.dtype(np.float32))

    @functools.partial(jax.jit, compiler_options=QUICK)
    def everywhere(x: jax.Array, g: jax.Array) -> Any:
        plans = [plan, *(on(platform, plan) for platform in PLATFORMS)]
        sent = [p.sum_transpose(g) for p in plans if p.sum_transpose]
        return [_plan.reduce(p, x) for p in plans], sent

    for want, *others in everywhere(x, g):
        for platform, got in zip(PLATFORMS, others, strict=True):
            assert_same(np.asarray(got), np.asarray(want), platform)


@pytest.mark.deep
@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.data())
def test_random_windows(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    many = lambda low, high: [data.draw(st.integers(low, high)) for _ in range(rank)]  # noqa: E731
    sizes, window, strides, dilations = many(2, 8), many(1, 5), many(1, 4), many(1, 2)
    padding = list(zip(many(0, 3), many(0, 3), strict=True))
    rounding: Any = data.draw(st.sampled_from(["floor", "ceil", "ceil_torch"]))
    try:
        made = jaxpool.geometry(
            sizes, window, strides, padding, dilations=dilations, rounding=rounding
        )
    except ValueError:
        return
    geometry = Geometry(made.axes, tuple(range(-rank - 1, -1))).compact()
    seed = data.draw(st.integers(0, 99))
    x = drawn(np.random.default_rng(seed), (2, *sizes, 2), jnp.float32)
    check(geometry, x, None, seed)


def test_cases_reach_every_formulation() -> None:
    """The table contains the cases that it promises."""
    plans = [plan_for(built(case)[0], MAX, np.dtype(np.float32)) for case in CASES]
    argmax = {choice.tpu for plan in plans if (choice := plan.argreduce)}
    assert argmax == {"match_chain"}
    assert any(choice.gpu == "doubling" for plan in plans if (choice := plan.argreduce)) is False
    assert {choice.tpu for plan in plans if (choice := plan.scatter)} == {"phase_pads"}
    steps = [len(phase_sums.steps_of(plan.geometry, 16)) for plan in plans]
    assert {1, 2} < set(steps)
    assert set(IMPLEMENTATIONS) >= {
        "match_chain",
        "select_chain",
        "phase_stack",
        "separable",
    }


# --- codes in place of offsets --------------------------------------------------------------------

# spatial shape, window, padding, dilations, axes after the pooled ones
CODED: dict[str, tuple[Any, ...]] = {
    "3 x 3": ((7, 6), (3, 3), ((1, 1), (1, 1)), 1, 1),
    "padded on one side": ((6, 9), (3, 3), ((0, 2), (2, 0)), 1, 1),
    "dilated": ((9, 7), (3, 2), ((3, 1), (0, 2)), 2, 1),
    "channels first": ((5, 8), (4, 3), ((2, 1), (1, 1)), 1, 0),
    "3-D": ((4, 5, 3), (2, 3, 2), ((1, 0), (1, 1), (0, 1)), 1, 1),
    "one element along an axis": ((4, 6), (1, 5), ((0, 0), (1, 3)), 1, 1),
    "as long as the axis": ((3, 4), (5, 8), ((2, 2), (3, 4)), 1, 1),
}


@pytest.mark.grid(21)
@pytest.mark.parametrize("reduction", [MAX, MIN, MAX_LAST_NAN], ids=lambda r: r.name)
@pytest.mark.parametrize("case", CODED)
def test_codes_name_the_elements_that_offsets_name(
    case: str, reduction: Reduction, rng: np.random.Generator
) -> None:
    sizes, window, padding, dilations, behind = CODED[case]
    made = jaxpool.geometry(sizes, window, 1, padding, dilations=dilations)
    geometry = Geometry(made.axes, tuple(p - behind for p in range(-len(sizes), 0)))
    shape = (2, 2, *sizes, *[3] * behind)
    for operation in ("argreduce", "gather", "scatter"):
        request = Request(operation, geometry, reduction, FLOAT32, False, "tpu", codes=True)
        assert axis_codes.unsupported_reason(request) is None
        assert axis_codes.unsupported_reason(request._replace(codes=False)) is not None
    x = drawn(rng, shape, jnp.float32) * (-1 if reduction.extremum == "min" else 1)
    t, g = rng.integers(-8, 9, (2, *shape)).astype(np.float32)

    @functools.partial(jax.jit, compiler_options=QUICK)
    def by_codes(x: jax.Array) -> Any:
        values, codes = axis_codes.argreduce(x, None, geometry, reduction)
        dx = axis_codes.scatter(jnp.asarray(g), codes, geometry, FLOAT32)
        return values, axis_codes.gather(jnp.asarray(t), codes, geometry), dx, codes

    plan = plan_for(geometry, reduction, FLOAT32)
    assert plan.gather is not None
    values, offsets = _plan.argreduce(plan, x, None)
    got_values, got, dx, codes = by_codes(x)
    assert codes.dtype == np.uint8
    assert_same(np.asarray(got_values), np.asarray(values), case)
    want = plan.gather(jnp.asarray(t), offsets)
    assert_same(np.asarray(got), np.asarray(want), case)
    sent = received(g, np.asarray(offsets), geometry, shape).astype(np.float32)
    assert_same(np.asarray(dx), sent, case)


def test_codes_are_chosen_for_all_operations_or_none() -> None:
    def chosen(geometry: Geometry, *arguments: Any) -> set[str]:
        plan = plan_for(geometry, *arguments)
        assert [choice.operation for choice in plan.coded] == ["argreduce", "gather", "scatter"]
        for choice in plan.coded:
            assert (choice.cpu, choice.gpu) == (
                getattr(plan, choice.operation).cpu,
                getattr(plan, choice.operation).gpu,
            )
        return {choice.tpu == "axis_codes" for choice in plan.coded}

    def images(length: int, *settings: Any, **others: Any) -> Geometry:
        made = jaxpool.geometry((9, 8), (length, length), *settings, **others)
        return Geometry(made.axes, (-3, -2))

    same = images(3, 1, "SAME")
    assert chosen(same, MAX, FLOAT32) == chosen(same, MIN, FLOAT32) == {True}
    assert chosen(images(3, 1, "SAME", dilations=2), MAX, FLOAT32) == {True}
    assert chosen(same, MAX, FLOAT32, "doubling") == {False}
    for geometry in (images(3, 1), images(3, 2, "SAME"), images(2, 1, "SAME"), images(5, 1, 2)):
        assert chosen(geometry, MAX, FLOAT32) == {False}
    assert not plan_for(same, SUM, FLOAT32).coded
    assert "without indices" in str(plan_for(same, MAX, FLOAT32))
    assert "without indices" not in str(plan_for(images(3, 2), MAX, FLOAT32))


STRIDED = {
    "windows": lambda x: jaxpool.windows(x, (3, 2), 2, "SAME"),
    "tiled windows": lambda x: jaxpool.windows(x, (3, 2), (3, 2)),
    "blur": lambda x: jaxpool.blur_pool(x, (3, 2), 2, "SAME"),
    "reduction without a rule": lambda x: jaxpool.pool(x, PRODUCT, (3, 2), 2, "SAME"),
}


@pytest.mark.parametrize("name", STRIDED)
def test_gradients_on_tpu_have_no_padding_between_elements(
    name: str, rng: np.random.Generator
) -> None:
    """XLA:TPU may run such a padding, the transpose of a strided slice, in serial loops."""
    x = rng.permutation(2 * 8 * 9 * 3).reshape(2, 8, 9, 3).astype(np.float32) / 99
    gradient = jax.grad(lambda x: (STRIDED[name](x) ** 2).sum())
    program = jax.jit(gradient).trace(x).lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.pad" in program
    assert not re.findall(r"interior = \[[^]]*[1-9]", program)
    np.testing.assert_allclose(lowered(gradient, "tpu", x)(x), gradient(x), rtol=1e-5)
