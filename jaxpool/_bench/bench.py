"""Benchmark of one pool on this device: compares the results, then run and compile times."""

import functools
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
"""Number of compilations of each program; the report shows the median."""


def bench(version: str, seconds: float, **settings: Any) -> Iterator[str]:
    """Yield the lines of the report, each as soon as it is measured.

    Args:
      version: version of this library.
      seconds: duration of the alternating runs for each row.
      settings: arguments of :func:`explain`.
    Raises:
      TypeError, ValueError: as :func:`explain`; ValueError also if the results of the two programs
        differ, or if there is nothing to measure.
    """
    explanation = explain(**settings)
    _check(explanation)
    x = _noise(explanation.input_shape, explanation.dtype, 0)
    (device,) = x.devices()
    yield str(explanation).partition("\n")[0]
    yield row(
        "output", f"{explanation.output_shape}, from {explanation.dtype} {explanation.input_shape}"
    )
    yield row("device", f"{device.platform}: {device.device_kind}")
    yield row("versions", f"jaxpool {version}, jax {jax.__version__}")
    our_pool = ours(explanation, settings["data_format"], settings["implementation"])
    pools = {OURS: our_pool, THEIRS: theirs(explanation)}
    yield from _measure("forward", explanation, pools, (x,), seconds)
    if jnp.issubdtype(explanation.dtype, jnp.floating):
        steps = {side: with_gradient(pool, explanation) for side, pool in pools.items()}
        cotangent = _noise(explanation.output_shape, explanation.dtype, 1)
        yield from _measure("and backward", explanation, steps, (x, cotangent), seconds)
    else:
        yield row("and backward", f"{explanation.dtype} has no gradient")
    yield row("ratio", f"time of {THEIRS} divided by time of {OURS}")


def _check(explanation: Explanation) -> None:
    if jax.dtypes.canonicalize_dtype(explanation.dtype) != explanation.dtype:
        raise ValueError(
            message(
                f"bench: {explanation.dtype} is disabled in JAX.",
                "JAX disables 64-bit dtypes by default.",
                "Set the environment variable JAX_ENABLE_X64=1.",
            )
        )
    if 0 in (*explanation.input_shape, *explanation.output_shape):
        raise ValueError(
            message(
                f"bench: shape {explanation.input_shape} gives {explanation.output_shape}.",
                "Without elements there is nothing to measure.",
                "Give a larger shape.",
            )
        )
    if explanation.op == "avg_pool" and not jnp.issubdtype(explanation.dtype, jnp.floating):
        raise ValueError(
            message(
                f"bench: lax has no average for dtype {explanation.dtype}.",
                "lax.reduce_window only adds integers; jaxpool also divides and rounds.",
                "Give --op sum_pool, or a floating-point dtype.",
            )
        )


def _noise(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> Array:
    """Return random floats of both signs, or integers up to 100 or to the maximum of the dtype."""
    random = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(random.standard_normal(shape, np.float32)).astype(dtype)
    largest = min(int(jnp.iinfo(dtype).max), 100) if jnp.issubdtype(dtype, jnp.integer) else 1
    return jnp.asarray(random.integers(0, largest + 1, shape, np.int8)).astype(dtype)


def _measure(
    name: str,
    explanation: Explanation,
    programs: Mapping[str, Callable[..., Any]],
    arguments: tuple[Array, ...],
    seconds: float,
) -> Iterator[str]:
    """Yield the rows of a program: compile alternately, compare the results, run alternately."""
    reason = _unsupported_reason(programs[THEIRS], arguments)
    sides = dict(programs) if reason is None else {OURS: programs[OURS]}
    compiled, compile_times = _compile(sides, arguments)
    if reason is None:
        results = (compiled[side](*arguments) for side in (OURS, THEIRS))
        difference = largest_difference(explanation, arguments, *results)
        yield row(name, f"results compared: they differ by at most {difference:.1g}")
    else:
        yield row(name, f"{THEIRS} fails: {reason}")
    calls = {side: functools.partial(program, *arguments) for side, program in compiled.items()}
    yield row("", f"run      {_times_text(race(calls, seconds))}")
    yield row("", f"compile  {_times_text(compile_times)}")


def _unsupported_reason(program: Callable[..., Any], arguments: tuple[Array, ...]) -> str | None:
    """Return the reason why JAX cannot compile a program, or None."""
    try:
        jax.jit(program).lower(*arguments).compile()
    except (NotImplementedError, TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return None


def _compile(
    programs: Mapping[str, Callable[..., Any]], arguments: tuple[Array, ...]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the compiled programs, and the median compile time of each in seconds."""
    compiled: dict[str, Any] = dict.fromkeys(programs)
    times: dict[str, list[float]] = {side: [] for side in programs}
    for turn in range(COMPILES):
        for side in list(programs)[:: 1 if turn % 2 else -1]:
            lowered = jax.jit(_new_function(programs[side])).lower(*arguments)
            start = time.perf_counter()
            compiled[side] = lowered.compile()
            times[side].append(time.perf_counter() - start)
    return compiled, {side: statistics.median(row) for side, row in times.items()}


def _new_function(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return a new function object, which JAX has not compiled before."""
    return lambda *arguments: program(*arguments)


def _times_text(seconds: Mapping[str, float]) -> str:
    """Return text of the times of both sides and of their ratio, above 1 if jaxpool is faster."""
    times = ", ".join(f"{side} {_milliseconds(taken)}" for side, taken in seconds.items())
    ratio = f", ratio {seconds[THEIRS] / seconds[OURS]:.2f}" if THEIRS in seconds else ""
    return times + ratio


def _milliseconds(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"
