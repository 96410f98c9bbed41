"""The derivative rules of selections and of sums.

Selections. A selection returns one element of each window, ``y[o] = x[p(o)]``. The position
``p(o)`` is the argmax of window ``o``: the first of several equal maxima, or the first NaN. Where
``p`` is locally constant, the tangent is

    dy[o] = dx[p(o)].

This map is linear in ``dx`` and depends on ``x`` only through ``p``. The window offsets that encode
``p`` are the only residual: one byte per output for windows of up to 255 elements. The transpose is
``dx[i] = sum over {o: p(o) = i} of dy[o]``. So one linear map gives forward mode, reverse mode and
derivatives of any order; second derivatives in ``x`` are zero. At ties the derivative is one
element of the subdifferential.

Sums. The tangent ``dy`` is the same sum of ``dx``. The transpose is ``dx[i] = sum of dy[o]`` over
the windows ``o`` that contain element ``i``.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
from jax import Array, lax

from .._lowerings import plan as plan_
from .._lowerings.parts.argreduce import ValueOffset
from .._lowerings.plan import Plan
from .._xla.call_without_derivative import call_without_derivative
from .._xla.lost_rules import RULES_ARE_LOST
from .._xla.materialize import materialize
from ..reductions import SUM, mask_with_identity
from .gather import gather_by
from .linear import is_differentiable, linear_map, with_materialized_cotangent

Reduce = Callable[..., Array]
"""``reduce(x, *arrays)`` returns the value of every window."""

ArgReduce = Callable[..., tuple[Array, Any]]
"""``argreduce(x, *arrays)`` returns the same values, and their offsets in ``x``."""

Gather = Callable[[Any, Any, Array], Array]
"""``gather(x, offsets, value)`` returns the elements of ``x`` at the offsets, a linear map of ``x``
whose result ``value`` is known."""


def selection(
    reduce: Reduce,
    argreduce: ArgReduce,
    gather: Gather,
    x: Any,
    *arrays: Any,
    rule_may_be_lost: bool = RULES_ARE_LOST,
) -> Array:
    """Return ``reduce(x, *arrays)`` with the derivative of a selection from ``x``.

    Without differentiation, only ``reduce`` runs, since values alone are cheaper than values with
    offsets. Under differentiation, this is :func:`selection_with_offsets`.

    Args:
      reduce, argreduce, gather: functions of ``x`` and the other arrays.
      x: the array, or pytree of arrays of one dtype, from which elements are selected.
      arrays: other arguments of ``reduce`` and ``argreduce``, without derivatives.
      rule_may_be_lost: whether the function must have the derivative even without its rule. The
        program then contains the computation of offsets until XLA sees that nothing reads them.
    """
    if not is_differentiable(x):
        return reduce(x, *arrays)
    with_offsets = functools.partial(selection_with_offsets, argreduce, gather)

    @jax.custom_jvp
    def values(x: Any, *arrays: Any) -> Array:
        primal = lax.stop_gradient(x)  # ``reduce`` may have operations without a derivative
        y = _batch_axis_first(reduce(primal, *arrays))
        return gather(x, argreduce(primal, *arrays)[1], y) if rule_may_be_lost else y

    @values.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        x, *arrays = primals
        return jax.jvp(lambda x: with_offsets(x, *arrays)[0], (x,), tangents[:1])

    return values(x, *arrays)


def selection_with_offsets(
    argreduce: ArgReduce, gather: Gather, x: Any, *arrays: Any
) -> tuple[Array, Any]:
    """Return ``argreduce(x, *arrays)``, whose values have the derivative of a selection from ``x``.

    JAX differentiates only ``gather``, so no transformation can lose the derivative.
    """
    values, offsets = call_without_derivative(argreduce, x, *arrays)
    return gather(x, offsets, values) if is_differentiable(x) else values, offsets


def _batch_axis_first(x: Array) -> Array:
    """Return ``x`` with the batch axis of ``jax.vmap``, if any, moved before all others.

    For the results of a ``jax.custom_jvp`` call, JAX (0.12) uses the batch axis of the results of
    the function, even if the rule computes the results. The rule ends in a linear solve, whose
    batch axis comes first, so that of the function must come first, too.
    """
    return lax.squeeze(lax.expand_dims(x, (0,)), (0,))  # batching a broadcast moves the axis first


# --- windows --------------------------------------------------------------------------------------


def extreme(x: Array, valid: Array | None, plan: Plan) -> Array:
    """Return the extreme of the ``valid`` elements of every window; differentiable."""

    def reduce(x: Array, valid: Array | None) -> Array:
        return plan_.reduce(plan, mask_with_identity(x, valid, plan.reduction))

    return selection(reduce, *_argreduce_and_gather(plan, codes=valid is None), x, valid)


def extreme_with_offsets(x: Array, valid: Array | None, plan: Plan) -> ValueOffset:
    """Return the extreme of every window, differentiable, and its window offset."""
    return selection_with_offsets(*_argreduce_and_gather(plan), x, valid)


def _argreduce_and_gather(plan: Plan, codes: bool = False) -> tuple[ArgReduce, Gather]:
    """Return both functions; ``codes``: whether codes may take the place of offsets."""

    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        return plan_.argreduce(plan, x, valid, codes)

    gather, scatter = plan.coded[1:] if codes else (plan.gather, plan.scatter)
    assert gather is not None and scatter is not None
    return argreduce, functools.partial(gather_by, gather, scatter)


def window_sum(x: Array, plan: Plan, materialize_cotangent: bool = False) -> Array:
    """Return the sum of every window; differentiable.

    ``materialize_cotangent``: whether to store cotangents before the transpose reads them.
    """
    if not is_differentiable(x):
        return plan_.reduce(plan, x)
    # JAX's caches keep the plan, and a caller's reduction may refer to large arrays.
    return _sum_with_rule(x, replace(plan, reduction=SUM), materialize_cotangent)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _sum_with_rule(x: Array, plan: Plan, materialize_cotangent: bool) -> Array:
    """Return the sum; if JAX loses the rule, JAX derives the same derivative, but a slower one."""
    return _batch_axis_first(plan_.reduce(plan, x))


@_sum_with_rule.defjvp
def _sum_with_rule_jvp(plan: Plan, materialize_cotangent: bool, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    reduce = functools.partial(plan_.reduce, plan)

    def transpose(g: Array) -> Array:
        return plan_.sum_transpose(plan, materialize(g) if materialize_cotangent else g)

    shape = plan.geometry.full_shape(x.shape)
    return linear_map(reduce, transpose, x, shape), linear_map(reduce, transpose, t, shape)


def materialized(y: Array) -> Array:
    """Return ``y``, stored on CPU before other loops read it, and so is its cotangent."""
    return _materialized(y) if is_differentiable(y) else materialize(y)


@jax.custom_jvp
def _materialized(y: Array) -> Array:
    return materialize(y)


@_materialized.defjvp
def _materialized_jvp(primals: Any, tangents: Any) -> Any:
    (y,), (t,) = primals, tangents
    return _materialized(y), with_materialized_cotangent(t)
