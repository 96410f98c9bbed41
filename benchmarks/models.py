"""Whole networks, their pooling as it is and replaced by ``jaxpool.patch``.

    python benchmarks/models.py [--rounds N] [--compiles N] [--out results/models.json]

The networks are written with the libraries alone, see ``networks``. A step is a loss, its
gradient in the parameters, and an update. Both programs are lowered, compile by turns and run by
turns. Outputs and gradients are compared first. Read the ratios: the library's over jaxpool's, so
that above 1 jaxpool takes less.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measuring import interleaved, keep_memory, milliseconds, parser, versions, write
from networks import NETWORKS, Network

import jaxpool

SIDES = ("jaxpool", "library")
RATE = 1e-3
SECONDS = 20.0
"""Of each side's steps: enough for 25 steps of most networks."""
AMPLIFIED = 3.0
"""Times the difference that the last place of the images makes, which is rounding too."""
MOST = 1e-3
"""Difference of outputs or gradients, as a part of the largest, above which a row is an error."""


def main() -> int:
    options = _options()
    keep_memory()
    chosen = [network for network in NETWORKS if network.name in (options.only or [network.name])]
    rows = []
    for network in chosen:
        rows.append(measure(network, options.rounds, options.compiles))
        print(line(rows[-1]), flush=True)
    write(options.out, {"versions": versions("flax", "dm-haiku", "equinox"), "rows": rows})
    return 0


def _options() -> Any:
    found = parser(__doc__ or "", rounds=25)
    names = [network.name for network in NETWORKS]
    found.add_argument("--only", nargs="+", choices=names, help="some of the networks")
    found.add_argument("--compiles", type=int, default=5, help="times that each side compiles")
    return found.parse_args()


def measure(network: Network, rounds: int, compiles: int) -> dict[str, Any]:
    """Return a row of the report."""
    x = network.images()
    program = network.build(x)
    arguments = (*jax.jit(program.init)(jax.random.key(1), x), x)
    compiled, seconds = _compile_by_turns(network.library, program.apply, arguments, compiles)
    ours, theirs = (compiled[side](*arguments)[1:] for side in SIDES)
    *learned, _ = arguments
    nudged = compiled["library"](*learned, x * (1 + jnp.finfo(x.dtype).eps))[1:]
    differences, floor = _differences(ours, theirs), _differences(nudged, theirs)
    check(differences, floor)
    calls = {side: _call(compiled[side], arguments) for side in SIDES}
    return {
        "network": network.name,
        "library": network.library,
        "input": list(x.shape),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(arguments[0])),
        "step_milliseconds": milliseconds(interleaved(calls, rounds, SECONDS)),
        "compile_seconds": {side: statistics.median(seconds[side]) for side in SIDES},
        "temporary_bytes": {
            side: compiled[side].memory_analysis().temp_size_in_bytes for side in SIDES
        },
        "largest_difference": differences,
        "difference_by_last_place": floor,
    }


def training_step(apply: Callable[..., jax.Array]) -> Callable[..., Any]:
    """A step: new parameters, outputs and gradients. Each call is a function that JAX has not seen.

    The loss weighs all outputs differently, so that no gradient is zero by symmetry.
    """

    def loss(parameters: Any, state: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = apply(parameters, state, x)
        weights = 1 + jnp.arange(y.size, dtype=y.dtype).reshape(y.shape) / y.size
        return (weights * y**2).mean(), y

    def step(parameters: Any, state: Any, x: jax.Array) -> Any:
        (_, y), slopes = jax.value_and_grad(loss, has_aux=True)(parameters, state, x)
        update = jax.tree.map(lambda p, slope: p - RATE * slope, parameters, slopes)
        return update, y, slopes

    return step


def lowered(side: str, library: str, apply: Any, arguments: tuple[Any, ...]) -> Any:
    """The step of one side, lowered: patched or as it is."""
    patched = jaxpool.patch(library) if side == "jaxpool" else contextlib.nullcontext()
    with patched:
        return jax.jit(training_step(apply)).lower(*arguments)


def _compile_by_turns(
    library: str, apply: Any, arguments: tuple[Any, ...], compiles: int
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The compiled step of each side, and how long each compilation of it took."""
    turns = [SIDES if turn % 2 else SIDES[::-1] for turn in range(compiles)]
    # Before the first is timed: what Python leaves behind in memory slows the compiler.
    programs = [
        (side, lowered(side, library, apply, arguments)) for sides in turns for side in sides
    ]
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    compiled = {}
    for side, program in programs:
        start = time.perf_counter()
        compiled[side] = program.compile()
        seconds[side].append(time.perf_counter() - start)
    return compiled, seconds


def _call(compiled: Any, arguments: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(compiled(*arguments))


def _differences(mine: Any, other: Any) -> dict[str, float]:
    """The largest difference of outputs and of gradients, as a part of the largest number."""
    found = {}
    for name, a, b in zip(("outputs", "gradients"), mine, other, strict=True):
        pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
        gaps = [float(jnp.abs(a - b).max()) for a, b in pairs]
        largest = max(float(jnp.abs(b).max()) for _, b in pairs)
        found[name] = float(np.max(gaps)) / largest  # NaN of any of them stays
    return found


def check(differences: dict[str, float], floor: dict[str, float]) -> None:
    """Raise if results differ by more than rounding.

    Args:
      differences: of the two sides.
      floor: of the library with itself, once the images have changed in the last place. Networks
        with norms of the batch amplify that by a factor for each layer (Yang et al., "A Mean Field
        Theory of Batch Normalization", 2019).
    """
    for name, found in differences.items():
        if not found < max(MOST, AMPLIFIED * floor[name]):
            raise AssertionError(f"{name} differ by {found:.2g} of the largest")


def line(row: dict[str, Any]) -> str:
    """A row as the terminal shows it."""
    ratios = []
    for name in ("step_milliseconds", "compile_seconds", "temporary_bytes"):
        ours, theirs = (row[name][side] for side in SIDES)
        ratios.append(f"{name.partition('_')[0]} {theirs / ours:5.2f}")
    outputs, slopes = row["largest_difference"].values()
    return (
        f"{row['network']:36} {row['library']:8} {'  '.join(ratios)}  "
        f"{row['step_milliseconds']['jaxpool']:8.1f} ms  "
        f"differences {outputs:.0e} and {slopes:.0e}"
    )


if __name__ == "__main__":
    sys.exit(main())
