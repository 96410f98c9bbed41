"""Compiles functions for TPUs and GPUs on a machine without either, and counts their costs.

libtpu compiles ahead of time for the description of a TPU; XLA's CUDA plugin compiles from a
description of a GPU, without its driver. Both contain the production compilers:
``pip install ".[accelerators]"``.

The figures are estimates by the compilers, not timings. They rank formulations of one computation.

* ``microseconds``: the larger of two times that overlap on a chip: bytes of all kernels over the
  bandwidth of main memory, and on TPU the cycles of their schedules over the clock.
* ``megabytes``, ``kernels``: see :mod:`programs`. ``cycles``: see :mod:`schedules`.
* ``temporaries``: megabytes that the program needs in addition to arguments and results.
* ``seconds``: to lower and compile, on this machine.

The compiler chooses the layouts of arguments and results, as inside a network; with fixed layouts,
a TPU program that only pools would include copies that no network needs. In batches of 32 and more,
arrays are too large to stay in a TPU's vector memory between kernels.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SCHEDULES = Path(tempfile.gettempdir()) / f"jaxpool-schedules-{os.getpid()}"
"""The folder for the schedules that libtpu writes, if enabled by :func:`prepare`."""


class Chip(NamedTuple):
    """A chip: its platform in JAX, bandwidth in bytes per second and clock in cycles per second."""

    platform: str
    topology: dict[str, str]
    bandwidth: float
    clock: float | None


_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 device_address_bits: 64
  cuda_compute_capability { major: 9 }
  device_vendor: "NVIDIA Corporation" name: "NVIDIA H100 80GB HBM3"
  platform_version: "Compute Capability 9.0" driver_version: "13.0.0"
  runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0" dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""  # noqa: E501

CHIPS = {
    "v5e": Chip("tpu", {"topology_name": "v5e:2x2"}, 819e9, 1.5e9),
    "v6e": Chip("tpu", {"topology_name": "v6e:2x2"}, 1640e9, 1.75e9),
    "H100": Chip(
        "cuda",
        {"topology_name": "1x1x1", "topology": "1x1x1", "target_config": _H100},
        3.352e12,
        None,
    ),
}
"""Chips by name, with the figures that their manufacturers publish."""


def prepare(schedules: bool = False) -> None:
    """Set the environment variables that the compilers read; call it before importing JAX.

    Args:
      schedules: whether libtpu writes schedules, from which cycles are counted; compiling takes
        several times as long.
    """
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # otherwise a lock allows one process only
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }
    if schedules:
        SCHEDULES.mkdir(exist_ok=True)
        os.environ["LIBTPU_INIT_ARGS"] = f"--xla_jf_dump_to={SCHEDULES} --xla_jf_dump_llo_text=true"


def compiled(
    chip: str,
    f: Callable[..., Any],
    *arguments: Any,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return ``f`` compiled for arguments: any objects with a shape and a dtype."""
    import jax
    from jax.experimental.layout import Format, Layout

    platform = CHIPS[chip].platform
    mesh = jax.sharding.Mesh(topology(chip).devices[:1], ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.P())
    any_layout = Format(Layout.AUTO, sharding)
    jit_options = (
        {"in_shardings": any_layout, "out_shardings": any_layout} if platform == "tpu" else {}
    )
    spec_options = {} if jit_options else {"sharding": sharding}
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, **spec_options) for a in arguments]
    traced = jax.jit(f, **jit_options).trace(*specs)
    return traced.lower(lowering_platforms=(platform,)).compile(compiler_options=compiler_options)


def costs(chip: str, f: Callable[..., Any], *arguments: Any) -> dict[str, float]:
    """Return the costs of ``f`` on a chip, by the figures of its compiler."""
    from programs import traffic

    _clear(SCHEDULES)
    start = time.perf_counter()
    program = compiled(chip, f, *arguments)
    seconds, moved = time.perf_counter() - start, traffic(program.as_text())
    figures: dict[str, float] = _microseconds(CHIPS[chip], moved.bytes)
    return figures | {
        "megabytes": round(moved.bytes / 1e6, 2),
        "kernels": moved.kernels,
        "temporaries": round(program.memory_analysis().temp_size_in_bytes / 1e6, 2),
        "seconds": round(seconds, 2),
    }


def _microseconds(chip: Chip, bytes_moved: int) -> dict[str, float]:
    from schedules import cycles

    memory_time = bytes_moved / chip.bandwidth * 1e6
    if chip.clock is None or not SCHEDULES.exists():
        return {"microseconds": round(memory_time, 2)}
    busy_cycles = cycles(SCHEDULES)
    estimate = max(memory_time, busy_cycles / chip.clock * 1e6)
    return {"microseconds": round(estimate, 2), "cycles": busy_cycles}


def _clear(folder: Path) -> None:
    for path in folder.glob("*") if folder.exists() else ():
        path.unlink()


_topologies: dict[str, Any] = {}


def topology(chip: str) -> Any:
    """Return the description of the chip's machine that the compilers accept."""
    from jax.experimental import topologies

    if chip not in _topologies:
        description = CHIPS[chip]
        _topologies[chip] = topologies.get_topology_desc(
            platform=description.platform, **description.topology
        )
    return _topologies[chip]


def specs(shapes: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Return arguments of these shapes and dtypes, without data."""
    import jax

    return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
