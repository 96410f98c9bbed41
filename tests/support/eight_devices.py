"""Pooling of arrays that are sharded over eight devices, against one device.

Run by test_sharding.py. Arguments: the part of the checks to run, and the number of parts. Prints
one JSON line per check: its name, and the failure or null. Every check compares values and
gradients and counts the collectives of the compiled programs.
"""

import itertools
import json
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from every_op import EVERY_OP, LOCAL, OF_EACH_KIND, VARIANCE, numbers, with_gradient

import jaxpool
from jaxpool import filters
from jaxpool._xla.slice_stride import slice_stride
from jaxpool.compat import mli, onednn, onnx, tensorflow
from jaxpool.sharding import pool_shards

P = jax.P
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
SHAPE = (4, 32, 9, 8)
MESH = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("batch", "space"))

OPS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "max": (jaxpool.max_pool, {}),
    "min": (jaxpool.min_pool, {}),
    "argmax": (jaxpool.max_pool_with_argmax, {}),
    "argmax in uint16": (jaxpool.max_pool_with_argmax, {"index_dtype": "uint16"}),
    "argmax as taps": (jaxpool.max_pool_with_argmax, {"index_space": "window"}),
    "avg": (jaxpool.avg_pool, {}),
    "avg of real elements": (jaxpool.avg_pool, {"count_include_pad": False}),
    "sum": (jaxpool.sum_pool, {}),
}
WINDOWS: dict[str, dict[str, Any]] = {
    "3x3": {"window_shape": (3, 3), "strides": 1, "padding": "SAME"},
    "3x3 stride 2": {"window_shape": (3, 3), "strides": 2, "padding": "SAME"},
    "3x2 uneven pads": {"window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 1))},
    "2x2 tiled": {"window_shape": (2, 2), "strides": 2},
    "dilated": {"window_shape": (3, 3), "strides": 1, "padding": "SAME", "dilations": (2, 3)},
    "gaps": {"window_shape": (1, 2), "strides": (2, 3)},
}

WINDOWS_OF_CUBES: dict[str, dict[str, Any]] = {
    "3x5x3": {"window_shape": (3, 5, 3), "strides": (1, 2, 1), "padding": "SAME"},
    "tiled, padded": {"window_shape": (3, 3, 3), "strides": 3, "padding": 1},
}


ANY_OPS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "max": lambda x: jaxpool.max_pool(x, (3, 3), 2, "SAME"),
    "argmax": lambda x: jaxpool.max_pool_with_argmax(x, (2, 2), 2)[0],
    "long": lambda x: jaxpool.max_pool(x, (12, 9), 1),
    "masked": lambda x: jaxpool.avg_pool(x, (2, 2), 2, where=x > 0),
    "global": lambda x: jaxpool.global_max_pool(x, keepdims=False),
    "adaptive": lambda x: jaxpool.adaptive_max_pool(x, (5, 4)),
    "unpool": lambda x: jaxpool.max_unpool(
        *jaxpool.max_pool_with_argmax(x, (2, 2), 2), x.shape[-3:-1]
    ),
    "windows": lambda x: jaxpool.windows(x, (2, 2), 2),
    "batch": jax.vmap(lambda x: jaxpool.max_pool(x, (2, 2), 2)),
    "pytrees": lambda x: jaxpool.pool(x, VARIANCE, (3, 2), 2, "SAME"),
    "TensorFlow": lambda x: tensorflow.max_pool(x, (3, 2), 2, "SAME"),
    "TensorFlow, argmax": lambda x: tensorflow.max_pool_with_argmax(x, (3, 2), 2, "SAME")[0],
    "oneDNN": lambda x: onednn.forward_inference(x, "max", (3, 2), (2, 1), 0, (1, 1), (1, 1)),
    "oneDNN, training": lambda x: onednn.forward_training(x, "max", (3, 2), (2, 2))[0],
    "oneDNN, average": lambda x: onednn.forward_training(x, "avg_exclude_padding", (2, 2), (2, 2))[
        0
    ],
}

ONE_ROW: dict[str, Callable[[jax.Array], Any]] = {
    "max": lambda x: jaxpool.max_pool(x, (3, 3), 3, "SAME_LOWER", rounding="ceil"),
    "argmax": jaxpool.global_max_pool_with_argmax,
}

REPLICATED: dict[str, tuple[tuple[int, ...], Callable[[jax.Array], jax.Array]]] = {
    "windows": ((2, 16, 2, 1), lambda x: jaxpool.windows(x, (6, 1), (2, 1), dilations=(2, 1))),
    "blur": ((2, 16, 2, 1), lambda x: jaxpool.blur_pool(x, (6, 1), (2, 1), dilations=(2, 1))),
    "median": ((2, 32, 9, 4), lambda x: jaxpool.median_pool(x, (3, 3), 2, "SAME")),
    "quantile": ((2, 32, 9, 4), lambda x: jaxpool.quantile_pool(x, 0.3, (5, 5), 3, "SAME")),
    "pytrees": ((2, 16, 9, 4), lambda x: jaxpool.pool(x, VARIANCE, (3, 2), 2, "SAME")),
}
"""Ops whose gradients were wrong for a sharded array and a replicated cotangent, with a shape."""

THERE = np.random.default_rng(3).random((1, 9, 4, 3)) < 0.7
PLACES = np.random.default_rng(4).permutation(36)[:12].reshape(1, 2, 2, 3)
BOXES = np.array([[0, 0.5, 1, 3, 7], [0, 1, 0, 3, 4], [0, 0, 2, 2, 8.5]], np.float32)
MANUAL: dict[str, Callable[[jax.Array], jax.Array]] = {
    "adaptive max": lambda x: jaxpool.adaptive_max_pool(x, (5, 3)),
    "adaptive max, masked": lambda x: jaxpool.adaptive_max_pool(x, (4, 7), where=THERE),
    "adaptive avg": lambda x: jaxpool.adaptive_avg_pool(x, (5, 3), where=THERE),
    "max, masked": lambda x: jaxpool.max_pool(x, (3, 3), 2, 1, where=THERE),
    "unpool": lambda x: jaxpool.max_unpool(x[:, :2, :2], PLACES, (9, 4)),
    "rank": lambda x: jaxpool.rank_pool(x, 1, (12, 4), 1, (5, 0)),
    "rank of long windows": lambda x: jaxpool.rank_pool(x, 1, (70, 1), 1, (33, 0)),
    "regions, means": lambda x: jaxpool.roi_align(x, BOXES, (2, 2)),
    "regions, maxima": lambda x: jaxpool.roi_pool(x, BOXES, (2, 2)),
    "pytrees": lambda x: jaxpool.pool(x, VARIANCE, (3, 2), 2, 1, where=THERE),
    "oneDNN, backward": lambda g: onednn.backward(
        g, None, "avg_exclude_padding", (3, 2), (2, 2), src_shape=(len(g), 9, 9, 6)
    ),
}
"""Ops on one example, with arrays that are the same on every device."""

FOOTPRINT = np.arange(63).reshape(1, 9, 7, 1) % 3 > 0
PAIRS = np.tile([[1, 0], [1, 0], [0, 0]], (7, 5)).reshape(1, 21, 10, 1)
FILTERS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "median": lambda x: filters.median_filter(x, (1, 9, 9, 1)),
    "long median": lambda x: filters.median_filter(x, (1, 1, 71, 1)),
    "long mean": lambda x: filters.uniform_filter(x, (1, 31, 31, 1)),
    "footprint": lambda x: filters.maximum_filter(x, footprint=FOOTPRINT),
    "footprint of pairs": lambda x: filters.maximum_filter(x, footprint=PAIRS),
    "structure": lambda x: filters.grey_erosion(x, structure=FOOTPRINT * 5.0),
    "any function": lambda x: filters.generic_filter(x, lambda w: (w**2).sum(-1), (1, 7, 7, 1)),
}


def data(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.permutation(np.prod(shape)).reshape(shape).astype(np.float32) - 4000
    x[1, 7:9, 2:4] = -np.inf  # must be larger than padding
    x[0, 15, 3, 1] = np.nan
    return x


def forward(pool: Callable) -> Callable:
    """Return a function of the values, and indices if there are any."""
    return lambda x, cotangent: pool(x)


def backward(pool: Callable) -> Callable:
    """Return the gradient function of the values."""
    values = lambda x: jax.tree.leaves(pool(x))[0]  # noqa: E731
    return lambda x, cotangent: jax.vjp(values, x)[1](cotangent)[0]


def collectives(text: str) -> dict[str, int]:
    """Return the number of occurrences of each collective in a compiled program."""
    found = {name: len(re.findall(rf"= .* {name}(-start)?\(", text)) for name in COLLECTIVES}
    return {name: count for name, count in found.items() if count}


def compare(pool: Callable, sharded: Callable, spec: Any, exact: bool, x: np.ndarray) -> dict:
    """Compare on the sharded array; return the collectives of forward and backward."""
    y = jax.tree.leaves(jax.eval_shape(pool, x))[0]
    cotangent = np.random.default_rng(1).integers(-9, 9, y.shape).astype(np.float32)
    sharding = jax.NamedSharding(MESH, spec)
    arrays = jax.device_put((x, cotangent), sharding)
    found = {}
    for way, make in {"forward": forward, "backward": backward}.items():
        run = jax.jit(make(sharded), out_shardings=sharding).lower(*arrays).compile()
        want = jax.jit(make(pool))(x, cotangent)
        for a, b in zip(jax.tree.leaves(run(*arrays)), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=0 if exact else 3e-6, atol=0 if exact else 1e-5)
        found[way] = collectives(run.as_text() or "")
    return found


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield every check with its name; a check raises if it fails."""
    for name, (op, op_settings) in OPS.items():
        for window, settings in WINDOWS.items():
            if name not in ("max", "avg") and window not in ("3x3 stride 2", "dilated"):
                continue
            yield (
                f"halo, {name}, {window}",
                lambda o=op, w=settings, k=op_settings: halo(o, {**w, **k}),
            )
    kinds = {"overlapping": ((3, 3), 2, "SAME"), "tiled": ((8, 9), (8, 9))}
    for kind, window in kinds.items():
        for name in ("max", "avg", "argmax"):
            for axes in ("batch", "channels"):
                yield (
                    f"{axes}, {name}, {kind}",
                    lambda n=name, w=window, a=axes: no_collectives(*OPS[n], w, a),
                )
    for name, op in LOCAL.items():
        yield f"every op, {name}", lambda n=name, o=op: every_op(n, o)
    yield "tangents beside weights", tangents_beside_weights
    for axes in ("batch", "channels"):
        for kind in ("automatic", "explicit"):
            for known in (False, True):
                settings = f"unpool, {axes}, {kind}, {'known' if known else 'unknown'} windows"
                yield settings, lambda a=axes, k=kind, w=known: unpool(a, k, w)
    for name in ("max", "avg"):
        yield f"space, {name}", lambda n=name: space(*OPS[n])
    yield "one row of each shard", one_row
    for name, op in ONE_ROW.items():
        yield f"one row, {name}", lambda o=op: one_row_of(o)
    yield "cropped end", cropped_end
    for name, case in REPLICATED.items():
        yield f"replicated cotangent, {name}", lambda c=case: replicated_cotangent(*c)
    for name in ("avg", "avg of real elements", "argmax"):
        yield f"mask, {name}", lambda n=name: mask(*OPS[n])
    for name in ("max", "argmax", "avg", "avg of real elements"):
        for window, settings in WINDOWS_OF_CUBES.items():
            for way, is_masked in {"": False, ", masked": True}.items():
                yield (
                    f"three axes, {name}, {window}{way}",
                    lambda n=name, w=settings, m=is_masked: three_axes(*OPS[n], w, m),
                )
    yield "uneven", uneven
    yield "refused", refused
    for name, op in ANY_OPS.items():
        yield f"explicit axes, {name}", lambda o=op: explicit_axes(o)
    for name in OF_EACH_KIND:
        op = EVERY_OP[name]
        yield f"explicit axes in shard_map, {name}", lambda o=op: explicit_axes_in_shard_map(o)
    for layout in ("NHWC", "NCHW"):
        yield f"explicit axes, channels of {layout}", lambda f=layout: explicit_channels(f)
    yield "explicit axes, channels of windows", explicit_windows
    yield "explicit axes, fixed point", explicit_fixed_point
    yield "explicit axes, boxes", explicit_boxes
    yield "explicit axes, indices", explicit_indices
    for name, op in MANUAL.items():
        yield f"manual axes, {name}", lambda o=op: manual(o)
    for name, op in {**EVERY_OP, **FILTERS}.items():
        yield f"manual axes, every op, {name}", lambda o=op: every_op_on_manual_axes(o)


def halo(op: Callable, settings: dict[str, Any]) -> None:
    spec = P("batch", "space")
    pool = lambda x: op(x, **settings)  # noqa: E731
    shard = lambda x: pool_shards(op, x, axis_names="space", **settings)  # noqa: E731
    sharded = jax.shard_map(shard, mesh=MESH, in_specs=spec, out_specs=spec)
    exact = op is not jaxpool.avg_pool
    counts = compare(pool, sharded, spec, exact, data())
    assert set(counts["forward"]) | set(counts["backward"]) <= {"collective-permute"}, counts
    assert counts["forward"].get("collective-permute", 0) <= 2, counts
    assert counts["backward"].get("collective-permute", 0) <= 4, counts


def explicit_axes(op: Callable) -> None:
    """Check values and gradients for shardings that are part of types."""
    mesh, spec = jax.make_mesh((2, 4), ("batch", "space")), P("batch", None, None, "space")
    x = np.random.default_rng(0).permutation(8 * 16 * 9 * 4).reshape(8, 16, 9, 4) / 1000
    x = x.astype(np.float32)
    gradient = jax.grad(lambda x: (op(x) ** 2).sum())
    want = jax.jit(op)(x), jax.jit(gradient)(x)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, jax.NamedSharding(mesh, spec))
        value = jax.jit(op)(sharded)
        assert jax.typeof(value).sharding.spec[0] == "batch", jax.typeof(value)
        for got, wanted in zip((value, jax.jit(gradient)(sharded)), want, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)


def explicit_axes_in_shard_map(op: Callable) -> None:
    """Check values and gradients where shard_map has made only one axis of the mesh manual."""
    mesh, spec = jax.make_mesh((2, 4), ("batch", "space")), P("batch", None, None, "space")
    x, both = numbers(8, 4), with_gradient(op)
    run = jax.shard_map(
        both, mesh=mesh, in_specs=P("batch"), out_specs=P("batch"), axis_names={"batch"}
    )
    with jax.set_mesh(mesh):
        got = jax.jit(run)(jax.device_put(x, jax.NamedSharding(mesh, spec)))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(jax.jit(both)(x)), strict=True):
        assert jax.typeof(a).sharding.spec == spec, jax.typeof(a)
        np.testing.assert_allclose(a, b, rtol=3e-6, atol=1e-5)


def explicit_channels(data_format: str) -> None:
    """Check that pools without pooled axes in the result send nothing; there are 8 rows, too."""
    mesh, spec = jax.make_mesh((2, 4), ("batch", "space")), P("batch", "space")
    x = np.random.default_rng(0).permutation(4 * 8 * 8 * 9).reshape(4, 8, 8, 9) / np.float32(9)
    if data_format == "NHWC":
        x, spec = np.moveaxis(x, 1, -1), P("batch", None, None, "space")
    pool = lambda x: jaxpool.global_max_pool_with_argmax(  # noqa: E731
        x, data_format=data_format, keepdims=False
    )
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, jax.NamedSharding(mesh, spec))
        compiled = jax.jit(pool).lower(sharded).compile()
        for got, want in zip(compiled(sharded), pool(x), strict=True):
            assert jax.typeof(got).sharding.spec == P("batch", "space"), jax.typeof(got)
            np.testing.assert_array_equal(got, want)
    assert not collectives(compiled.as_text() or "")


def explicit_windows() -> None:
    """Check that the elements of windows stay where their channels are."""
    mesh, spec = jax.make_mesh((2, 4), ("batch", "space")), P("batch", None, None, "space")
    x = np.random.default_rng(0).permutation(4 * 5 * 6 * 8).reshape(4, 5, 6, 8) / np.float32(9)
    both = with_gradient(lambda x: jaxpool.windows(x, (2, 3), (2, 1)))
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, jax.NamedSharding(mesh, spec))
        compiled = jax.jit(both).lower(sharded).compile()
        results = compiled(sharded)
        assert jax.typeof(results[0][0]).sharding.spec == P(*spec, None), results
        for got, want in zip(jax.tree.leaves(results), jax.tree.leaves(both(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=3e-6)
    assert not collectives(compiled.as_text() or "")


def explicit_fixed_point() -> None:
    """Check averages of front ends whose arithmetic follows the op, without a current mesh."""
    x = np.random.default_rng(0).integers(-128, 128, (8, 5, 6), np.int8)
    config = mli.PoolConfig(3, 2, 2, 1)
    runs: dict[str, Callable[[Any], Any]] = {
        "fixed point": lambda x: mli.avepool_chw_fx8(mli.FxTensor(x, 7), config).data,
        "scaled": lambda x: mli.avepool_hwc_sa8(mli.SaTensor(x, 3, 5, 2), config).data,
        "quantised": lambda x: onnx.qlinear_global_average_pool(x, 0.1, np.int8(3), 0.2, None),
    }
    for name, run in runs.items():
        got, want = run(_on_explicit_mesh(x)), run(x)
        np.testing.assert_array_equal(got, want)
        assert jax.typeof(got).sharding.spec[0] == (None if name == "scaled" else "batch"), name


def explicit_boxes() -> None:
    """Check regions of images that are not sharded, for boxes that are, without a current mesh."""
    x, boxes = numbers(8, 4), np.tile(BOXES, (8, 1))
    align = jax.jit(lambda boxes: jaxpool.roi_align(x, boxes, (2, 2)))
    np.testing.assert_allclose(align(_on_explicit_mesh(boxes)), align(boxes), rtol=3e-6)


def explicit_indices() -> None:
    """Check unpooled values that are not sharded, at indices that are, without a current mesh."""
    values, indices = jaxpool.max_pool_with_argmax(numbers(8, 4), (3, 2), 2)
    unpool = lambda indices: jaxpool.max_unpool(np.asarray(values), indices, (7, 6))  # noqa: E731
    got = unpool(_on_explicit_mesh(np.asarray(indices)))
    np.testing.assert_array_equal(got, unpool(indices))


def _on_explicit_mesh(a: np.ndarray) -> jax.Array:
    """Return the array with its first axis sharded over all devices, as part of its type."""
    mesh = jax.make_mesh((8,), ("batch",))
    return jax.device_put(a, jax.NamedSharding(mesh, P("batch")))


def manual(op: Callable) -> None:
    """Check values and derivatives inside shard_map, next to arrays that are replicated."""
    x = np.random.default_rng(0).permutation(8 * 9 * 4 * 3).reshape(8, 9, 4, 3) / 100
    x = x.astype(np.float32)
    energy = lambda x: (op(x) ** 2).sum()  # noqa: E731
    tangent = lambda f: lambda x: jax.jvp(f, (x,), (jax.numpy.cos(x),))[1]  # noqa: E731
    spec = P(("batch", "space"))
    for f in (op, tangent(op), jax.grad(energy), tangent(jax.grad(energy))):
        got = jax.jit(jax.shard_map(f, mesh=MESH, in_specs=spec, out_specs=spec))(x)
        want = np.concatenate([jax.jit(f)(example[None]) for example in x])
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-5)


def every_op_on_manual_axes(op: Callable) -> None:
    """Check results and gradient inside shard_map against those of each example separately."""
    x, spec, both = numbers(8, 3), P(("batch", "space")), with_gradient(op)
    run = jax.jit(jax.shard_map(both, mesh=MESH, in_specs=spec, out_specs=spec))
    examples = [jax.tree.leaves(jax.jit(both)(example[None])) for example in x]
    for got, want in zip(jax.tree.leaves(run(x)), zip(*examples, strict=True), strict=True):
        np.testing.assert_allclose(got, np.concatenate(want), rtol=3e-6, atol=1e-5)


def no_collectives(op: Callable, op_settings: dict[str, Any], window: tuple, axes: str) -> None:
    spec = P(("batch", "space")) if axes == "batch" else P(None, None, None, ("batch", "space"))
    pool = lambda x: op(x, *window, **op_settings)  # noqa: E731
    counts = compare(pool, pool, spec, op is not jaxpool.avg_pool, data((8, *SHAPE[1:])))
    assert counts == {"forward": {}, "backward": {}}, counts


def every_op(name: str, op: Callable) -> None:
    """Check results and gradient over a sharded batch: a device needs only its own examples."""
    x = jax.device_put(numbers(8, 3), jax.NamedSharding(MESH, P(("batch", "space"))))
    text = jax.jit(with_gradient(op)).lower(x).compile().as_text() or ""
    transfers = exchanged(text, question="unpool" in name)
    assert not transfers, transfers


def tangents_beside_weights() -> None:
    """Check a tangent: a device needs only its own examples, and the weights of all taps."""
    erosion = lambda x, weights: filters.grey_erosion(x, structure=weights)  # noqa: E731
    run = jax.jit(lambda x, weights: jax.jvp(lambda x: erosion(x, weights), (x,), (x,)))
    x, weights = numbers(8, 3), FOOTPRINT * np.float32(5)
    where = [jax.NamedSharding(MESH, spec) for spec in (P(("batch", "space")), P())]
    text = run.lower(*jax.device_put((x, weights), tuple(where))).compile().as_text() or ""
    assert not collectives(text), collectives(text)


def exchanged(text: str, question: bool) -> list[str]:
    """Return the types of the transfers between devices, except single predicates of a question."""
    transfers = re.findall(rf"= (.*) (?:{'|'.join(COLLECTIVES)})(?:-start)?\(", text)
    answers = re.compile(r"\(?((u8|pred)\[\](, )?)+\)?")
    return [transfer for transfer in transfers if not (question and answers.fullmatch(transfer))]


def unpool(axes: str, kind: str, known: bool) -> None:
    """Check indices over the pooled axes of overlapping windows: no value or index is sent."""
    window: dict[str, Any] = {"window_shape": (3, 2), "strides": (2, 1), "padding": (1, 0)}
    x = np.random.default_rng(0).permutation(8 * 9 * 4 * 8).reshape(8, 9, 4, 8) / 100
    y, indices = jaxpool.max_pool_with_argmax(x.astype(np.float32), **window)
    known_window = window if known else {}
    loss_and_gradient = lambda y, i: jax.value_and_grad(  # noqa: E731
        lambda y: (lambda out: ((out**2).sum(), out))(
            jaxpool.max_unpool(y, i, (9, 4), **known_window)
        ),
        has_aux=True,
    )(y)
    results = lambda y, i: (loss_and_gradient(y, i)[0][1], loss_and_gradient(y, i)[1])  # noqa: E731
    type_ = {"automatic": jax.sharding.AxisType.Auto, "explicit": jax.sharding.AxisType.Explicit}
    mesh = jax.make_mesh((8,), ("d",), axis_types=(type_[kind],))
    spec = P("d") if axes == "batch" else P(None, None, None, "d")
    want = jax.jit(results)(y, indices)
    with jax.set_mesh(mesh):
        arrays = jax.device_put((y, indices), jax.NamedSharding(mesh, spec))
        compiled = jax.jit(results).lower(*arrays).compile()
        for got, wanted in zip(compiled(*arrays), want, strict=True):
            np.testing.assert_array_equal(got, wanted)
    text = compiled.as_text() or ""
    transfers = exchanged(text, question=True)
    assert not transfers, transfers


def space(op: Callable, op_settings: dict[str, Any]) -> None:
    """Check the compiler's partitioning: more exchanges than :func:`halo`, but no all-gather."""
    pool = lambda x: op(x, (3, 3), 2, "SAME", **op_settings)  # noqa: E731
    counts = compare(pool, pool, P("batch", "space"), op is not jaxpool.avg_pool, data())
    assert "all-gather" not in counts["forward"] | counts["backward"], counts


def one_row() -> None:
    """Check that XLA fails to slice one entry of a sharded axis if the slice has a stride."""
    x = np.arange(16, dtype=np.float32)
    rows = jax.device_put(x, jax.NamedSharding(MESH, P("space")))
    one = lambda stride: jax.jit(lambda x: jax.lax.slice(x, (9,), (10,), (stride,)))(rows)  # noqa: E731
    np.testing.assert_array_equal(one(slice_stride(1, 5)), x[9:10])
    try:
        np.testing.assert_array_equal(one(5), x[9:10])
    except (AssertionError, jax.errors.JaxRuntimeError):
        return
    raise RuntimeError("XLA no longer needs jaxpool._xla.slice_stride")


def one_row_of(op: Callable) -> None:
    """Check ops that read single rows of an axis that the compiler partitions."""
    x = np.random.default_rng(0).permutation(2 * 16 * 4 * 3).reshape(2, 16, 4, 3) / np.float32(99)
    rows = jax.device_put(x, jax.NamedSharding(MESH, P("batch", "space")))
    for got, want in zip(*(jax.tree.leaves(jax.jit(op)(a)) for a in (rows, x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-6)


def cropped_end() -> None:
    """Check that XLA fails to concatenate what a pad crops, and statistics of one row per shard."""
    x = np.random.default_rng(0).permutation(2 * 4 * 3 * 2).reshape(2, 4, 3, 2) / np.float32(9)
    rows = jax.device_put(x, jax.NamedSharding(MESH, P("batch", "space")))
    variance = lambda x: jaxpool.var_pool(x, (3, 2), 1, ((2, 1), 0))  # noqa: E731
    for f in (variance, jax.grad(lambda x: (variance(x) ** 2).sum())):
        np.testing.assert_allclose(jax.jit(f)(rows), jax.jit(f)(x), rtol=3e-6, atol=1e-5)
    crop = [(0, 0, 0), (0, -1, 0), (0, 0, 0), (0, 0, 0)]
    twice = jax.jit(lambda x: jax.lax.concatenate([jax.lax.pad(x, np.float32(0), crop), x], 1))
    try:
        jax.block_until_ready(twice(rows))
    except jax.errors.JaxRuntimeError:
        return
    raise RuntimeError("XLA no longer needs jaxpool._xla.crop")


def replicated_cotangent(shape: tuple[int, ...], op: Callable) -> None:
    x = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape) / np.float32(99)
    cotangent = np.random.default_rng(1).random(jax.eval_shape(op, x).shape, np.float32)
    gradient = jax.grad(lambda x: (op(x) ** 2).sum())
    rows = jax.NamedSharding(MESH, P("batch", "space"))
    for f in (lambda x: jax.vjp(op, x)[1](cotangent)[0], gradient):
        got = jax.jit(f, out_shardings=rows)(jax.device_put(x, rows))
        np.testing.assert_allclose(got, jax.jit(f)(x), rtol=1e-5)


def mask(op: Callable, op_settings: dict[str, Any]) -> None:
    spec, settings = P("batch", "space"), {**WINDOWS["3x3"], **op_settings}
    valid = np.random.default_rng(2).random(SHAPE) < 0.6
    shard = lambda x, where: pool_shards(op, x, axis_names="space", where=where, **settings)  # noqa: E731
    sharded = jax.shard_map(shard, mesh=MESH, in_specs=(spec, spec), out_specs=spec)
    x, where = jax.device_put((data(), valid), jax.NamedSharding(MESH, spec))
    want = op(data(), where=valid, **settings)
    for a, b in zip(jax.tree.leaves(sharded(x, where)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-6)


def three_axes(
    op: Callable, op_settings: dict[str, Any], window: dict[str, Any], is_masked: bool
) -> None:
    """Check values, indices, gradients and their derivatives with every pooled axis sharded."""
    names, settings = ("depth", "height", "width"), {**window, **op_settings}
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2, 2), names)
    spec = P(None, *names)
    x = data((2, 18, 12, 6, 2))
    there = np.random.default_rng(2).random(x.shape) < 0.6

    def pool(x: jax.Array, there: jax.Array) -> Any:
        return op(x, where=there if is_masked else None, **settings)

    def shard(x: jax.Array, there: jax.Array) -> Any:
        where = there if is_masked else None
        return pool_shards(op, x, axis_names=names, where=where, **settings)

    sharded = jax.shard_map(shard, mesh=mesh, in_specs=(spec, spec), out_specs=spec)
    sides = (jax.jit(values_and_derivatives(f))(x, there) for f in (sharded, pool))
    for got, want in zip(*sides, strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-4)


def values_and_derivatives(pool: Callable) -> Callable:
    """Return a function of the results, the gradient of a sum of squares, and its tangent."""

    def run(x: jax.Array, there: jax.Array) -> list[jax.Array]:
        squares = lambda x: (jax.tree.leaves(pool(x, there))[0] ** 2).sum()  # noqa: E731
        finite = jax.numpy.nan_to_num(x / 100, neginf=-3)
        derivatives = jax.jvp(jax.grad(squares), (finite,), (finite[::-1],))
        return [*jax.tree.leaves(pool(x, there)), *derivatives]

    return run


def uneven() -> None:
    spec = P(None, "space")
    for settings, expected in (
        ({"padding": "VALID"}, "do not divide evenly among 4 shards"),
        ({"padding": "SAME", "strides": 3}, "do not divide evenly among 4 shards"),
        ({"padding": "SAME", "dilations": 9}, "extends past the neighbouring shard"),
        ({"padding": ((1, 0), (1, 1)), "strides": 1, "rounding": "ceil"}, "divide evenly"),
    ):
        settings = {"strides": 1, **settings}
        shard = lambda x, w=settings: pool_shards(  # noqa: E731
            jaxpool.max_pool, x, (3, 3), axis_names="space", **w
        )
        try:
            jax.eval_shape(jax.shard_map(shard, mesh=MESH, in_specs=spec, out_specs=spec), data())
        except ValueError as error:
            assert expected in str(error), error
        else:
            raise AssertionError(f"{settings} is no error")


def refused() -> None:
    """Check the refusal of indices of one shard only or that do not fit, and of unknown axes."""
    spec = P(None, "space")
    for settings, expected in (
        ({"index_space": 1}, "`index_space` = 1 counts batch or channel axes"),
        ({"index_dtype": "uint8"}, "indices in space 'spatial' do not fit uint8"),
        ({"index_dtype": "int8"}, "indices in space 'spatial' do not fit int8"),
        ({"axis_names": "time"}, "`axis_names` contains 'time', which is not a mesh axis"),
    ):
        settings = {"axis_names": "space", **settings}
        shard = lambda x, w=settings: pool_shards(  # noqa: E731
            jaxpool.max_pool_with_argmax, x, (2, 2), 2, **w
        )
        sharded = jax.shard_map(shard, mesh=MESH, in_specs=spec, out_specs=spec)
        try:
            jax.eval_shape(sharded, data())
        except ValueError as error:
            assert expected in str(error), error
        else:
            raise AssertionError(f"{settings} is no error")


def main(part: int, parts: int) -> None:
    for name, check in itertools.islice(checks(), part, None, parts):
        try:
            check()
            fault = None
        except Exception:
            fault = traceback.format_exc()
        print(json.dumps([name, fault]), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
