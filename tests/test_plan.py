"""The plan of a pooling: cached, printable, honest about refusals, and what is really compiled."""

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same

import jaxpool
from jaxpool import Geometry
from jaxpool._plan import NAMES, Plan, plan_for
from jaxpool._reductions import MAX, MIN, SUM, Reduction
from jaxpool.lowerings import LOWERINGS

FLOAT32 = np.dtype("float32")
REFERENCE = "reduce_window"


def images(window: Any, strides: Any = 1, padding: Any = 0, **words: Any) -> Geometry:
    """The geometry of a window over NHWC images of 24 x 30 cells."""
    found = jaxpool.geometry((24, 30), window, strides, padding, **words)
    return dataclasses.replace(found, positions=(-3, -2))


GEOMETRIES: dict[str, Geometry] = {
    "3x3 stride 2": images((3, 3), 2, 1),
    "2x3 side by side": images((2, 3), (2, 3)),
    "dilated": images((3, 2), 1, ((1, 0), (0, 2)), dilations=(2, 5)),
    "ceil": images((5, 4), (3, 2), rounding="ceil"),
    "19x17": images((19, 17), (2, 1)),
    "whole plane": images((24, 30)),
    "one tap": images((1, 1), (2, 3)),
}
over_geometries = pytest.mark.parametrize("name", GEOMETRIES)
over_reductions = pytest.mark.parametrize("reduction", [MAX, MIN, SUM], ids=lambda r: r.name)


# --- the plan as a value --------------------------------------------------------------------------


@over_geometries
@over_reductions
def test_a_plan_is_made_once(name: str, reduction: Reduction) -> None:
    geometry = GEOMETRIES[name]
    again = dataclasses.replace(geometry, axes=tuple(list(geometry.axes)))
    plan = plan_for("max_pool", geometry, reduction, FLOAT32)
    assert again is not geometry
    assert plan_for("max_pool", again, reduction, np.dtype("float32")) is plan
    assert hash(plan) == hash(plan_for("max_pool", again, reduction, FLOAT32))
    other = plan_for("max_pool", geometry, reduction, np.dtype("bfloat16"))
    assert other is not plan


@over_geometries
@over_reductions
def test_a_plan_names_its_lowerings_and_every_refusal(name: str, reduction: Reduction) -> None:
    geometry = GEOMETRIES[name]
    plan = plan_for("max_pool", geometry, reduction, FLOAT32)
    reasons = {
        lowering: module.why_not(geometry, reduction, FLOAT32)
        for lowering, module in LOWERINGS.items()
    }
    assert dict(plan.refusals) == {low: why for low, why in reasons.items() if why is not None}
    assert plan.geometry == geometry and plan.reduction is reduction
    for lowering in (plan.cpu, plan.other):
        assert reasons[lowering] is None


@over_geometries
@over_reductions
def test_a_plan_prints_what_and_why(name: str, reduction: Reduction) -> None:
    plan = plan_for("max_pool", GEOMETRIES[name], reduction, FLOAT32)
    first, *rest = str(plan).split("\n")
    assert reduction.name in first and str(GEOMETRIES[name].kernel) in first
    assert re.search(rf"\b{plan.cpu} on CPU\b", first)
    assert re.search(rf"\b{plan.other} elsewhere\b", first)
    assert len(rest) == len(plan.refusals)
    for line, (lowering, reason) in zip(rest, plan.refusals, strict=True):
        assert lowering in line and reason in line


def test_plans_are_frozen() -> None:
    plan = plan_for("max_pool", GEOMETRIES["ceil"], MAX, FLOAT32)
    for field in dataclasses.fields(Plan):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(plan, field.name, None)


def test_some_plans_differ() -> None:
    """Each lowering is the choice of some geometry on CPU, except the reference."""
    plans = [plan_for("max_pool", geometry, MAX, FLOAT32) for geometry in GEOMETRIES.values()]
    assert len({plan.cpu for plan in plans}) >= 2
    assert REFERENCE not in {plan.cpu for plan in plans}
    assert {plan.other for plan in plans} == {REFERENCE}
    assert any(plan.refusals for plan in plans)


@over_geometries
def test_a_named_lowering_is_the_plan_on_every_platform(name: str) -> None:
    for lowering in LOWERINGS:
        if LOWERINGS[lowering].why_not(GEOMETRIES[name], MAX, FLOAT32) is None:
            plan = plan_for("max_pool", GEOMETRIES[name], MAX, FLOAT32, lowering=lowering)
            assert plan.cpu == plan.other == lowering
        else:
            with pytest.raises(NotImplementedError, match=f"lowering '{lowering}' declined"):
                plan_for("max_pool", GEOMETRIES[name], MAX, FLOAT32, lowering=lowering)


def test_the_words_are_auto_and_the_names() -> None:
    assert NAMES == ("auto", *LOWERINGS)
    assert REFERENCE in LOWERINGS and "auto" not in LOWERINGS


def test_every_lowering_has_the_functions_of_a_lowering() -> None:
    for module in LOWERINGS.values():
        assert callable(module.why_not) and callable(module.run) and callable(module.select)
        assert module.__doc__ and module.run.__doc__ and module.select.__doc__


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
    """The StableHLO of a function of ``X`` for these platforms."""
    return jax.jit(function).trace(X).lower(lowering_platforms=platforms).as_text()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_the_program_of_a_cpu_has_no_reduce_window_and_that_of_a_gpu_has(
    op: str, window: str
) -> None:
    pooled = functools.partial(OPS[op], **WINDOWS[window])
    assert "reduce_window" not in lowered(pooled, "cpu")
    for platform in ("cuda", "tpu"):
        assert lowered(pooled, platform).count('"stablehlo.reduce_window"') == 1


@pytest.mark.parametrize("op", OPS)
def test_one_program_serves_all_platforms(op: str) -> None:
    text = lowered(functools.partial(OPS[op], **WINDOWS["3x3, padded"]), "cpu", "cuda", "tpu")
    assert '"stablehlo.reduce_window"' in text and "stablehlo.case" in text


@pytest.mark.parametrize("op", OPS)
def test_a_named_lowering_is_taken_on_every_platform(op: str) -> None:
    for platform in ("cpu", "cuda", "tpu"):
        for lowering, has in ((REFERENCE, True), ("slices", False), ("doubling", False)):
            pooled = functools.partial(OPS[op], **WINDOWS["3x3, padded"], lowering=lowering)
            assert ("reduce_window" in lowered(pooled, platform)) == has, (platform, lowering)


@pytest.mark.parametrize("op", ["max_pool", "min_pool"])
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_the_way_back_has_neither_scatter_nor_select_and_scatter(op: str, platform: str) -> None:
    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (OPS[op](x, **WINDOWS["3x3, padded"]) ** 2).sum())(x)

    text = lowered(gradient, platform)
    assert "scatter" not in text


def instructions(text: str) -> int:
    """Instructions of a program in StableHLO."""
    return len(re.findall(r"^ +%\S+ = ", text, re.MULTILINE))


@pytest.mark.parametrize("kernel", [(9, 9), (31, 29), (127, 125)])
@pytest.mark.parametrize("op", OPS)
def test_the_program_grows_with_the_logarithm_of_the_window(op: str, kernel: Any) -> None:
    """One slice for each tap of a side, let alone for each tap, would be far above these bounds."""
    array = jax.ShapeDtypeStruct((1, 140, 140, 2), np.float32)
    pooled = functools.partial(OPS[op], window_shape=kernel, strides=1)
    gradient = jax.grad(lambda x: pooled(x).sum())
    steps = sum(side.bit_length() for side in kernel)
    assert 0 < instructions(jax.jit(pooled).lower(array).as_text()) < 30 + 8 * steps
    assert 0 < instructions(jax.jit(gradient).lower(array).as_text()) < 100 * steps


def test_the_count_of_instructions_sees_one_for_each_tap() -> None:
    def unrolled(x: jax.Array) -> jax.Array:
        return functools.reduce(jnp.maximum, [x[:, t : t + 14] for t in range(127)])

    array = jax.ShapeDtypeStruct((1, 140), np.float32)
    assert instructions(jax.jit(unrolled).lower(array).as_text()) > 127


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("op", OPS)
def test_auto_and_the_reference_agree(op: str, window: str) -> None:
    auto = OPS[op](X, **WINDOWS[window])
    reference = OPS[op](X, **WINDOWS[window], lowering=REFERENCE)
    ulps = 0 if op in ("max_pool", "min_pool") else 200  # sums of 323 cells in another order
    assert_same(auto, reference, (op, window), ulps=ulps)


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


def test_winners_of_long_windows_apart_have_a_lowering_of_their_own_on_cpu() -> None:
    made = jaxpool.geometry((48, 32), (16, 8), (16, 8))
    plan = plan_for("max_pool", Geometry(made.axes, (-3, -2)), MAX, np.dtype("float32"))
    assert (plan.cpu, plan.other, plan.winners) == ("reshape", REFERENCE, "slices")
    assert "winners by slices, by reshape elsewhere" in str(plan)
    named = plan_for("max_pool", plan.geometry, MAX, np.dtype("float32"), "reshape")
    assert named.winners == "reshape"
