"""Pooling by any reduction.

Derivatives. Selections (max, min) and sums have the rules of :mod:`jaxpool._derivatives`. Any other
reduction of floats is ``combine`` applied to slices of the array, in plain JAX, and is
differentiated as such: by window doubling on every platform, since JAX has no derivative of
``lax.reduce_window`` and ``lax.reduce`` with a combine it does not know, and since the backward
pass of the unrolled lowering would compute every window anew for each of its cells.

Laws. Lowerings combine the parts of a window in an order of their own. That ``combine`` allows it
is tried on a few numbers when a reduction first meets a dtype: enough to find a subtraction or an
average of averages, no proof.
"""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .. import _derivatives, _plan
from .._errors import message
from .._plan import Plan
from .._reductions import Reduction, accumulator, filled, identity_array
from ._common import Op, Settings, call, check_real, check_where
from ._sums import counts


def pool(
    x: ArrayLike,
    reduction: Reduction,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Any reduction over sliding windows.

    ``y[.., o, ..] = finish(combine over t of prepare(x[.., o * stride - pad_low + t * dilation,
    ..]), count[o])`` over the cells inside ``x``, of which the window has ``count``.

    Args:
      x: array of a dtype that the reduction takes, or anything ``jnp.asarray`` makes one of.
      reduction: a value of :mod:`jaxpool.reductions` (``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP,
        ANY, ALL, lp(p)``) or your own :class:`jaxpool.Reduction`. Make it once, not in each call:
        the op is compiled for each value.
      window_shape, strides, padding, dilations, rounding, data_format, where, lowering: as in
        :func:`max_pool`.
    Returns:
      Array; pooled axes have :func:`output_shape`, the others are unchanged. The dtype is that of
      ``x`` unless the reduction says otherwise: SUM and PRODUCT follow ``jnp.sum``, ANY and ALL are
      boolean. Narrow floats are combined in float32 and rounded once, unless the reduction has an
      ``accumulator``. MEAN, LOGSUMEXP and lp take floats only.
    Derivatives: forward and reverse, to the order to which ``prepare``, ``combine`` and ``finish``
      have them, on every backend. MAX, MIN and every reduction with ``beats`` as :func:`max_pool`.
      With ``lowering="reduce_window"`` or "reshape" a combine other than ``jnp.add`` and
      ``lax.add`` has those that JAX has of such a window, if any.
    Edge cases: a window without a cell gives ``finish`` of the identity and a count of 0. NaN and
      infinities go where ``combine`` takes them.
    Raises:
      TypeError: ``reduction`` is not a Reduction, does not take the dtype, or its ``combine``
        changes shape or dtype.
      ValueError: ``combine`` is declared, or found, not to be associative and commutative, or does
        not ignore the identity; the message has the numbers.
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`.
    References: van Herk 1992 and Gil and Werman 1993 (windows of an associative combine).
    Example:
      >>> x = jnp.array([[1.0], [3.0], [2.0], [4.0]])
      >>> jaxpool.pool(x, jaxpool.reductions.PRODUCT, (2,), 1)[:, 0]
      Array([3., 6., 8.], dtype=float32)
      >>> either = jaxpool.Reduction("exclusive or", jnp.bitwise_xor, 0)
      >>> jaxpool.pool(jnp.array([[1], [3], [2]]), either, (2,), 1)[:, 0]
      Array([2, 1], dtype=int32)
    """
    return call(
        _POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, lowering, reduction,
    )  # fmt: skip


def _pool(settings: Settings, x: Array, where: Any) -> Array:
    (reduction,) = settings.own
    check_real(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    wide = _accumulator(settings.op, reduction, x.dtype)
    _check_laws(settings.op, reduction, wide)
    result = reduction.result(x.dtype) if reduction.result else x.dtype
    if wide != np.bool_:
        reduction = _in_lax(reduction)
    geometry = settings.geometry(x.shape)
    count = counts(settings, geometry, valid, include_pad=False)
    return _reduce(settings, reduction, x.astype(wide), valid, count).astype(result)


@functools.lru_cache(maxsize=1024)
def _in_lax(reduction: Reduction) -> Reduction:
    """The reduction with the sum that lowerings and derivatives know; of numbers, the same."""
    return replace(reduction, combine=lax.add) if reduction.combine is jnp.add else reduction


def _reduce(
    settings: Settings, reduction: Reduction, x: Array, valid: Array | None, count: Any
) -> Array:
    x = x if reduction.prepare is None else reduction.prepare(x)
    plan = _plan_for(settings, reduction, x)
    if reduction.beats is not None:
        combined = _derivatives.extreme(x, valid, plan)
    elif reduction.combine is lax.add:
        # What the derivative of a finish costs is not known, and each tap would take it again.
        costly = reduction.finish is not None
        combined = _derivatives.window_sum(filled(x, valid, reduction), plan, costly)
    else:
        combined = _plan.run(plan, filled(x, valid, reduction))
    if reduction.finish is None:
        return combined
    number = combined.dtype if jnp.issubdtype(combined.dtype, jnp.floating) else jnp.int32
    return reduction.finish(combined, jnp.asarray(count, number))


def _plan_for(settings: Settings, reduction: Reduction, x: Array) -> Plan:
    """The plan; unless a lowering is named, one with derivatives where they are defined."""
    has_rule = reduction.beats is not None or reduction.combine is lax.add
    if settings.lowering == "auto" and not has_rule and jnp.issubdtype(x.dtype, jnp.inexact):
        settings = replace(settings, lowering="doubling")
    return settings.plan(x.shape, x.dtype, reduction)


# --- dtypes and laws -----------------------------------------------------------------------------


def _accumulator(op: str, reduction: Reduction, dtype: np.dtype) -> np.dtype:
    """The dtype that is combined; a selection returns a cell and needs no other."""
    if reduction.accumulator is None:
        return dtype if reduction.beats is not None else accumulator(dtype)
    wide = reduction.accumulator(dtype)
    if wide is None:
        raise TypeError(
            message(
                op,
                f"reduction {reduction.name!r} does not take {dtype.name}.",
                "Its result would not be a number of that dtype.",
                "Convert the array first, for example x.astype(jnp.float32).",
            )
        )
    return np.dtype(wide)


def _settle(op: str, reduction: Any) -> tuple[Reduction]:
    if not isinstance(reduction, Reduction):
        raise TypeError(
            message(
                op,
                f"`reduction` = {reduction!r} is not a Reduction.",
                "It is a value with a combine and its identity, not a function or a name.",
                "Give for example jaxpool.reductions.MAX, or "
                'jaxpool.Reduction("largest", jnp.maximum, -jnp.inf).',
            )
        )
    for law in ("associative", "commutative"):
        if not getattr(reduction, law):
            raise ValueError(
                message(
                    op,
                    f"reduction {reduction.name!r} is declared not {law}.",
                    "A window is cut into parts that are combined in any order.",
                    "Find another combine, or reduce the taps of jaxpool.windows in their order.",
                )
            )
    return (reduction,)


class Trial(NamedTuple):
    """Two sides of a law, as text and as numbers, and the operands they were made of."""

    fault: str
    left: str
    right: str
    sides: Any
    operands: Any


@functools.lru_cache(maxsize=1024)
def _check_laws(op: str, reduction: Reduction, wide: np.dtype) -> None:
    """Raise unless the laws hold for a few numbers of the accumulator's dtype."""
    with jax.ensure_compile_time_eval():
        cells = jnp.asarray(_numbers(wide))
        cells = cells if reduction.prepare is None else reduction.prepare(cells)
        _check_signature(op, reduction, cells)
        trials = list(_trials(reduction, cells))
    for trial in trials:
        left, right, *operands = (np.asarray(a) for a in (*trial.sides, *trial.operands))
        broken = np.argwhere(~_close(left, right, operands))
        if len(broken):
            numbers = dict(zip("abc", (a[tuple(broken[0])] for a in operands), strict=False))
            values = left[tuple(broken[0])], right[tuple(broken[0])]
            raise ValueError(_counterexample(op, reduction, wide, trial, values, numbers))


def _numbers(dtype: np.dtype) -> np.ndarray:
    """Few, of both signs, with a pair of opposites."""
    if dtype == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array([-2, -0.5, 0, 0.25, 0.5, 1, 3], dtype)
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return np.array([0, 1, 2, 3, 5, 7], dtype)
    return np.array([-3, -1, 0, 1, 2, 5], dtype)


def _trials(reduction: Reduction, cells: Array) -> Iterator[Trial]:
    """Every law on every choice of numbers, one program for all."""
    combine, count = reduction.combine, cells.size
    identity = jnp.asarray(identity_array(reduction, cells.dtype))

    def sides(a: Array, b: Array, c: Array, e: Array) -> list[tuple[Array, Array]]:
        return [
            (combine(a, b), combine(b, a)),
            (combine(combine(a, b), c), combine(a, combine(b, c))),
            (combine(a, e), a),
            (combine(a, a), a),
        ]

    shape = (count,) * 3
    a, b, c = (jnp.broadcast_to(cells.reshape((-1,) + (1,) * rest), shape) for rest in (2, 1, 0))
    results = jax.jit(sides)(a, b, c, jnp.broadcast_to(identity, shape))
    laws = [
        ("is not commutative", "combine(a, b)", "combine(b, a)", (a, b)),
        ("is not associative", "combine(combine(a, b), c)", "combine(a, combine(b, c))", (a, b, c)),
        ("does not ignore its identity", "combine(a, identity)", "a", (a,)),
        ("is not idempotent", "combine(a, a)", "a", (a,)),
    ]
    stated = laws if reduction.idempotent else laws[:-1]
    for (fault, left, right, operands), pair in zip(stated, results, strict=False):
        yield Trial(fault, left, right, pair, operands)


def _close(left: np.ndarray, right: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Where two sides of a law agree, floats to the rounding of a few operations."""
    same = (left == right) | ((left != left) & (right != right))
    if not jnp.issubdtype(left.dtype, jnp.floating):
        return same
    sizes = [np.abs(np.where(np.isfinite(a), a, 0)) for a in (left, right, *operands)]
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return same | (difference <= 64 * jnp.finfo(left.dtype).eps * np.max(sizes, axis=0))


def _counterexample(
    op: str,
    reduction: Reduction,
    wide: np.dtype,
    trial: Trial,
    values: tuple[Any, Any],
    numbers: dict[str, Any],
) -> str:
    where = ", ".join(f"{letter} = {number}" for letter, number in numbers.items())
    return message(
        op,
        f"the combine of reduction {reduction.name!r} {trial.fault}.",
        f"In {wide.name}, with {where}: {trial.left} = {values[0]}, {trial.right} = {values[1]}.",
        "Windows are cut into parts and combined in any order, padding is the identity: "
        "give a combine and an identity for which both are equal.",
    )


def _check_signature(op: str, reduction: Reduction, cells: Array) -> None:
    """Raise unless ``combine`` keeps shape and dtype and the dtype holds the identity."""
    made = jax.eval_shape(reduction.combine, cells, cells)
    if made.shape != cells.shape or made.dtype != cells.dtype:
        raise TypeError(
            message(
                op,
                f"the combine of reduction {reduction.name!r} does not keep shape and dtype.",
                f"Of two arrays {cells.dtype.name}{list(cells.shape)} it makes "
                f"{made.dtype.name}{list(made.shape)}.",
                "Give an elementwise combine, and an `accumulator` of a dtype that it keeps.",
            )
        )
    try:
        identity_array(reduction, cells.dtype)
    except (OverflowError, ValueError, TypeError):
        raise ValueError(
            message(
                op,
                f"the identity of reduction {reduction.name!r} is no {cells.dtype.name}.",
                f"It is {reduction.identity(cells.dtype)!r}.",
                "Give a function from the dtype to its identity, or an `accumulator` dtype.",
            )
        ) from None


_POOL = Op("pool", _pool, _settle)
