"""One pool on this device: results compared, then run and compile times of both programs."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message
from .._explain.axes import row
from .._explain.explain import Explanation, explain
from .compare import largest_difference
from .programs import ours, theirs, with_gradient
from .race import race

OURS, THEIRS = "jaxpool", "lax.reduce_window"
COMPILES = 3
"""How often each program is compiled; the median is shown."""


def bench(version: str, seconds: float, shape: Any, **settings: Any) -> Iterator[str]:
    """Yield the lines of the report, each when it is measured.

    Args:
      version: of this library.
      seconds: how long the two programs of each row take turns.
      shape, settings: as in :func:`explain`.
    Raises:
      TypeError, ValueError: as :func:`explain`; ValueError also if the results of the two programs
        differ, or if there is nothing to measure.
    """
    found = explain(shape, **settings)
    _check(found)
    x = _noise(found.input_shape, found.dtype, 0)
    (device,) = x.devices()
    yield str(found).partition("\n")[0]
    yield row("output", f"{found.output_shape}, from {found.dtype} {found.input_shape}")
    yield row("device", f"{device.platform}: {device.device_kind}")
    yield row("versions", f"jaxpool {version}, jax {jax.__version__}")
    asked = settings["data_format"], settings["implementation"]
    pools = {OURS: ours(found, *asked), THEIRS: theirs(found)}
    yield from _lines("forward", found, pools, (x,), seconds)
    if jnp.issubdtype(found.dtype, jnp.floating):
        steps = {side: with_gradient(pool, found) for side, pool in pools.items()}
        cotangent = _noise(found.output_shape, found.dtype, 1)
        yield from _lines("and backward", found, steps, (x, cotangent), seconds)
    else:
        yield row("and backward", f"{found.dtype} has no gradient")
    yield row("ratio", f"how many times as long {THEIRS} takes")


def _check(found: Explanation) -> None:
    if jax.dtypes.canonicalize_dtype(found.dtype) != found.dtype:
        raise ValueError(
            message(
                f"bench: JAX makes no {found.dtype} now.",
                "Numbers of 64 bits are off, unless they are asked for.",
                "Set the environment variable JAX_ENABLE_X64=1.",
            )
        )
    if 0 in (*found.input_shape, *found.output_shape):
        raise ValueError(
            message(
                f"bench: shape {found.input_shape} gives {found.output_shape}.",
                "Without elements there is nothing to measure.",
                "Give a larger shape.",
            )
        )
    if found.op == "avg_pool" and not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(
            message(
                f"bench: dtype {found.dtype} has no average in lax.",
                "lax.reduce_window adds integers; it has no division that rounds, as jaxpool has.",
                "Give --op sum_pool, or a dtype of floats.",
            )
        )


def _noise(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> Array:
    """Floats of both signs; integers up to 100, or as the dtype holds them."""
    random = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(random.standard_normal(shape, np.float32)).astype(dtype)
    largest = min(int(jnp.iinfo(dtype).max), 100) if jnp.issubdtype(dtype, jnp.integer) else 1
    return jnp.asarray(random.integers(0, largest + 1, shape, np.int8)).astype(dtype)


def _lines(
    name: str,
    found: Explanation,
    programs: Mapping[str, Callable[..., Any]],
    arguments: tuple[Array, ...],
    seconds: float,
) -> Iterator[str]:
    """Compile by turns, compare, run by turns."""
    reason = _unsupported_reason(programs[THEIRS], arguments)
    sides = dict(programs) if reason is None else {OURS: programs[OURS]}
    compiled, compiling = _compile(sides, arguments)
    if reason is None:
        results = (compiled[side](*arguments) for side in (OURS, THEIRS))
        largest = largest_difference(found, arguments, *results)
        yield row(name, f"results compared: they differ by at most {largest:.1g}")
    else:
        yield row(name, f"{THEIRS} cannot: {reason}")
    calls = {side: _call(program, arguments) for side, program in compiled.items()}
    yield row("", f"run      {_by_side(race(calls, seconds))}")
    yield row("", f"compile  {_by_side(compiling)}")


def _unsupported_reason(program: Callable[..., Any], arguments: tuple[Array, ...]) -> str | None:
    """Why JAX does not compile a program of its own, or None."""
    try:
        jax.jit(program).lower(*arguments).compile()
    except (NotImplementedError, TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return None


def _compile(
    programs: Mapping[str, Callable[..., Any]], arguments: tuple[Array, ...]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The compiled programs, and the median seconds that each compilation took."""
    compiled: dict[str, Any] = dict.fromkeys(programs)
    times: dict[str, list[float]] = {side: [] for side in programs}
    for turn in range(COMPILES):
        for side in list(programs)[:: 1 if turn % 2 else -1]:
            lowered = jax.jit(_fresh(programs[side])).lower(*arguments)
            start = time.perf_counter()
            compiled[side] = lowered.compile()
            times[side].append(time.perf_counter() - start)
    return compiled, {side: statistics.median(row) for side, row in times.items()}


def _fresh(program: Callable[..., Any]) -> Callable[..., Any]:
    """A function that JAX has not compiled before."""
    return lambda *arguments: program(*arguments)


def _call(program: Callable[..., Any], arguments: tuple[Array, ...]) -> Callable[[], Any]:
    return lambda: program(*arguments)


def _by_side(seconds: Mapping[str, float]) -> str:
    """The times of both sides, and the ratio, above 1 where jaxpool takes less."""
    times = ", ".join(f"{side} {_milliseconds(taken)}" for side, taken in seconds.items())
    ratio = f", ratio {seconds[THEIRS] / seconds[OURS]:.2f}" if THEIRS in seconds else ""
    return times + ratio


def _milliseconds(seconds: float) -> str:
    taken = 1e3 * seconds
    return f"{taken:,.0f} ms" if taken >= 100 else f"{taken:.3g} ms"
