"""``jax.export``: symbolic sizes, one artifact for all platforms, calls without jaxpool."""

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import (
    EVERY_OP,
    GLOBAL,
    OF_BOXES,
    OVER_WINDOWS,
    SLIDING,
    SPACE,
    numbers,
    with_gradient,
)
from fresh import python
from helpers import PLATFORMS, QUICK
from jax import export

import jaxpool
from jaxpool.compat import _rules, flax, mli, onednn, onnx, tensorflow, torch

pytestmark = pytest.mark.grid(8)

RUN = """
import json, sys
import jax, numpy as np
from jax import export
folder, x = sys.argv[1], np.load(sys.argv[1] + "/x.npy")
calls = {}
for name in json.load(open(folder + "/names.json")):
    with open(f"{folder}/{name}.exported", "rb") as file:
        calls[name] = export.deserialize(file.read()).call
results = jax.jit(lambda x: {name: jax.tree.leaves(call(x)) for name, call in calls.items()})(x)
np.savez(folder + "/results.npz", **{
    f"{name} {n}": array for name, arrays in results.items() for n, array in enumerate(arrays)
})
assert not any(module.startswith("jaxpool") for module in sys.modules)
"""

RUN_ANEW = (
    "max_pool",
    "max_pool_with_argmax",
    "avg_pool, masked",
    "lp_pool",
    "adaptive_max_pool_with_argmax",
    "max_unpool",
    "global_max_pool",
)
"""One op for each way of computing; all of them would take long to compile."""


def exported(function: Any, sizes: str, constraints: tuple[str, ...] = ()) -> export.Exported:
    shape = export.symbolic_shape(sizes, constraints=constraints)
    spec = jax.ShapeDtypeStruct(shape, jnp.float32)
    return export.export(jax.jit(function), platforms=PLATFORMS)(spec)


@functools.cache
def artifact_of(name: str) -> export.Exported:
    """Return the artifact of an op of the table with its gradient."""
    return exported(with_gradient(EVERY_OP[name]), "b, 7, 6, c")


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", EVERY_OP)
def test_batch_and_channels_may_be_symbolic(name: str) -> None:
    artifact = artifact_of(name)
    assert artifact.platforms == PLATFORMS
    want = jax.eval_shape(with_gradient(EVERY_OP[name]), numbers(2, 3))
    for symbolic, known in zip(artifact.out_avals, jax.tree.leaves(want), strict=True):
        sizes = {"b": 2, "c": 3}
        assert tuple(sizes.get(str(n), n) for n in symbolic.shape) == known.shape
        assert symbolic.dtype == known.dtype


@pytest.mark.deep
def test_artifacts_run_in_a_fresh_process_without_jaxpool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, x = RUN_ANEW, numbers(2, 3)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "names.json").write_text(json.dumps(names))
    for name in names:
        (tmp_path / f"{name}.exported").write_bytes(artifact_of(name).serialize())
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiles faster
    done = python("-c", RUN, str(tmp_path))
    assert done.returncode == 0, done.stderr
    ops = {name: with_gradient(EVERY_OP[name]) for name in names}
    want = jax.jit(lambda x: {n: jax.tree.leaves(op(x)) for n, op in ops.items()})(x)
    with np.load(tmp_path / "results.npz") as got:
        for name, arrays in want.items():
            for n, array in enumerate(arrays):
                case = f"{name} {n}"
                np.testing.assert_allclose(got[case], array, rtol=2e-5, atol=1e-5, err_msg=case)


BOUNDED = ("h <= 999", "w <= 999")
"""So that int32 holds indices."""


@pytest.mark.parametrize("name", GLOBAL)
def test_global_pools_take_symbolic_space(name: str) -> None:
    both = with_gradient(GLOBAL[name])
    artifact = exported(both, "2, h, w, 3", BOUNDED if "argmax" in name else ())
    x = numbers(2, 3)
    got, want = artifact.call(x), jax.jit(both)(x)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


# Axis 0 drops elements at its end, axis 1 has windows at stride 1. These settings are valid for any
# size, unlike the masks and weights of the table.
ANY_SIZE = {"strides": (2, 1), "padding": ((1, 0), (1, 1)), "rounding": "floor"}
SYMBOLIC_SPACE = [name for name in SLIDING if "masked" not in name and "weighted" not in name]


@pytest.mark.parametrize("name", SYMBOLIC_SPACE)
def test_windows_over_symbolic_space(name: str) -> None:
    both = with_gradient(lambda x: SLIDING[name](x, **ANY_SIZE))
    artifact = exported(both, "b, h, w, 3", ("h >= 14", "w >= 12", "h <= 99", "w <= 99"))
    x = np.random.default_rng(1).permutation(2 * 16 * 13 * 3).reshape(2, 16, 13, 3) / np.float32(64)
    calls = jax.jit(lambda x: (artifact.call(x), both(x)))
    got, want = calls.lower(x).compile(QUICK)(x)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_long_medians_over_symbolic_sizes(padding: str) -> None:
    """The number of digits of a rank depends on the axis, whose size is unknown."""
    both = with_gradient(lambda x: jaxpool.median_pool(x, (140,), 1, padding))
    artifact = exported(both, "b, n, c", ("n >= 140",))
    x = np.random.default_rng(1).integers(0, 99, (2, 301, 3)).astype(np.float32)
    for got, want in zip(artifact.call(x), jax.jit(both)(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("padding", ["SAME", "SAME_LOWER", "VALID", 2])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
def test_symbolic_space_at_stride_one(padding: Any, rounding: Any) -> None:
    pool = functools.partial(
        jaxpool.avg_pool,
        window_shape=(4,),
        strides=1,
        padding=padding,
        dilations=2,
        rounding=rounding,
        count_include_pad=False,
    )
    artifact = exported(pool, "1, n, c", ("n >= 14",))
    x = numbers(1, 3)[:, :, 0].repeat(2, axis=1)
    np.testing.assert_array_equal(artifact.call(x), pool(x))


@pytest.mark.grid(4)
@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("constraint", ["n >= 1", "n >= 5", "n >= 20"])
def test_symbolic_space_beside_padding_as_long_as_a_window(rounding: Any, constraint: str) -> None:
    """A window that would start in the padding at the end is none of "ceil_torch"."""

    def both(x: jax.Array) -> Any:
        window = {"window_shape": (3,), "strides": 1, "padding": ((1, 7),), "dilations": 2}
        return jaxpool.max_pool_with_argmax(x, **window, rounding=rounding)

    artifact = exported(both, "1, n, c", (constraint, "n <= 99"))
    x = jnp.asarray(numbers(1, 3)[:, :, 0].repeat(3, axis=1))
    for got, want in zip(artifact.call(x), both(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("kernel", "stride", "low", "dilation"),
    [(2, 9, 0, 1), (3, 4, 0, 2), (1, 5, 0, 7), (2, 2, 7, 1), (2, 2, 9, 2), (2, 1, 5, 3)],
)
def test_the_smallest_symbolic_axis(kernel: int, stride: int, low: int, dilation: int) -> None:
    """The axis has two windows that do not overlap, a stride or a window apart."""
    span = (kernel - 1) * dilation + 1
    both = with_gradient(
        lambda x: jaxpool.sum_pool(x, (kernel,), stride, ((low, 0),), dilations=dilation)
    )
    artifact = exported(both, "1, n, c", (f"n >= {span + max(span, stride)}",))
    for size in (span + max(span, stride), 30):
        x = np.random.default_rng(2).integers(-9, 9, (1, size, 2)).astype(np.float32)
        for got, want in zip(artifact.call(x), jax.jit(both)(x), strict=True):
            np.testing.assert_array_equal(got, want)


# Settings of the pools of networks, and the remaining settings, each with the minimum sizes.
AS_FLAX: dict[str, tuple[Callable[[Any], Any], int]] = {
    "the stem of a ResNet": (lambda x: jaxpool.max_pool(x, (3, 3), 2, "SAME"), 1),
    "halves": (lambda x: jaxpool.max_pool(x, (2, 2), 2), 2),
    "argmax": (lambda x: jaxpool.max_pool_with_argmax(x, (3, 3), 2, "SAME"), 1),
    "argmax from axis 1": (
        lambda x: jaxpool.max_pool_with_argmax(x, (2, 3), (3, 2), 1, index_space=1), 1,
    ),
    "argmin as taps": (
        lambda x: jaxpool.min_pool_with_argmin(
            x, (3, 2), (2, 3), ((1, 1), (0, 1)), index_space="window"
        ), 1,
    ),
    "averages with padding": (lambda x: jaxpool.avg_pool(x, (3, 2), 2, "SAME"), 1),
    "averages of elements": (
        lambda x: jaxpool.avg_pool(x, (3, 4), (2, 3), "SAME_LOWER", count_include_pad=False), 1,
    ),
    "dilated sums": (lambda x: jaxpool.sum_pool(x, (2, 3), 2, "SAME", dilations=(3, 1)), 1),
    "1x1": (lambda x: jaxpool.max_pool(x, (1, 1), 2, "SAME"), 1),
    "gaps": (lambda x: jaxpool.max_pool_with_argmax(x, (2, 3), (3, 7), "SAME"), 1),
    "averages with gaps": (
        lambda x: jaxpool.avg_pool(x, (3, 2), (7, 3), "SAME_LOWER", count_include_pad=False), 1,
    ),
    "sums with gaps": (lambda x: jaxpool.sum_pool(x, (3, 1), (4, 2), "SAME", dilations=1), 1),
    "masked": (
        lambda x: jaxpool.avg_pool(x, (3, 3), 2, "SAME", where=x % 3 > 0), 1,
    ),
    "weighted": (
        lambda x: jaxpool.avg_pool(x, (3, 3), 2, "SAME", weights=1 + x % 5, where=x % 3 > 0), 1,
    ),
    "weighted rows": (
        lambda x: jaxpool.avg_pool(x, (3, 2), 2, 1, weights=1 + x[:1, :, :1, :1] % 5), 1,
    ),
    "norms": (lambda x: jaxpool.lp_pool(x, (3, 3), 2, 1), 1),
    "medians": (lambda x: jaxpool.median_pool(x, (3, 3), 2, "SAME"), 1),
    "products": (lambda x: jaxpool.pool(x / 32, jaxpool.reductions.PRODUCT, (2, 3), 2, "SAME"), 1),
    "products of whole windows": (
        lambda x: jaxpool.pool(x / 256, jaxpool.reductions.PRODUCT, (3, 2), (2, 3)), 3,
    ),
    "products with padding": (
        lambda x: jaxpool.pool(x / 256, jaxpool.reductions.PRODUCT, (2, 3), 2, 1), 1,
    ),
    "elements": (lambda x: jaxpool.windows(x, (3, 2), 2, "SAME", fill=-1), 1),
    "adaptive averages": (lambda x: jaxpool.adaptive_avg_pool(x, (1, 1)), 1),
    "adaptive maxima": (lambda x: jaxpool.adaptive_max_pool(x, (1, 1)), 1),
    "adaptive argmax": (lambda x: jaxpool.adaptive_max_pool_with_argmax(x, (1, 1)), 1),
    "Flax": (lambda x: flax.max_pool(x, (3, 3), (2, 2), "SAME"), 1),
}  # fmt: skip


@pytest.mark.grid(32)
@pytest.mark.parametrize("case", AS_FLAX)
def test_sizes_may_be_open_without_a_constraint(case: str) -> None:
    """One artifact, called at several sizes: values, indices and gradient."""
    op, least = AS_FLAX[case]
    artifact = exported(with_gradient(op), "b, h, w, c", (*BOUNDED, "c <= 99"))
    assert artifact.platforms == PLATFORMS
    for height, width in ((least, least + 1), (6, 9), (11, 8)):
        shape = (2, height, width, 3)
        x = np.random.default_rng(height).permutation(math.prod(shape)).reshape(shape) - 40
        x = x.astype(np.float32)
        x[0, :4, :3] = -np.inf if "max" in case or "stem" in case else 7  # must exceed padding
        got, want = artifact.call(x), jax.jit(with_gradient(op))(x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5, err_msg=str(shape))


@pytest.mark.parametrize(
    ("window", "strides", "padding"),
    [
        ((3, 3), 2, "SAME"),
        ((1, 1), 2, "SAME"),
        ((4, 6), 2, "VALID"),
        ((7, 5), 1, ((1, 1), (0, 1))),
        ((2, 2), 2, 1),
    ],
)
def test_open_sizes_are_those_of_lax(window: Any, strides: int, padding: Any) -> None:
    """A sum of convolution and pool branches needs equal sizes; 0 if no window fits."""
    ends = [(padding, padding)] * 2 if isinstance(padding, int) else padding
    ends = padding if isinstance(padding, str) else ((0, 0), *ends, (0, 0))

    def both(x: jax.Array) -> jax.Array:
        settings = (1, *window, 1), (1, strides, strides, 1)
        theirs = jax.lax.reduce_window(x, 0.0, jax.lax.add, *settings, padding=ends)
        return theirs + jaxpool.sum_pool(x, window, strides, padding)

    call = exported(both, "b, h, w, c").call
    x = numbers(2, 3)
    np.testing.assert_allclose(
        call(x), 2 * jaxpool.sum_pool(x, window, strides, padding), rtol=1e-6
    )
    fits = padding not in ("VALID", ((1, 1), (0, 1)))
    assert call(x[:, :1]).shape[1] == (1 if fits else 0)


@pytest.mark.parametrize(
    "window",
    [
        {"rounding": "ceil"},
        {"padding": "SAME", "window_shape": (2, 2), "strides": (3, 1), "rounding": "ceil"},
        {"padding": ((1, 1), (0, 0)), "rounding": "ceil_torch"},
    ],
)
@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "windows"])
def test_a_symbolic_axis_whose_end_depends_on_its_size_is_named(name: str, window: dict) -> None:
    settings = {"strides": (2, 1), "padding": "VALID", "rounding": "floor", **window}
    with pytest.raises(ValueError) as caught:
        exported(lambda x: SLIDING[name](x, **settings), "b, h, w, 3", ("h >= 14", "w >= 12"))
    what, facts, advice = str(caught.value).split("\n")
    assert what == f"{name}: pooled axis 0 has the symbolic size h."
    stride = settings["strides"][0]
    assert facts.startswith(f"  At stride {stride}, with padding at its end or ceil rounding,")
    assert "Use stride 1" in advice
    assert "export with a number in its place" in advice
    assert 'or rounding "floor"; or' in advice  # with any padding
    settings["rounding"] = "floor"
    exported(lambda x: SLIDING[name](x, **settings), "b, h, w, 3", ("h >= 14", "w >= 12"))


@pytest.mark.parametrize("constraints", [(), ("h >= 9",)])
def test_fractional_pools_need_known_sizes_whatever_the_bounds(constraints: tuple) -> None:
    pool = EVERY_OP["fractional_max_pool"]
    with pytest.raises(ValueError) as caught:
        exported(pool, "2, h, 6, 3", constraints)
    what, _, advice = str(caught.value).split("\n")
    assert what == "fractional_max_pool: pooled axis 0 has the symbolic size h."
    assert advice == "  Export with a number in its place, once for each size."


def test_an_error_after_an_extended_axis_names_the_axis() -> None:
    pool = lambda x: jaxpool.max_pool(x, (3, 2), (1, 2), rounding="ceil")  # noqa: E731
    with pytest.raises(ValueError, match="^max_pool: pooled axis 1 has the symbolic size w"):
        exported(pool, "b, h, w, 3")
    with pytest.raises(ValueError, match="does not fit pooled axis 1"):
        exported(pool, "b, h, 1, 3")


@pytest.mark.parametrize("constraints", [("h >= 9",), ("h >= 8", "h <= 8")])
def test_a_symbolic_axis_must_be_known_to_hold_two_windows(constraints: tuple[str, ...]) -> None:
    pool = lambda x: jaxpool.stochastic_pool(  # noqa: E731
        jax.random.key(0), x, (3, 2), 1, dilations=2
    )
    with pytest.raises(ValueError) as caught:
        exported(pool, "b, h, 6, 3", constraints)
    what, facts, advice = str(caught.value).split("\n")
    assert what == "stochastic_pool: pooled axis 0 has the symbolic size h, which may be too small."
    assert "A window spans 5 elements" in facts
    assert 'constraints=["h >= 10"]' in advice


@pytest.mark.parametrize("sizes", ["2, h, 6, 3", "2, 7, w, 3"])
@pytest.mark.parametrize("name", [name for name in OVER_WINDOWS if "adaptive" in name])
def test_a_symbolic_axis_shared_out_is_named(name: str, sizes: str) -> None:
    axis, letter = (0, "h") if "h" in sizes else (1, "w")
    with pytest.raises(ValueError) as caught:
        exported(OVER_WINDOWS[name], sizes)
    what, facts, advice = str(caught.value).split("\n")
    assert what == f"{name}: pooled axis {axis} has the symbolic size {letter}."
    assert "computes the positions of its windows as Python integers" in facts
    assert "Export with a number in its place" in advice


KEPT = {
    "maxima": lambda x, n: jaxpool.adaptive_max_pool(x, n),
    "averages": lambda x, n: jaxpool.adaptive_avg_pool(x, n, where=x % 3 > 0),
    "argmax": lambda x, n: jaxpool.adaptive_max_pool_with_argmax(x, n),
    "argmax from the batch": lambda x, n: jaxpool.adaptive_max_pool_with_argmax(
        x, n, index_space=0
    ),
    "PyTorch": lambda x, n: torch.adaptive_max_pool2d(_to_image(x), n, return_indices=True),
    "first element": lambda x, n: _rules.adaptive_max_with_argmax_by(
        "from_first_element", _to_image(x), n, None
    ),
}
"""Pools of two axes, of which the output size keeps one."""


@pytest.mark.grid(21)
@pytest.mark.parametrize(
    ("output_size", "sizes"),
    [
        ((None, 3), "b, h, 8, c"),
        ((4, None), "b, 8, w, c"),
        ((None, 1), "b, h, 8, c"),
        ((None, 1), "b, h, w, c"),
        ((1, None), "b, h, w, c"),
    ],
)
@pytest.mark.parametrize("name", KEPT)
def test_an_adaptive_pool_keeps_an_open_axis(name: str, output_size: Any, sizes: str) -> None:
    """Indices count the kept axis, too, at its place."""
    both = with_gradient(lambda x: KEPT[name](x, output_size))
    bounds = tuple(f"{size} <= 99" for size in "bhwc" if size in sizes)
    artifact = exported(both, sizes, bounds)
    x = np.random.default_rng(0).permutation(2 * 8 * 8 * 3).reshape(2, 8, 8, 3).astype(np.float32)
    x[0, 2, 3] = np.nan if name == "first element" else 7
    got, want = artifact.call(x), jax.jit(both)(x)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_adaptive_pool_of_no_axis_needs_known_sizes() -> None:
    with pytest.raises(ValueError, match="^adaptive_max_pool: pooled axis 0 has the symbolic size"):
        exported(lambda x: jaxpool.adaptive_max_pool(x, (None, None)), "2, h, w, 3")


WITHOUT_ELEMENTS = {
    "global_max_pool": -np.inf,
    "global_min_pool": np.inf,
    "global_max_pool_with_argmax": -np.inf,
    "global_std_pool": np.nan,
    "global_logsumexp_pool": -np.inf,
}
"""The results of pools of no element, unless they are 0."""


@pytest.mark.grid(16)
@pytest.mark.parametrize("name", GLOBAL | OF_BOXES)
def test_a_pool_of_a_size_that_may_be_zero(name: str) -> None:
    """As after a pool without a constraint, whose window may not fit."""
    op = (GLOBAL | OF_BOXES)[name]
    both = with_gradient(lambda x: op(jaxpool.max_pool(x, (3, 3), 2)))
    artifact = exported(both, "b, h, w, 3", BOUNDED)
    x = numbers(2, 3)
    got, want = artifact.call(x), jax.jit(both)(x)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    empty = jax.tree.leaves(artifact.call(x[:, :2]))
    np.testing.assert_array_equal(empty[0], WITHOUT_ELEMENTS.get(name, 0) + 0 * want[0][0])
    np.testing.assert_array_equal(empty[-1], np.zeros_like(x[:, :2]))


def test_indices_over_symbolic_axes_need_bounds() -> None:
    pool = lambda x: jaxpool.max_pool_with_argmax(x, (3, 2), 1, index_space=0)  # noqa: E731
    with pytest.raises(ValueError, match='may not fit int32.\n.*42.*\n.*"b <= 1024", "c <= '):
        exported(pool, "b, 7, 6, c")
    with pytest.raises(ValueError, match="may not fit int32"):
        exported(pool, "b, 7, 6, c", ("b <= 1048576", "c <= 1024"))
    artifact = exported(pool, "b, 7, 6, c", ("b <= 64", "c <= 1024"))
    x = numbers(2, 3)
    np.testing.assert_array_equal(artifact.call(x)[1], pool(x)[1])


def _unpooled(space: Any, x: Any) -> jax.Array:
    values, indices = jaxpool.max_pool_with_argmax(x, (3, 2), 2, index_space=space)
    return jaxpool.max_unpool(values, indices, SPACE, index_space=space)


@pytest.mark.deep
@pytest.mark.parametrize("space", [0, -3])
def test_unpooling_over_symbolic_batch_and_channels_needs_bounds(space: int) -> None:
    both = with_gradient(functools.partial(_unpooled, space))
    artifact = exported(both, "b, 7, 6, c", ("b <= 64", "c <= 1024"))
    x = numbers(2, 3)
    for got, want in zip(artifact.call(x), jax.jit(both)(x), strict=True):
        np.testing.assert_array_equal(got, want)
    unpool = functools.partial(jaxpool.max_unpool, output_shape=SPACE, index_space=space)
    with pytest.raises(ValueError, match="^max_unpool: indices may not fit int32"):
        exported(lambda x: unpool(x, x.astype(jnp.int32)), "b, 3, 3, c")


def _to_image(x: Any) -> jax.Array:
    return jnp.moveaxis(x, -1, 1)


def _primitive(x: Any) -> jax.Array:
    words = ("max", (3, 2), (2, 1), (0, 1), (1, 1), (0, 1))
    y, workspace = onednn.forward_training(x, *words)
    return onednn.backward(y, workspace, *words, src_shape=x.shape)


FRONT_ENDS = {
    "flax": lambda x: flax.avg_pool(x, (2, 3), (2, 1), ((3, 0), (1, 1)), False),
    "onednn": lambda x: _primitive(_to_image(x)),
    "tensorflow": lambda x: tensorflow.avg_pool(x, (3, 2), 1, "SAME"),
    "tflite": lambda x: tensorflow.tflite_average_pool_2d(
        x.astype(jnp.int8), 3, 2, 1, 1, "SAME"
    ).astype(x.dtype),
    "torch": lambda x: torch.avg_pool2d(_to_image(x), (3, 2), 1, 1, count_include_pad=False),
    "onnx": lambda x: onnx.average_pool(_to_image(x), [3, 2], pads=[1, 0, 1, 0]),
}


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_front_ends_over_symbolic_sizes(name: str) -> None:
    call = FRONT_ENDS[name]
    artifact = exported(call, "b, h, w, c", ("h >= 14", "w >= 12"))
    x = np.random.default_rng(1).permutation(2 * 16 * 13 * 3).reshape(2, 16, 13, 3) % 119
    x = x.astype(np.float32)
    np.testing.assert_array_equal(artifact.call(x), jax.jit(call)(x))


COUNTS_OUT = {
    "max_unpool": lambda x: jaxpool.max_unpool(x, x.astype(jnp.int32), (40, 40)),
    "max_unpool2d": lambda x: torch.max_unpool2d(_to_image(x), _to_image(x).astype(int), 2),
    "MaxUnpool": lambda x: onnx.max_unpool(
        _to_image(x), _to_image(x).astype(int), kernel_shape=[2, 2]
    ),
    "avepool_hwc": lambda x: (
        mli.avepool_hwc_fx8(mli.FxTensor(x[0].astype(jnp.int8), 3), mli.PoolConfig(2, 2, 1, 1)).data
    ),
}


@pytest.mark.parametrize("name", COUNTS_OUT)
@pytest.mark.parametrize("sizes", ["2, h, 14, 3", "2, 14, h, 3"])
def test_calls_that_need_known_sizes_name_the_axis(name: str, sizes: str) -> None:
    axis = sizes.split(", ").index("h") - 1
    called = {"MaxUnpool": "max_unpool", "avepool_hwc": "avepool_hwc_fx8"}.get(name, name)
    with pytest.raises(ValueError, match=f"^{called}: pooled axis {axis} has the symbolic size h"):
        exported(COUNTS_OUT[name], sizes, ("h >= 14",))


def test_an_artifact_can_be_differentiated() -> None:
    """The artifact includes its derivative, as JAX supports."""
    pool = EVERY_OP["max_pool"]
    artifact = export.deserialize(exported(pool, "b, 7, 6, c").serialize(vjp_order=1))
    x = numbers(2, 3)
    got = jax.grad(lambda x: artifact.call(x).sum())(x)
    np.testing.assert_array_equal(got, jax.grad(lambda x: pool(x).sum())(x))
