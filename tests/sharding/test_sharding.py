"""Sharded arrays: the checks of eight_devices.py, run in a separate process.

JAX fixes the number of devices of a process when it starts, and this process has one device.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import EVERY_OP, LOCAL, OF_EACH_KIND
from fresh import printed

import jaxpool
from jaxpool.sharding import pool_shards

FOLDER = Path(__file__).parents[1] / "support"


INDICES = ("argmax", "argmax in uint16", "argmax as taps")
OPS = ("max", "min", *INDICES, "avg", "avg of real elements", "sum")
WINDOWS = ("3x3 stride 2", "dilated", "3x3", "3x2 uneven pads", "2x2 tiled", "gaps")
PARTS = 26
CHECKS = {
    # two exchanges forward, four backward
    *(f"halo, {op}, {w}" for op in OPS for w in (WINDOWS if op in ("max", "avg") else WINDOWS[:2])),
    # no communication
    *(
        f"{axes}, {op}, {kind}"
        for axes in ("batch", "channels")
        for op in ("max", "avg", "argmax")
        for kind in ("overlapping", "tiled")
    ),
    # except one predicate, if indices are unpooled
    *(f"every op, {name}" for name in LOCAL),
    "tangents beside weights",
    *(
        f"unpool, {axes}, {kind}, {known} windows"
        for axes in ("batch", "channels")
        for kind in ("automatic", "explicit")
        for known in ("known", "unknown")
    ),
    # the compiler gathers nothing
    *(f"space, {op}" for op in ("max", "avg")),
    # the compiler reads single rows of a shard
    "one row of each shard",
    *(f"one row, {op}" for op in ("max", "argmax")),
    # the compiler cannot concatenate what a pad crops
    "cropped end",
    # the compiler has sharded elements, but no sharded cotangents
    *(f"replicated cotangent, {op}" for op in ("windows", "blur", "median", "quantile", "pytrees")),
    # masks are exchanged as well
    *(f"mask, {op}" for op in ("avg", "avg of real elements", "argmax")),
    # several axes exchange halos
    *(
        f"three axes, {op}, {window}{masked}"
        for op in ("max", "argmax", "avg", "avg of real elements")
        for window in ("3x5x3", "tiled, padded")
        for masked in ("", ", masked")
    ),
    # windows that do not divide evenly onto shards are errors
    "uneven",
    # indices that a shard cannot compute are errors
    "refused",
    # shardings as parts of types
    *(
        f"explicit axes, {op}"
        for op in (
            "max",
            "argmax",
            "long",
            "masked",
            "global",
            "adaptive",
            "unpool",
            "windows",
            "batch",
            "pytrees",
            "TensorFlow",
            "TensorFlow, argmax",
            "oneDNN",
            "oneDNN, training",
            "oneDNN, average",
        )
    ),
    *(f"explicit axes in shard_map, {op}" for op in OF_EACH_KIND),
    *(f"explicit axes, channels of {layout}" for layout in ("NHWC", "NCHW")),
    "explicit axes, channels of windows",
    *(f"explicit axes, {others}" for others in ("fixed point", "boxes", "indices")),
    # inside shard_map, with constants and replicated arrays
    *(
        f"manual axes, {op}"
        for op in (
            "adaptive max",
            "adaptive max, masked",
            "adaptive avg",
            "max, masked",
            "unpool",
            "rank",
            "rank of long windows",
            "regions, means",
            "regions, maxima",
            "pytrees",
            "oneDNN, backward",
        )
    ),
    *(f"manual axes, every op, {name}" for name in EVERY_OP),
    *(
        f"manual axes, every op, {name}"
        for name in (
            "median",
            "long median",
            "long mean",
            "footprint",
            "footprint of pairs",
            "structure",
            "any function",
        )
    ),
}


@pytest.mark.grid(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_arrays_spread_over_eight_devices(part: int, monkeypatch: pytest.MonkeyPatch):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    monkeypatch.setenv(
        "XLA_FLAGS", f"{flags} --xla_backend_optimization_level=0"
    )  # compiles faster
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    lines = printed(str(FOLDER / "eight_devices.py"), str(part), str(PARTS)).splitlines()
    found: dict[str, str | None] = dict(json.loads(line) for line in lines)
    assert set(found) <= CHECKS
    assert len(found) == len(lines) == len(range(part, len(CHECKS), PARTS))
    assert not {check: fault for check, fault in found.items() if fault is not None}


def test_only_known_ops_are_pooled_in_shards():
    with pytest.raises(TypeError, match="`op` = .* is not an op that supports shards"):
        pool_shards(jaxpool.lp_pool, None, (2,), 2, axis_names="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((jaxpool.max_pool, None, 2), "`strides` and `axis_names` are missing"),
        ((jaxpool.max_pool, None, 2, 2, "SAME", "rows"), "6 arguments are given by position"),
        ((np.ones(3), None, 2, 2), "`axis_names` is missing"),
    ],
)
def test_calls_that_do_not_fit_the_signature(arguments: tuple[Any, ...], error: str) -> None:
    call: Any = pool_shards
    with pytest.raises(TypeError, match=f"^pool_shards: {error}"):
        call(*arguments)
    with pytest.raises(TypeError, match="^pool_shards: `op` = array.* is not an op that"):
        call(np.ones(3), None, 2, 2, axis_names=None)


def test_a_shard_is_converted_as_by_the_op():
    x: Any = [[[3.0], [1.0], [4.0], [2.0]]]
    got = pool_shards(jaxpool.max_pool, x, (2,), 2, axis_names=None, where=np.array(x) > 0)
    np.testing.assert_array_equal(got, jaxpool.max_pool(x, (2,), 2))
    with pytest.raises(TypeError, match="^pool_shards: the array is 'x', of type str: not an"):
        pool_shards(jaxpool.max_pool, "x", (2,), 2, axis_names=None)  # type: ignore[arg-type]


def in_one_shard(pool: Any, x: Any) -> Any:
    mesh, rows = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",)), jax.P(None, "rows")
    return jax.shard_map(pool, mesh=mesh, in_specs=rows, out_specs=rows)(x)


def test_a_single_window_may_be_pooled_in_one_shard():
    x = jnp.array([[[3.0], [1.0], [4.0], [2.0]]])
    settings = {"window_shape": (6,), "strides": 4, "padding": 1}
    pool = lambda x: pool_shards(jaxpool.max_pool, x, axis_names="rows", **settings)  # noqa: E731
    np.testing.assert_array_equal(in_one_shard(pool, x), jaxpool.max_pool(x, **settings))


def test_an_empty_name_is_no_mesh_axis():
    pool = lambda x: pool_shards(jaxpool.max_pool, x, (2,), 2, axis_names="")  # noqa: E731
    with pytest.raises(ValueError, match="`axis_names` contains '', which is not a mesh axis"):
        in_one_shard(pool, jnp.ones((1, 4, 1)))


def test_weights_are_not_pooled_in_shards():
    with pytest.raises(ValueError, match="^pool_shards: `weights` cannot be used with shards"):
        pool_shards(jaxpool.avg_pool, jnp.ones((4, 1)), (2,), 2, axis_names="x", weights=2.0)


def test_a_mesh_axis_spreads_one_axis():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    pool = functools.partial(
        pool_shards, jaxpool.max_pool, window_shape=(2, 2), strides=2, axis_names=("x", "x")
    )
    run = jax.shard_map(pool, mesh=mesh, in_specs=jax.P(None, "x"), out_specs=jax.P(None, "x"))
    with pytest.raises(ValueError, match="^pool_shards: `axis_names` .* names a mesh axis twice"):
        run(jnp.ones((1, 4, 4, 1)))


def test_a_number_is_not_a_mesh_axis():
    pool: Any = functools.partial(pool_shards, jaxpool.max_pool, jnp.ones((4, 1)), (2,), 2)
    with pytest.raises(TypeError, match="^pool_shards: `axis_names` = 5 is not a name of a mesh"):
        pool(axis_names=5)
    with pytest.raises(ValueError, match="^pool_shards: `axis_names` contains 3, which is not a"):
        pool(axis_names=(3,))


@pytest.mark.parametrize(
    ("where", "kind", "text"),
    [
        (np.ones((4, 4, 1), np.float32), TypeError, "`where` has dtype float32"),
        (np.ones((3, 4, 1), bool), ValueError, "`where`"),
    ],
)
def test_a_mask_of_shards_is_checked(where: Any, kind: type[Exception], text: str):
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    pool = functools.partial(
        pool_shards, jaxpool.max_pool, window_shape=(2, 2), strides=2, axis_names="x", where=where
    )
    run = jax.shard_map(pool, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    with pytest.raises(kind, match=f"^pool_shards: {text}"):
        run(jnp.ones((4, 4, 1)))


@pytest.mark.parametrize("name", ["global_avg_pool", "global_max_pool"])
def test_pooled_axes_may_be_spread_over_one_device(name: str):
    """As on a mesh for more devices; the result has no such axis, but its derivative does."""
    axes = (jax.sharding.AxisType.Explicit,) * 2
    mesh, spec = jax.make_mesh((1, 1), ("x", "y"), axis_types=axes), jax.P("x", "y")
    pool = functools.partial(getattr(jaxpool, name), keepdims=False)
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(24.0).reshape(1, 4, 2, 3), jax.NamedSharding(mesh, spec))
        y, slope = jax.value_and_grad(lambda x: pool(x).sum())(x)
        assert jax.typeof(pool(x)).sharding.spec == jax.P("x", None)
    assert jax.typeof(slope).sharding.spec == jax.P("x", "y", None, None)
    assert float(y) == float(pool(jnp.arange(24.0).reshape(1, 4, 2, 3)).sum())
