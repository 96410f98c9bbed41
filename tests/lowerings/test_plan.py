"""The plan of a pooling: its cache, text and reasons, and the programs that are compiled."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same

import jaxpool
from jaxpool import Geometry
from jaxpool._lowerings import IMPLEMENTATIONS
from jaxpool._lowerings.plan import NAMES, SELECTED, choice_of, plan_for
from jaxpool._lowerings.request import PLATFORMS, Operation, Request
from jaxpool._xla.lost_rules import RULES_ARE_LOST
from jaxpool.reductions import MAX, MIN, PRODUCT, SUM, Reduction

FLOAT32 = np.dtype("float32")
REFERENCE = "reduce_window"


def images(window: Any, strides: Any = 1, padding: Any = 0, **words: Any) -> Geometry:
    """Return the geometry of a window over NHWC images of 24 x 30 elements."""
    found = jaxpool.geometry((24, 30), window, strides, padding, **words)
    return dataclasses.replace(found, positions=(-3, -2)).compact()


GEOMETRIES: dict[str, Geometry] = {
    "3x3 stride 2": images((3, 3), 2, 1),
    "2x3 tiled": images((2, 3), (2, 3)),
    "8x5 tiled": images((8, 5), (8, 5)),
    "dilated": images((3, 2), 1, ((1, 0), (0, 2)), dilations=(2, 5)),
    "ceil": images((5, 4), (3, 2), rounding="ceil"),
    "19x17": images((19, 17), (2, 1)),
    "whole plane": images((24, 30)),
    "one element": images((1, 1), (2, 3)),
}
over_geometries = pytest.mark.parametrize("name", GEOMETRIES)
over_reductions = pytest.mark.parametrize("reduction", [MAX, MIN, SUM], ids=lambda r: r.name)


# --- the plan as a value --------------------------------------------------------------------------


@over_geometries
@over_reductions
def test_a_plan_is_made_once(name: str, reduction: Reduction) -> None:
    geometry = GEOMETRIES[name]
    again = dataclasses.replace(geometry, axes=tuple(list(geometry.axes)))
    plan = plan_for(geometry, reduction, FLOAT32)
    assert again is not geometry
    assert plan_for(again, reduction, np.dtype("float32")) is plan
    assert hash(plan) == hash(plan_for(again, reduction, FLOAT32))
    assert plan_for(geometry, reduction, np.dtype("bfloat16")) is not plan


@over_geometries
@over_reductions
def test_a_plan_has_a_choice_of_every_operation_of_its_reduction(
    name: str, reduction: Reduction
) -> None:
    plan = plan_for(GEOMETRIES[name], reduction, FLOAT32)
    backward = ("sum_transpose",) if reduction is SUM else ("argreduce", "gather", "scatter")
    assert {choice.operation for choice in plan.choices} == {"reduce", *backward}
    assert all(choice.geometry == GEOMETRIES[name] for choice in plan.choices)


def test_only_sums_of_floats_are_slices_of_long_tiles_that_would_be_copied() -> None:
    left_over = images((11, 13), (11, 13))
    chosen = lambda reduction, dtype: plan_for(left_over, reduction, np.dtype(dtype)).reduce.cpu  # noqa: E731
    assert chosen(SUM, "float32") == "slices"
    assert chosen(SUM, "int32") == REFERENCE
    assert chosen(PRODUCT, "float32") == chosen(MAX, "float32") == "tiled"


@over_geometries
@over_reductions
def test_a_choice_is_the_first_row_without_a_reason_and_has_those_before(
    name: str, reduction: Reduction
) -> None:
    for choice in plan_for(GEOMETRIES[name], reduction, FLOAT32).choices:
        for platform in PLATFORMS:
            request = Request(
                choice.operation, GEOMETRIES[name], reduction, FLOAT32, False, platform
            )
            rows = [r for r in IMPLEMENTATIONS.values() if platform in getattr(r, choice.operation)]
            reasons = [row.module.unsupported_reason(request) for row in rows]
            for n, row in enumerate(rows):
                if reasons[n] is None and hasattr(row.module, "slower_reason"):
                    reasons[n] = row.module.slower_reason(request)
            first = reasons.index(None)
            assert rows[first].name == getattr(choice, platform)
            listed = [(other, why) for on, other, why in choice.rejected if on == platform]
            before = [row.name for row in rows[:first]]
            assert listed == list(zip(before, reasons[:first], strict=True))


@over_geometries
@over_reductions
def test_a_plan_prints_what_and_why_without_contradiction(name: str, reduction: Reduction) -> None:
    plan = plan_for(GEOMETRIES[name], reduction, FLOAT32)
    title, *lines = str(plan).split("\n")
    assert title == f"{reduction.name} over {GEOMETRIES[name].kernel}"
    for choice in plan.choices:
        at = next(n for n, line in enumerate(lines) if line.split()[0] == choice.operation)
        following = itertools.takewhile(lambda line: line.startswith("   "), lines[at + 1 :])
        printed = [line.strip() for line in following]
        for platform, name_, reason in choice.rejected:
            assert any(f"not {name_}" in line and reason in line for line in printed), platform
        everywhere = {line.split()[1] for line in printed if " on " not in line.split(":")[0]}
        for platform in PLATFORMS:
            assert getattr(choice, platform) in lines[at]
            assert f"{getattr(choice, platform)}:" not in everywhere


def test_plans_are_frozen() -> None:
    plan = plan_for(GEOMETRIES["ceil"], MAX, FLOAT32)
    for value in (plan, plan.reduce):
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)


def test_some_plans_differ() -> None:
    """Each implementation is the choice of some geometry on CPU, except the reference."""
    plans = [plan_for(geometry, MAX, FLOAT32) for geometry in GEOMETRIES.values()]
    assert len({plan.reduce.cpu for plan in plans}) >= 2
    assert REFERENCE not in {plan.reduce.cpu for plan in plans}
    assert any(plan.reduce.rejected for plan in plans)
    scattered = {plan.scatter.cpu for plan in plans if plan.scatter is not None}
    assert scattered == {"slices", "tiled", "doubling"}


def test_windows_without_overlap_read_any_offset_and_long_ones_by_a_loop() -> None:
    tiles, loops = ("tiled", "phase_stack", "phase_pads"), ("loop", "loop", "loop")
    for name, expected in (("2x3 tiled", tiles), ("8x5 tiled", tiles), ("19x17", loops)):
        choice = choice_of("scatter", GEOMETRIES[name], FLOAT32, any_offset=True)
        assert (choice.cpu, choice.gpu, choice.tpu) == expected, name


@pytest.mark.parametrize(
    ("reduction", "dtype", "window", "stride", "want"),
    [
        (MAX, "float32", (3, 3), 1, "reduce_window"),
        (MAX, "bfloat16", (3, 3), 1, "separable"),
        (SUM, "bfloat16", (3, 3), 2, "separable"),
        (MAX, "float32", (5, 5), 1, "separable"),
        (SUM, "float32", (63,), 1, "reduce_window"),
        (SUM, "float32", (64,), 1, "doubling"),
        (MAX, "float32", (1, 101), 1, "doubling"),
        (MAX, "float32", (101,), 2, "reduce_window"),
        (MAX, "float32", (101,), 101, "tiled"),
        (MAX, "float32", (31,), 31, "reduce_window"),
        (SUM, "float32", (96,), 32, "blocks"),
    ],
)
def test_who_finds_values_on_a_gpu(
    reduction: Reduction, dtype: str, window: tuple[int, ...], stride: int, want: str
) -> None:
    """Sums of many elements are not added sequentially, which would lose digits."""
    geometry = jaxpool.geometry((909,) * len(window), window, stride)
    assert plan_for(geometry, reduction, np.dtype(jnp.dtype(dtype))).reduce.gpu == want


@pytest.mark.parametrize(
    ("any_offset", "want"), [(False, "phase_stack"), (True, "phase_stack_at_once")]
)
def test_who_scatters_at_any_offset_on_a_gpu(any_offset: bool, want: str) -> None:
    choice = choice_of(
        "scatter", jaxpool.geometry((28, 28), (7, 7), 1), FLOAT32, "auto", any_offset
    )
    assert choice.gpu == want


@over_geometries
def test_a_named_implementation_computes_all_that_it_supports(name: str) -> None:
    for implementation in NAMES[1:]:
        module = IMPLEMENTATIONS[implementation].module
        request = Request("reduce", GEOMETRIES[name], MAX, FLOAT32, False, "cpu")
        if module.unsupported_reason(request) is None:
            plan = plan_for(GEOMETRIES[name], MAX, FLOAT32, implementation)
            for choice in plan.choices:
                refused = {
                    platform for platform, name, _ in choice.rejected if name == implementation
                }
                for platform in (
                    set(PLATFORMS) - refused if hasattr(module, choice.operation) else ()
                ):
                    assert getattr(choice, platform) == implementation
        else:
            what = f"implementation. = '{implementation}' does not support these windows"
            with pytest.raises(NotImplementedError, match=what):
                plan_for(GEOMETRIES[name], MAX, FLOAT32, implementation)


def test_a_name_is_that_of_an_implementation_of_values() -> None:
    names = ("auto", "slices", "tiled", "blocks", "doubling", "separable", REFERENCE, "mosaic")
    assert names == NAMES
    assert set(NAMES[1:]) < set(IMPLEMENTATIONS)


def test_every_row_lists_the_operations_of_its_module() -> None:
    for name, row in IMPLEMENTATIONS.items():
        assert row.module.__doc__ and row.module.unsupported_reason.__doc__
        for operation in get_args(Operation):
            function = getattr(row.module, operation, None)
            listed = getattr(row, operation) or (row.codes if operation in SELECTED else ())
            assert not any(row[1:]) or bool(function) == bool(listed), (name, operation)
            assert function is None or function.__doc__, (name, operation)


# --- what is compiled -----------------------------------------------------------------------------

OPS: dict[str, Callable[..., Any]] = {
    "max_pool": jaxpool.max_pool,
    "min_pool": jaxpool.min_pool,
    "avg_pool": jaxpool.avg_pool,
    "sum_pool": jaxpool.sum_pool,
}
X = np.random.default_rng(11).permutation(2 * 24 * 30).reshape(2, 24, 30, 1).astype(np.float32)
WINDOWS: dict[str, dict[str, Any]] = {
    "2x2": {"window_shape": (2, 2), "strides": 2},
    "3x3, padded": {"window_shape": (3, 3), "strides": 2, "padding": 1},
    "dilated": {"window_shape": (3, 2), "strides": 1, "dilations": (2, 3)},
    "19x17": {"window_shape": (19, 17), "strides": 1},
}


def lowered(function: Callable[..., Any], *platforms: str) -> str:
    """Return the StableHLO of a function of ``X`` for these platforms."""
    return jax.jit(function).trace(X).lower(lowering_platforms=platforms).as_text()


@pytest.mark.grid(4)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_the_program_of_a_cpu_has_no_reduce_window_and_that_of_a_gpu_has(
    op: str, window: str
) -> None:
    pooled = functools.partial(OPS[op], **WINDOWS[window])
    assert "reduce_window" not in lowered(pooled, "cpu")
    long = window == "19x17"  # along each axis, but maxima on TPU as windows of windows
    doubled = long and op in ("max_pool", "min_pool")
    for platform, count in (("cuda", 1 + long), ("tpu", 0 if doubled else 1 + long)):
        # of one array: before JAX 0.12 a program of values also carries its dead argmax, of pairs
        text = lowered(pooled, platform)
        assert len(re.findall(r'"stablehlo\.reduce_window"\(%\w+, %\w+\) <', text)) == count


@pytest.mark.parametrize(
    ("op", "layout", "padding", "values", "gradient"),
    [
        ("avg_pool", "channels_first", 1, 1, 2),
        ("avg_pool", "channels_first", "VALID", 0, 1),
        ("avg_pool", "channels_last", 1, 0, 0),
        ("max_pool", "channels_first", 1, 1, 0),
        ("max_pool", "channels_first", "VALID", 0, 0),
    ],
)
def test_on_a_cpu_padded_rows_are_left_to_reduce_window(
    op: str, layout: str, padding: int | str, values: int, gradient: int
) -> None:
    """Windows along the contiguous axis only; a gradient of sums has both directions."""

    def pooled(x: jax.Array) -> jax.Array:
        x = x.reshape(2, 1, 24, 30) if layout == "channels_first" else x
        return OPS[op](x, (3, 3), 1, padding, data_format=layout)

    def with_gradient(x: jax.Array) -> Any:
        y, back = jax.vjp(pooled, x)
        return y, back(y)

    for function, count in ((pooled, values), (with_gradient, gradient)):
        text = lowered(function, "cpu")
        found = re.findall(r"window_dimensions = array<i64: ([\d, ]+)>", text)
        assert found == ["1, 1, 1, 3"] * count


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("padding", [(1, 3), (3, 1), (0, 3), (3, 3)])
def test_windows_in_the_padding_of_a_row_give_its_elements_nothing(
    padding: tuple[int, int], size: int
) -> None:
    x = jnp.zeros((2, 1, size), jnp.float32)
    y, back = jax.vjp(lambda x: jaxpool.sum_pool(x, (3,), 1, [padding], data_format="NCW"), x)
    cotangent = np.random.default_rng(size).permutation(y.size).reshape(y.shape).astype(np.float32)
    want = np.zeros((2, 1, sum(padding) + size))
    for window in range(y.shape[-1]):
        want[..., window : window + 3] += cotangent[..., window : window + 1]
    np.testing.assert_array_equal(back(cotangent)[0], want[..., padding[0] :][..., :size])


@pytest.mark.parametrize("op", OPS)
def test_one_program_serves_all_platforms(op: str) -> None:
    text = lowered(functools.partial(OPS[op], **WINDOWS["3x3, padded"]), "cpu", "cuda", "tpu")
    assert '"stablehlo.reduce_window"' in text and "stablehlo.case" in text


@pytest.mark.parametrize("op", OPS)
def test_a_named_implementation_is_taken_on_every_platform(op: str) -> None:
    for platform in ("cpu", "cuda", "tpu"):
        for implementation, has in ((REFERENCE, True), ("slices", False), ("doubling", False)):
            pooled = functools.partial(
                OPS[op], **WINDOWS["3x3, padded"], implementation=implementation
            )
            assert ("reduce_window" in lowered(pooled, platform)) == has, (platform, implementation)


@pytest.mark.parametrize("op", ["max_pool", "min_pool"])
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_the_gradient_has_neither_scatter_nor_select_and_scatter(op: str, platform: str) -> None:
    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (OPS[op](x, **WINDOWS["3x3, padded"]) ** 2).sum())(x)

    text = lowered(gradient, platform)
    assert "scatter" not in text


def instructions(text: str) -> int:
    """Return the number of instructions of a StableHLO program."""
    return len(re.findall(r"^ +%\S+ = ", text, re.MULTILINE))


@pytest.mark.grid(4)
@pytest.mark.parametrize("kernel", [(9, 9), (31, 29), (127, 125)])
@pytest.mark.parametrize("op", OPS)
def test_the_program_grows_with_the_logarithm_of_the_window(op: str, kernel: Any) -> None:
    """One slice for each element of a side would be far above these bounds."""
    array = jax.ShapeDtypeStruct((1, 140, 140, 2), np.float32)
    pooled = functools.partial(OPS[op], window_shape=kernel, strides=1)
    gradient = jax.grad(lambda x: pooled(x).sum())
    steps = sum(side.bit_length() for side in kernel)
    forward, backward = 30 + 8 * steps, 100 * steps
    # If JAX loses rules, values include their derivative, which the compiler removes.
    extra = backward if RULES_ARE_LOST and op in ("max_pool", "min_pool") else 0
    assert 0 < instructions(jax.jit(pooled).lower(array).as_text()) < forward + extra
    assert 0 < instructions(jax.jit(gradient).lower(array).as_text()) < backward


@pytest.mark.cpu_program
@pytest.mark.grid(5)
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "kernel", [(3,), (9,), (3, 3), (5, 5), (7, 7), (3, 3, 3), (31, 31)], ids=str
)
def test_gradients_of_overlapping_windows_are_short_programs(
    kernel: tuple[int, ...], stride: int, data_format: str
) -> None:
    """Border windows have fewer elements; separate code for each would be long."""
    spatial = (64,) * len(kernel)
    shape = (2, *spatial, 8) if data_format == "channels_last" else (2, 8, *spatial)
    pool = functools.partial(jaxpool.max_pool, padding="SAME", data_format=data_format)
    gradient = jax.jit(jax.grad(lambda x: pool(x, kernel, stride).sum()))
    text = gradient.lower(jax.ShapeDtypeStruct(shape, np.float32)).as_text()
    assert len(text.splitlines()) <= 600


@pytest.mark.grid(3)
@pytest.mark.parametrize("kernel", [(5, 1), (12, 1), (1, 12)], ids=str)
def test_the_gradient_of_windows_of_one_element_along_an_axis(kernel: tuple[int, int]) -> None:
    """After the first axis the remainder of an offset may be zero, although axes remain."""
    shape = 2, 23, 19, 3
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.permutation(np.prod(shape)).reshape(shape), jnp.float32)
    settings = (1, *kernel, 1), (1, 1, 2, 1), "SAME"

    def gradient(pool: Callable[[Any], Any]) -> jax.Array:
        y, pull = jax.vjp(pool, x)
        return pull(jnp.arange(1, y.size + 1, dtype=np.float32).reshape(y.shape))[0]

    want = gradient(lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, *settings))
    assert_same(gradient(lambda x: jaxpool.max_pool(x, kernel, (1, 2), "SAME")), want, kernel)


def test_the_count_of_instructions_sees_one_for_each_element() -> None:
    def unrolled(x: jax.Array) -> jax.Array:
        return functools.reduce(jnp.maximum, [x[:, t : t + 14] for t in range(127)])

    array = jax.ShapeDtypeStruct((1, 140), np.float32)
    assert instructions(jax.jit(unrolled).lower(array).as_text()) > 127


@pytest.mark.grid(5)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_auto_and_the_reference_agree(op: str, window: str) -> None:
    auto = OPS[op](X, **WINDOWS[window])
    reference = OPS[op](X, **WINDOWS[window], implementation=REFERENCE)
    ulps = 0 if op in ("max_pool", "min_pool") else 200  # sums of 323 elements in another order
    assert_same(auto, reference, (op, window), ulps=ulps)


@pytest.mark.cpu_program
@pytest.mark.grid(3)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kernel, stride", [(2, 2), (3, 2), (3, 1), (5, 1)])
def test_values_and_indices_come_from_one_loop(kernel: int, stride: int, data_format: str) -> None:
    x = jnp.zeros((2, 24, 20, 16))
    pool = functools.partial(jaxpool.max_pool_with_argmax, data_format=data_format)
    both = jax.jit(lambda x: pool(x, (kernel, kernel), stride)).lower(x).compile().as_text() or ""
    entry = both[both.index("ENTRY") :]
    (array,) = re.findall(r"(%\S+) = .* parameter\(0\)", entry)
    readers = [line for line in entry.splitlines() if re.search(rf"\(.*{array}[,)]", line)]
    assert len(readers) == 1, readers


def test_the_argmax_of_long_windows_without_overlap_has_its_own_choice_on_cpu() -> None:
    made = jaxpool.geometry((48, 32), (16, 8), (16, 8))
    plan = plan_for(Geometry(made.axes, (-3, -2)), MAX, FLOAT32)
    assert plan.reduce.summary == "tiled on cpu, reduce_window on gpu and tpu"
    assert plan.argreduce is not None
    assert plan.argreduce.summary == "slices on cpu, select_chain on gpu, tiled on tpu"
    named = plan_for(plan.geometry, MAX, FLOAT32, "tiled")
    assert named.argreduce is not None and named.argreduce.summary == "tiled"
