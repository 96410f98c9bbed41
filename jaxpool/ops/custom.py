"""Pooling by any reduction.

Derivatives. Selections (max, min) and sums have the rules of :mod:`jaxpool._autodiff.rules`. Any
other reduction of floats is ``combine`` applied to slices of the array, in plain JAX, and is
differentiated as such: by window doubling on every platform, since JAX has no derivative of
``lax.reduce_window`` and ``lax.reduce`` with a combine it does not know, and since the backward
pass of the slices would compute every window anew for each of its elements.

What is combined may be a pytree of arrays: slices, padding and masks are those of each of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import treedef_is_leaf
from jax.typing import ArrayLike

from .._autodiff import rules
from .._errors import message, public, shown
from .._geometry.window import Padding, Rounding
from .._lowerings import plan as plan_
from .._lowerings.parts.axis_slicing import is_padded
from .._lowerings.plan import Plan
from .._lowerings.remembered import remembered
from .._lowerings.request import has_rule
from .._numerics.checks import check_real, check_where, function_of_the_user
from .._numerics.divisors import count_array
from ..reductions import Reduction, accumulator, filled
from ._dispatch import Configuration, Op, WindowArguments, call
from ._laws import check_laws, described, is_nan_of_padding, prepared


@public
def pool(
    x: ArrayLike,
    reduction: Reduction,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Any:
    """Any reduction over sliding windows.

    ``y[.., o, ..] = finish(combine over t of prepare(x[.., o * stride - pad_low + t * dilation,
    ..]), count[o])`` over the elements inside ``x``, of which the window has ``count``. What is
    combined may be a pytree of several arrays.

    Args:
      x: array of a dtype that the reduction takes, or anything ``jnp.asarray`` makes one of.
      reduction: a value of :mod:`jaxpool.reductions`
        (``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP, ANY, ALL, lp(p)``) or your own
        :class:`jaxpool.Reduction`. Make it once, not in each call: the op is compiled for each
        value.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
    Returns:
      Array; pooled axes have :func:`output_shape`, the others are unchanged. The dtype is that of
      ``x`` unless the reduction says otherwise: SUM and PRODUCT follow ``jnp.sum``, ANY and ALL are
      boolean. Narrow floats are combined in float32 and rounded once, unless the reduction has an
      ``accumulator``. MEAN, LOGSUMEXP and lp take floats only. If the reduction makes a pytree of
      arrays, that is the result, and each keeps its dtype.
    Derivatives: forward and reverse, to the order to which ``prepare``, ``combine`` and ``finish``
      have them, on every backend. MAX, MIN and every reduction with ``comparator`` have those of
      :func:`max_pool`. With ``implementation="reduce_window"`` or "tiled" a combine other than
      ``jnp.add`` and ``lax.add`` has those that JAX has of such a window, if any.
    Edge cases: a window without elements gives ``finish`` of the identity and a count of 0. NaN and
      infinities go where ``combine`` takes them.
    Raises:
      TypeError: ``reduction`` is not a Reduction, does not take the dtype, its ``prepare`` changes
        the shape, or its ``combine`` changes shape, dtype or structure.
      ValueError: ``combine`` is declared, or found, not to be associative and commutative, or does
        not ignore the identity, the message has the numbers; or the identity is not a scalar for
        each array that is combined.
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
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(_POOL, x, (where,), windows, reduction=reduction)


def _pool(x: Array, where: Any, *, config: Configuration, reduction: Reduction) -> Any:
    check_real(x)
    valid = check_where(where, x.shape)
    wide = _accumulator(reduction, x.dtype)
    check_laws(reduction, wide)
    dtype = x.dtype
    if wide != np.bool_:
        reduction = _in_lax(reduction)
    has_finish = reduction.finish is not None
    count = count_array(config.geometry(x.shape), valid, x.ndim) if has_finish else None
    return _as_results(_reduce(x.astype(wide), valid, count, reduction, config), reduction, dtype)


@remembered(maxsize=1024)
def _in_lax(reduction: Reduction) -> Reduction:
    """The reduction, with the sum that implementations know in place of its equal of numbers."""
    return replace(reduction, combine=lax.add) if reduction.combine is jnp.add else reduction


def _reduce(
    x: Array, valid: Array | None, count: Any, reduction: Reduction, config: Configuration
) -> Any:
    elements = prepared(reduction, x)
    plan = _plan_for(elements, reduction, config)
    if reduction.comparator is not None:
        combined = rules.extreme(elements, valid, plan)
    elif reduction.combine is lax.add:
        # What the derivative of a finish costs is not known, and each tap would take it again.
        stored = reduction.finish is not None
        combined = rules.window_sum(filled(elements, valid, reduction), plan, stored)
    else:
        combined = _combined(elements, valid, plan, config, np.dtype(x.dtype))
    if reduction.finish is None:
        return combined
    floats = _dtypes(combined, jnp.floating)
    with function_of_the_user(f"the finish of reduction {reduction.name!r}"):
        return reduction.finish(combined, jnp.asarray(count, floats[0] if floats else jnp.int32))


def _combined(
    elements: Any, valid: Array | None, plan: Plan, config: Configuration, wide: np.dtype
) -> Any:
    """The combination of every window, by ``combine`` as it is differentiated."""
    reduction, there = plan.reduction, valid
    assert reduction is not None, "values are those of a reduction"
    elements = filled(elements, valid, reduction)
    if there is None and is_padded(plan.geometry):
        there = lax.full_like(jax.tree.leaves(elements)[0], True, bool)
    if there is None or config.implementation != "auto" or not is_nan_of_padding(reduction, wide):
        return plan_.reduce(plan, elements)
    both = elements, there
    return plan_.reduce(_plan_for(both, _of_elements(reduction), config), both)[0]


@remembered(maxsize=1024)
def _of_elements(reduction: Reduction) -> Reduction:
    """The reduction of pairs of what is combined and of whether an element is in it.

    Of two without one it makes the identity, whatever ``combine`` would, and no derivative.
    """

    def combine(a: Any, b: Any) -> Any:
        there = a[1] | b[1]
        return filled(reduction.combine(a[0], b[0]), there, reduction), there

    identity = lambda dtypes: (reduction.identity(dtypes[0]), False)  # noqa: E731
    return replace(reduction, combine=combine, identity=identity, extremum=None)


_KNOWN_TO_XLA = (lax.mul, lax.bitwise_and, lax.bitwise_or)


def _plan_for(elements: Any, reduction: Reduction, config: Configuration) -> Plan:
    """The plan; unless an implementation is named, one with derivatives where they are defined.

    XLA:GPU ends the process if what combines the elements of a window has a loop, as ``jnp.gcd``
    has, and XLA:TPU refuses it. So windows are handed only the combines that both know.
    """
    if config.implementation == "auto" and not has_rule(reduction):
        if _dtypes(elements, jnp.inexact) or reduction.combine not in _KNOWN_TO_XLA:
            config = replace(config, implementation="doubling")
    first = jax.tree.leaves(elements)[0]
    return config.plan(first.shape, first.dtype, reduction)


# --- dtypes --------------------------------------------------------------------------------------


def _dtypes(arrays: Any, kind: Any) -> list[np.dtype]:
    """The dtypes of a kind that arrays of a pytree have."""
    return [a.dtype for a in jax.tree.leaves(arrays) if jnp.issubdtype(a.dtype, kind)]


def _as_results(made: Any, reduction: Reduction, dtype: np.dtype) -> Any:
    """Return one array in the dtype of ``x``, several in their own, or all in those stated."""
    if reduction.result is None and not treedef_is_leaf(jax.tree.structure(made)):
        return made
    stated = reduction.result(dtype) if reduction.result else dtype
    try:
        each = jax.tree.broadcast(stated, made)
    except ValueError:
        raise ValueError(
            message(
                f"the result of reduction {reduction.name!r} has another structure.",
                f"Its dtypes are {shown(stated)}, for {described(made)}.",
                "Give one dtype for all results, or a pytree with one for each of them.",
            )
        ) from None
    return jax.tree.map(lambda a, to: a.astype(to), made, each)


def _accumulator(reduction: Reduction, dtype: np.dtype) -> np.dtype:
    """The dtype that is combined; a selection returns an element and needs no other."""
    if reduction.accumulator is None:
        return dtype if reduction.comparator is not None else accumulator(dtype)
    wide = reduction.accumulator(dtype)
    if wide is None:
        raise TypeError(
            message(
                f"reduction {reduction.name!r} does not take {dtype.name}.",
                "Its result would not be a number of that dtype.",
                "Convert the array first, for example x.astype(jnp.float32).",
            )
        )
    return np.dtype(wide)


def _canonical(reduction: Any) -> dict[str, Reduction]:
    if not isinstance(reduction, Reduction):
        raise TypeError(
            message(
                f"$reduction = {reduction!r} is not a Reduction.",
                "It is a value with a combine and its identity, not a function or a name.",
                "Give for example jaxpool.reductions.MAX, or "
                'jaxpool.Reduction("largest", jnp.maximum, -jnp.inf).',
            )
        )
    if reduction.extremum not in (None, "max", "min"):
        raise ValueError(
            message(
                f"reduction {reduction.name!r} has extremum={shown(reduction.extremum)}.",
                "A selection prefers one end of the order of numbers, or is no maximum or minimum.",
                'Give "max", "min" or None.',
            )
        )
    _check_functions(reduction)
    for law in ("associative", "commutative"):
        if not getattr(reduction, law):
            raise ValueError(
                message(
                    f"reduction {reduction.name!r} is declared not {law}.",
                    "A window is cut into parts that are combined in any order.",
                    "Find another combine, or reduce the taps of jaxpool.windows in their order.",
                )
            )
    return {"reduction": reduction}


def _check_functions(reduction: Reduction) -> None:
    arrays = "of arrays, made of operations of JAX"
    dtypes = "from the dtype of an array to another, such as lambda dtype: np.float32"
    wanted = dict.fromkeys(("combine", "comparator", "prepare", "finish"), arrays)
    for name, kind in {**wanted, "accumulator": dtypes, "result": dtypes}.items():
        given = getattr(reduction, name)
        if not callable(given) and (given is not None or name == "combine"):
            raise TypeError(
                message(
                    f"the {name} of reduction {reduction.name!r} cannot be called.",
                    f"It is {shown(given)}, of type {type(given).__name__}.",
                    f"Give a function {kind}.",
                )
            )


_POOL = Op("pool", _pool, _canonical, has_reduction=True)
