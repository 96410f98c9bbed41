"""The derivative rules.

Max and min. Let ``p(o)`` be the position of the winner of window ``o``. Where ``p`` is locally
constant, ``y[o] = x[p(o)]`` and so ``dy[o] = dx[p(o)]``: a linear map of ``dx`` that depends on
``x`` only through the winning taps, one byte per output for windows of up to 255 taps. Its
transpose is the reverse rule ``dx[i] = sum over {o: p(o) = i} of dy[o]``, and since the map is
linear, one rule gives forward mode, reverse mode and every order; second derivatives in ``x`` are
zero. The taps are its only residual. At ties the winner is the first tap, at NaN the first NaN: one
element of the subdifferential.

Sums. ``dy`` is the same sum of ``dx``, and its transpose ``dx[i]`` the sum of
``dy[o]`` over the windows that hold ``i``.
"""

import functools

import jax
from jax import Array

from . import _gather, _plan, _send
from ._linear import rule_for, with_transpose
from ._pick import Pick
from ._plan import Plan
from ._reductions import filled


def extreme(x: Array, valid: Array | None, plan: Plan) -> Array:
    """Return the winner of every window among the cells that are ``valid``; differentiable."""
    return rule_for(x, _extreme)(x, valid, plan)


def extreme_with_taps(x: Array, valid: Array | None, plan: Plan) -> Pick:
    """Return winners, differentiable, and the numbers of their taps."""
    return rule_for(x, _with_taps)(x, valid, plan)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _extreme(x: Array, valid: Array | None, plan: Plan) -> Array:
    return _plan.run(plan, filled(x, valid, plan.reduction))


@_extreme.defjvp
def _extreme_jvp(plan: Plan, primals, tangents):
    (values, _), (tangent, _) = _with_taps_jvp(plan, primals, tangents)
    return values, tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _with_taps(x: Array, valid: Array | None, plan: Plan) -> Pick:
    return _plan.select(plan, filled(x, valid, plan.reduction), valid)


@_with_taps.defjvp
def _with_taps_jvp(plan: Plan, primals, tangents):
    values, taps = _with_taps(*primals, plan)
    tangent = _read(tangents[0], taps, plan)
    return (values, taps), (tangent, jax.custom_derivatives.zero_from_primal(taps))


def _read(t: Array, taps: Array, plan: Plan) -> Array:
    return _gather.read(t, taps, plan.geometry)


def window_sum(x: Array, plan: Plan, costly: bool = False) -> Array:
    """Return the sum of every window; differentiable.

    Cotangents that are ``costly`` to make are stored before they are sent.
    """
    return rule_for(x, _sum)(x, plan, costly)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _sum(x: Array, plan: Plan, costly: bool) -> Array:
    return _plan.run(plan, x)


@_sum.defjvp
def _sum_jvp(plan: Plan, costly: bool, primals, tangents):
    tangent = with_transpose(
        functools.partial(_plan.run, plan),
        functools.partial(_send.to_all, geometry=plan.geometry, costly=costly),
        tangents[0],
        plan.geometry.full_shape(tangents[0].shape),
    )
    return _sum(*primals, plan, costly), tangent
