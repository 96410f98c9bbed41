"""Times training steps of whole networks with their own pooling and after ``jaxpool.patch``.

    python benchmarks/models.py [--rounds N] [--compiles N] [--out results/models.json]

The networks use their libraries only, see ``networks``. A step computes a loss and its gradient in
the parameters, and updates them. Both programs are lowered first, then compiled alternately and run
alternately. Outputs and gradients are compared before the timing. Read the ratios: the library's
figure over jaxpool's, so above 1 jaxpool takes less.
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
LEARNING_RATE = 1e-3
SECONDS_PER_SIDE = 20.0
"""Time for the steps of each side: enough for 25 steps of most networks."""
MAX_AMPLIFICATION = 3.0
"""Allowed difference, in multiples of the one that a change of the images by one ulp makes."""
MAX_DIFFERENCE = 1e-3
"""Allowed difference of outputs or gradients, relative to the largest value."""


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
    options = parser(__doc__ or "", rounds=25)
    names = [network.name for network in NETWORKS]
    options.add_argument("--only", nargs="+", choices=names, help="some of the networks")
    options.add_argument("--compiles", type=int, default=5, help="times that each side compiles")
    return options.parse_args()


def measure(network: Network, rounds: int, compiles: int) -> dict[str, Any]:
    """Return a row of the report."""
    x = network.images()
    program = network.build(x)
    arguments = (*jax.jit(program.init)(jax.random.key(1), x), x)
    compiled, seconds = _compile_alternately(network.library, program.apply, arguments, compiles)
    ours, theirs = (compiled[side](*arguments)[1:] for side in SIDES)
    *parameters_and_state, _ = arguments
    perturbed = compiled["library"](*parameters_and_state, x * (1 + jnp.finfo(x.dtype).eps))[1:]
    differences, floor = _differences(ours, theirs), _differences(perturbed, theirs)
    check(differences, floor)
    calls = {side: _call(compiled[side], arguments) for side in SIDES}
    return {
        "network": network.name,
        "library": network.library,
        "input": list(x.shape),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(arguments[0])),
        "step_milliseconds": milliseconds(interleaved(calls, rounds, SECONDS_PER_SIDE)),
        "compile_seconds": {side: statistics.median(seconds[side]) for side in SIDES},
        "temporary_bytes": {
            side: compiled[side].memory_analysis().temp_size_in_bytes for side in SIDES
        },
        "largest_difference": differences,
        "difference_by_last_place": floor,
    }


def training_step(apply: Callable[..., jax.Array]) -> Callable[..., Any]:
    """Return a step: a function that returns updated parameters, outputs and gradients.

    Each call returns a new function, which JAX has not cached. The loss weighs all outputs
    differently, so that no gradient is zero by symmetry.
    """

    def loss(parameters: Any, state: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = apply(parameters, state, x)
        weights = 1 + jnp.arange(y.size, dtype=y.dtype).reshape(y.shape) / y.size
        return (weights * y**2).mean(), y

    def step(parameters: Any, state: Any, x: jax.Array) -> Any:
        (_, y), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, state, x)
        update = jax.tree.map(
            lambda p, gradient: p - LEARNING_RATE * gradient, parameters, gradients
        )
        return update, y, gradients

    return step


def lowered(side: str, library: str, apply: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the lowered step of one side: with patched or original pools."""
    patched = jaxpool.patch(library) if side == "jaxpool" else contextlib.nullcontext()
    with patched:
        return jax.jit(training_step(apply)).lower(*arguments)


def _compile_alternately(
    library: str, apply: Any, arguments: tuple[Any, ...], compiles: int
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Return the compiled step of each side, and the seconds of each of its compilations."""
    turns = [SIDES if turn % 2 else SIDES[::-1] for turn in range(compiles)]
    # All are lowered before the first is timed: the memory that Python retains slows the compiler.
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


def _differences(ours: Any, theirs: Any) -> dict[str, float]:
    """Return the largest differences of outputs and of gradients, relative to the largest value."""
    differences = {}
    for name, a, b in zip(("outputs", "gradients"), ours, theirs, strict=True):
        pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
        gaps = [float(jnp.abs(a - b).max()) for a, b in pairs]
        largest = max(float(jnp.abs(b).max()) for _, b in pairs)
        differences[name] = float(np.max(gaps)) / largest  # np.max keeps a NaN
    return differences


def check(differences: dict[str, float], floor: dict[str, float]) -> None:
    """Raise if results differ by more than rounding.

    Args:
      differences: between the two sides.
      floor: between the library's results and its results for images changed by one ulp. Networks
        with batch norms amplify such a change by a factor for each layer (Yang et al., "A Mean
        Field Theory of Batch Normalization", 2019).
    """
    for name, difference in differences.items():
        if not difference < max(MAX_DIFFERENCE, MAX_AMPLIFICATION * floor[name]):
            raise AssertionError(f"{name} differ by {difference:.2g} of the largest")


def line(row: dict[str, Any]) -> str:
    """Return a row as text for the terminal."""
    ratios = []
    for name in ("step_milliseconds", "compile_seconds", "temporary_bytes"):
        ours, theirs = (row[name][side] for side in SIDES)
        ratios.append(f"{name.partition('_')[0]} {theirs / ours:5.2f}")
    outputs, gradients = row["largest_difference"].values()
    return (
        f"{row['network']:36} {row['library']:8} {'  '.join(ratios)}  "
        f"{row['step_milliseconds']['jaxpool']:8.1f} ms  "
        f"differences {outputs:.0e} and {gradients:.0e}"
    )


if __name__ == "__main__":
    sys.exit(main())
