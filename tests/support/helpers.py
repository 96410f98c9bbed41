"""Comparisons that report where they fail, and data that reveal swapped axes."""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool._lowerings import IMPLEMENTATIONS
from jaxpool._lowerings.plan import NAMES

PLATFORMS = ("cpu", "cuda", "tpu")
"""Names of platforms as JAX lowers for them."""

PORTABLE = tuple(name for name in NAMES[1:] if any(IMPLEMENTATIONS[name][1:]))
"""The implementations that run on every platform."""

QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}
"""Spares the time of LLVM's optimiser, for programs that run once; XLA's own passes all run."""


def lowered(f: Callable[..., Any], platform: str, *arrays: Any) -> Callable[..., Any]:
    """Return the program of a platform, to be run on the platform of this machine."""
    checks = [jax.export.DisabledSafetyCheck.platform()]
    return jax.export.export(jax.jit(f), platforms=[platform], disabled_checks=checks)(*arrays).call


def exported_call(
    sizes: str, function: Callable[..., Any], constraints: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return the differentiable call of an exported function of an array of symbolic sizes."""
    shape = jax.export.symbolic_shape(sizes, constraints=constraints)
    artifact = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, jnp.float32))
    return jax.export.deserialize(artifact.serialize(vjp_order=1)).call


def x64_for(dtype: Any) -> contextlib.AbstractContextManager[Any]:
    """Enable 64-bit types, for the dtypes that need them."""
    return jax.enable_x64(np.dtype(dtype).itemsize == 8)


def error_lines(
    function: str, error: type[Exception], call: Callable[[], Any], times: int = 2
) -> list[str]:
    """Return the lines of the error that ``call`` raises each time, in the name of a function.

    The error has exactly this type, and three lines that end with a full stop.
    """
    texts = set()
    for _ in range(times):
        with pytest.raises(error) as caught:
            call()
        assert caught.type is error
        texts.add(str(caught.value))
    (text,) = texts
    lines = text.split("\n")
    assert len(lines) == 3 and lines[0].startswith(f"{function}: ") and lines[0].endswith("."), (
        lines
    )
    assert all(re.match(r"  \S.*\.$", line) for line in lines[1:]), lines
    return lines


def permutation(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """Return distinct integers in random order, centred on zero (from 0 if unsigned)."""
    count = math.prod(shape)
    numbers = rng.permutation(count).reshape(shape)
    if np.dtype(dtype).kind != "u":
        numbers -= count // 2
    x = numbers.astype(dtype)
    if len(np.unique(x)) != count:
        raise ValueError(f"{np.dtype(dtype)} does not hold {count} different integers")
    return x


def assert_same(got: Any, want: Any, case: Any, *, ulps: float = 0) -> None:
    """Fail unless ``got`` equals ``want``: dtype, shape, positions of NaN, and values.

    Zeros of both signs are equal.

    Args:
      got, want: arrays.
      case: names the case in the message, preferably as code to paste.
      ulps: finite floats may differ by this number of units in the last place of the largest one.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype:
        raise AssertionError(f"{case}\n  dtype is {got.dtype}, not {want.dtype}")
    if got.shape != want.shape:
        raise AssertionError(f"{case}\n  shape is {got.shape}, not {want.shape}")
    wrong = ~same_elements(got, want, ulps)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{case}\n  {wrong.sum()} of {wrong.size} elements differ, first at {first}: "
            f"{got[first]}, not {want[first]}\n  got\n{got}\n  want\n{want}"
        )


def same_elements(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    """Return a mask of the elements at which ``got`` equals ``want``, see :func:`assert_same`."""
    equal = got == want
    if not jnp.issubdtype(want.dtype, jnp.floating):
        return equal
    got, want, eps = got.astype(float), want.astype(float), float(jnp.finfo(want.dtype).eps)
    both_finite = np.isfinite(got) & np.isfinite(want)
    largest = np.max(np.abs(want), initial=0, where=both_finite)
    with np.errstate(invalid="ignore"):
        close = both_finite & (np.abs(got - want) <= ulps * eps * largest)
    return equal | close | (np.isnan(got) & np.isnan(want))


def check_derivatives(
    f: Callable[..., jax.Array], *args: jax.Array, rng: np.random.Generator, eps: float = 1e-5
) -> None:
    """Fail unless both modes agree with central differences to order two, in any combination.

    The derivatives are along random directions and compiled once, which makes the check several
    times cheaper than ``jax.test_util.check_grads``. Use float64, and an ``f`` that is not linear.
    """
    y = jax.eval_shape(f, *args)
    u, v, w = (_directions(shapes, rng) for shapes in ((y,), args, args))

    def forward(*args: jax.Array) -> jax.Array:
        return _dot(u, (jax.jvp(f, args, v)[1],))

    def reverse(*args: jax.Array) -> jax.Array:
        return _dot(jax.vjp(f, *args)[1](*u), v)

    @functools.partial(jax.jit, compiler_options=QUICK)
    def values(*args: jax.Array) -> dict[str, jax.Array]:
        derivatives = {"f": _dot(u, (f(*args),))}
        for name, first in (("forward", forward), ("reverse", reverse)):
            derivatives[name], derivatives[f"forward of {name}"] = jax.jvp(first, args, w)
            derivatives[f"reverse of {name}"] = _dot(jax.vjp(first, *args)[1](1.0), w)
        return derivatives

    def difference(name: str, directions: tuple[np.ndarray, ...]) -> float:
        ends = [
            values(*(a + sign * eps * d for a, d in zip(args, directions, strict=True)))[name]
            for sign in (1, -1)
        ]
        return float(ends[0] - ends[1]) / (2 * eps)

    derivatives = {name: float(value) for name, value in values(*args).items()}
    expected = {1: difference("f", v), 2: difference("forward", w)}
    for name, value in derivatives.items():
        if name != "f":
            reference = expected[2 if " of " in name else 1]
            if not reference or not abs(value - reference) <= 1e-5 * abs(reference):
                raise AssertionError(f"{name}: {value}, not {reference}")


def _directions(shapes: Sequence[Any], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple(rng.standard_normal(a.shape) for a in shapes)


def _dot(a: Sequence[Any], b: Sequence[Any]) -> jax.Array:
    return sum((jnp.vdot(p, q) for p, q in zip(a, b, strict=True)), start=jnp.zeros(()))


@contextlib.contextmanager
def counted_compilations() -> Iterator[list[str]]:
    """Yield a list that grows by one entry for every program that is compiled."""
    compilations: list[str] = []

    def record(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compilations.append(event)

    jax.monitoring.register_event_duration_secs_listener(record)
    try:
        yield compilations
    finally:
        jax.monitoring.unregister_event_duration_listener(record)
