"""Compiles functions for TPUs and GPUs on a machine that has neither, and counts what they cost.

libtpu compiles ahead of time for the description of a TPU; XLA's CUDA plugin compiles from a
description of a GPU, without its driver. Both bring their real compilers:
``pip install ".[accelerators]"``.

The figures are the compilers' own and not timings. They rank formulations of one computation.

* ``microseconds``: the longer of two estimates that a chip overlaps: bytes of all kernels over the
  bandwidth of main memory, and on TPU the cycles of their schedules over the clock.
* ``megabytes``, ``kernels``: see :mod:`programs`. ``cycles``: see :mod:`schedules`.
* ``temporaries``: megabytes that the program needs beside arguments and results.
* ``seconds``: to lower and compile, on this machine.

Arguments and results take the layout that the compiler likes best, as inside a network; with fixed
layouts a TPU program that pools alone would pay for copies that no network has. Batches of 32 and
more are large enough that arrays do not stay in a TPU's vector memory between kernels.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SCHEDULES = Path(tempfile.gettempdir()) / f"jaxpool-schedules-{os.getpid()}"
"""Where libtpu writes the schedules of kernels, if it is asked to."""


class Chip(NamedTuple):
    """A chip: what JAX calls its platform, its bandwidth in bytes and clock in cycles a second."""

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
"""Chips by name, with the figures that their makers publish."""


def prepare(schedules: bool = False) -> None:
    """Set what the compilers read from the environment; before JAX is imported.

    Args:
      schedules: have libtpu write schedules, from which cycles are counted; compiling takes
        several times as long.
    """
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # or a lock lets one process load it
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
    }
    if schedules:
        SCHEDULES.mkdir(exist_ok=True)
        os.environ["LIBTPU_INIT_ARGS"] = f"--xla_jf_dump_to={SCHEDULES} --xla_jf_dump_llo_text=true"


def compiled(chip: str, f: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``f`` compiled for arguments, given as anything with a shape and a dtype."""
    import jax
    from jax.experimental.layout import Format, Layout

    platform = CHIPS[chip].platform
    mesh = jax.sharding.Mesh(topology(chip).devices[:1], ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.P())
    free = Format(Layout.AUTO, sharding)
    words = {"in_shardings": free, "out_shardings": free} if platform == "tpu" else {}
    placed = {} if words else {"sharding": sharding}
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype, **placed) for a in arguments]
    return jax.jit(f, **words).trace(*specs).lower(lowering_platforms=(platform,)).compile()


def costs(chip: str, f: Callable[..., Any], *arguments: Any) -> dict[str, float]:
    """Return what ``f`` costs on a chip by the figures of its compiler."""
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


def _microseconds(chip: Chip, moved: int) -> dict[str, float]:
    from schedules import cycles

    through_memory = moved / chip.bandwidth * 1e6
    if chip.clock is None or not SCHEDULES.exists():
        return {"microseconds": round(through_memory, 2)}
    busy = cycles(SCHEDULES)
    longer = max(through_memory, busy / chip.clock * 1e6)
    return {"microseconds": round(longer, 2), "cycles": busy}


def _clear(folder: Path) -> None:
    for path in folder.glob("*") if folder.exists() else ():
        path.unlink()


_topologies: dict[str, Any] = {}


def topology(chip: str) -> Any:
    """The description of the chip's machine that compilers take."""
    from jax.experimental import topologies

    if chip not in _topologies:
        described = CHIPS[chip]
        _topologies[chip] = topologies.get_topology_desc(
            platform=described.platform, **described.topology
        )
    return _topologies[chip]


def specs(shapes: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Arguments of given shapes and dtypes, without data."""
    import jax

    return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
