"""Pooling by any reduction.

Derivatives. Selections (max, min) and sums use the rules of :mod:`jaxpool._autodiff.rules`. Any
other reduction of floats applies ``combine`` to slices of the array, and JAX differentiates these
operations. The implementation is then "doubling" on every platform, for two reasons: JAX cannot
differentiate ``lax.reduce_window`` and ``lax.reduce`` with an arbitrary combine, and the backward
pass of "slices" would recompute every window for each of its elements.

The operand of ``combine`` may be a pytree of arrays. Each array is sliced, padded and masked alike.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import treedef_is_leaf
from jax.typing import ArrayLike

from .._autodiff import rules
from .._errors import counted, message, public, shown
from .._geometry.arguments import Integers
from .._geometry.window import Padding, Rounding
from .._lowerings import plan as plan_
from .._lowerings.parts.axis_slicing import is_padded
from .._lowerings.plan import Plan
from .._lowerings.request import has_rule
from .._lowerings.result_cache import cached_per_reduction
from .._numerics.checks import check_real, check_where, explaining_tracer_errors
from .._numerics.divisors import count_array
from ..reductions import Reduction, accumulator, mask_with_identity
from ._dispatch import Configuration, Op, WindowArguments, call
from ._laws import check_laws, described, has_nan_derivative_at_padding, prepared


@public
def pool(
    x: ArrayLike,
    reduction: Reduction,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Any:
    """Return the result of any reduction over sliding windows.

    ``y[.., o, ..] = finish(combine over t of prepare(x[.., o * stride - pad_low + t * dilation,
    ..]), count[o])`` over the elements inside ``x``, where ``count[o]`` is the number of elements
    of window ``o``. ``prepare`` may return a pytree of several arrays.

    Args:
      x: array of a dtype that the reduction accepts, or anything that ``jnp.asarray`` converts to
        one.
      reduction: a value of :mod:`jaxpool.reductions`
        (``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP, ANY, ALL, lp(p)``) or your own
        :class:`jaxpool.Reduction`. Create it once, not in each call: the op is compiled again for
        each new value.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
    Returns:
      Array. Its shape (:func:`output_shape`) differs on the pooled axes only. Its dtype is that of
      ``x`` unless the reduction says otherwise: SUM and PRODUCT follow ``jnp.sum``, ANY and ALL are
      boolean. Low-precision floats are combined in float32 and rounded once, unless the reduction
      has an ``accumulator``. MEAN, LOGSUMEXP and lp accept floats only. If the reduction returns a
      pytree of arrays, the result is that pytree, and each array keeps its dtype.
    Derivatives: forward and reverse mode on every backend, of every order for which ``prepare``,
      ``combine`` and ``finish`` are differentiable. MAX, MIN and every reduction with a
      ``comparator`` have the derivatives of :func:`max_pool`. With ``implementation=``
      "reduce_window", "separable", "blocks" or "tiled", a combine other than ``jnp.add`` and
      ``lax.add`` has the derivatives that JAX defines for such a window, if any.
    Edge cases: a window without elements gives ``finish`` of the identity and a count of 0. NaN and
      infinities propagate as ``combine`` propagates them.
    Raises:
      TypeError: ``reduction`` is not a Reduction or does not accept the dtype, its ``prepare``
        changes the shape, or its ``combine`` changes shape, dtype or structure.
      ValueError: ``combine`` is declared not to be associative or commutative, or it fails a test
        of these laws or does not ignore the identity (the message has a counterexample); or the
        identity is not a scalar for each array that is combined.
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
    accum_dtype = _accumulator_dtype(reduction, x.dtype)
    check_laws(reduction, accum_dtype)
    dtype = x.dtype
    if accum_dtype != np.bool_:
        reduction = _with_lax_add(reduction)
    has_finish = reduction.finish is not None
    count = count_array(config.geometry(x.shape), valid, x.ndim) if has_finish else None
    return _cast_results(
        _reduce(x.astype(accum_dtype), valid, count, reduction, config), reduction, dtype
    )


@cached_per_reduction(maxsize=1024)
def _with_lax_add(reduction: Reduction) -> Reduction:
    """Return the reduction with ``jnp.add`` replaced by ``lax.add``.

    Implementations recognise only ``lax.add`` as a sum. The two are equal for numbers.
    """
    return replace(reduction, combine=lax.add) if reduction.combine is jnp.add else reduction


def _reduce(
    x: Array, valid: Array | None, count: Any, reduction: Reduction, config: Configuration
) -> Any:
    if valid is not None:  # or 0 times the derivative of a prepare that is infinite there is NaN
        x = jnp.where(valid, x, lax.stop_gradient(x))
    elements = prepared(reduction, x)
    plan = _plan_for(elements, reduction, config)
    if reduction.comparator is not None:
        combined = rules.extreme(elements, valid, plan)
    elif reduction.combine is lax.add:
        # The derivative of a finish has an unknown cost, and each tap would recompute it.
        stored = reduction.finish is not None
        combined = rules.window_sum(mask_with_identity(elements, valid, reduction), plan, stored)
    else:
        combined = _combine_windows(elements, valid, plan, config, x.dtype)
    if reduction.finish is None:
        return combined
    floats = _dtypes(combined, jnp.floating)
    with explaining_tracer_errors(f"the finish of reduction {reduction.name!r}"):
        return reduction.finish(combined, jnp.asarray(count, floats[0] if floats else jnp.int32))


def _combine_windows(
    elements: Any, valid: Array | None, plan: Plan, config: Configuration, accum_dtype: np.dtype
) -> Any:
    """Return ``combine`` over every window, such that JAX can differentiate it.

    If the derivative of ``combine`` at two identities is NaN, elements are combined together with
    a flag that distinguishes them from padding.
    """
    reduction, mask = plan.reduction, valid
    elements = mask_with_identity(elements, valid, reduction)
    if mask is None and is_padded(plan.geometry):
        mask = lax.full_like(jax.tree.leaves(elements)[0], True, bool)
    if (
        mask is None
        or config.implementation != "auto"
        or not has_nan_derivative_at_padding(reduction, accum_dtype)
    ):
        return plan_.reduce(plan, elements)
    pairs = elements, mask
    return plan_.reduce(_plan_for(pairs, _with_presence(reduction), config), pairs)[0]


@cached_per_reduction(maxsize=1024)
def _with_presence(reduction: Reduction) -> Reduction:
    """Return the reduction of pairs: the operand, and whether it contains an element.

    If neither of two operands contains an element, the result is the identity and has no
    derivative, whatever ``combine`` returns.
    """

    def combine(a: Any, b: Any) -> Any:
        is_present = a[1] | b[1]
        return mask_with_identity(reduction.combine(a[0], b[0]), is_present, reduction), is_present

    identity = lambda dtypes: (reduction.identity(dtypes[0]), False)  # noqa: E731
    return replace(reduction, combine=combine, identity=identity, extremum=None)


_SUPPORTED_BY_XLA = (lax.mul, lax.bitwise_and, lax.bitwise_or)


def _plan_for(elements: Any, reduction: Reduction, config: Configuration) -> Plan:
    """Return the plan; unless an implementation is named, it can be differentiated.

    XLA:GPU aborts the process if the combine of ``lax.reduce_window`` has a loop, as ``jnp.gcd``
    has, and XLA:TPU rejects it. So only combines that both support are passed to
    ``lax.reduce_window``; others use "doubling".
    """
    if config.implementation == "auto" and not has_rule(reduction):
        if _dtypes(elements, jnp.inexact) or reduction.combine not in _SUPPORTED_BY_XLA:
            config = replace(config, implementation="doubling")
    first = jax.tree.leaves(elements)[0]
    return config.plan(first.shape, first.dtype, reduction)


# --- dtypes --------------------------------------------------------------------------------------


def _dtypes(arrays: Any, kind: Any) -> list[np.dtype]:
    """Return the dtypes of the arrays of a pytree that are subtypes of ``kind``."""
    return [a.dtype for a in jax.tree.leaves(arrays) if jnp.issubdtype(a.dtype, kind)]


def _cast_results(results: Any, reduction: Reduction, dtype: np.dtype) -> Any:
    """Return the results in their final dtypes, or raise.

    If the reduction states result dtypes, they are used. Otherwise a single array gets ``dtype``,
    the dtype of ``x``, and the arrays of a pytree keep theirs.
    """
    if reduction.result is None and not treedef_is_leaf(jax.tree.structure(results)):
        return results
    result_dtypes = reduction.result(dtype) if reduction.result else dtype
    try:
        dtypes = jax.tree.broadcast(result_dtypes, results)
    except ValueError:
        raise ValueError(
            message(
                f"the result of reduction {reduction.name!r} has a different structure.",
                f"Its dtypes are {shown(result_dtypes)}, for {described(results)}.",
                "Give one dtype for all results, or a pytree with one for each of them.",
            )
        ) from None
    return jax.tree.map(lambda a, result_dtype: a.astype(result_dtype), results, dtypes)


def _accumulator_dtype(reduction: Reduction, dtype: np.dtype) -> np.dtype:
    """Return the dtype in which elements are combined, or raise if the reduction rejects ``dtype``.

    A selection returns an element, so by default its accumulator has the dtype of ``x``.
    """
    if reduction.accumulator is None:
        return dtype if reduction.comparator is not None else accumulator(dtype)
    accum_dtype = reduction.accumulator(dtype)
    if accum_dtype is None:
        raise TypeError(
            message(
                f"reduction {reduction.name!r} does not accept {dtype.name}.",
                "Its result would not be a number of that dtype.",
                "Convert the array first, for example x.astype(jnp.float32).",
            )
        )
    return np.dtype(accum_dtype)


def _canonical(reduction: Any) -> dict[str, Reduction]:
    if not isinstance(reduction, Reduction):
        raise TypeError(
            message(
                f"$reduction = {shown(reduction)} is not a Reduction.",
                "A Reduction is a value with a combine and its identity, not a function or a name.",
                "Give for example jaxpool.reductions.MAX, or "
                'jaxpool.Reduction("largest", jnp.maximum, -jnp.inf).',
            )
        )
    _check_extremum(reduction)
    _check_functions(reduction)
    for law in ("associative", "commutative"):
        if not getattr(reduction, law):
            raise ValueError(
                message(
                    f"reduction {reduction.name!r} is declared not {law}.",
                    "A window is cut into parts that are combined in any order.",
                    "Use another combine, or reduce the taps of jaxpool.windows in their order.",
                )
            )
    return {"reduction": reduction}


def _check_extremum(reduction: Reduction) -> None:
    if reduction.extremum not in (None, "max", "min"):
        raise ValueError(
            message(
                f"reduction {reduction.name!r} has extremum={shown(reduction.extremum)}.",
                "It says whether a selection prefers the largest or the smallest element.",
                'Give "max", "min" or None.',
            )
        )


def _check_functions(reduction: Reduction) -> None:
    arrays = "of arrays, built from JAX operations"
    dtypes = "from the dtype of an array to another, such as lambda dtype: np.float32"
    expected = dict.fromkeys(("combine", "comparator", "prepare", "finish"), arrays)
    for name, kind in {**expected, "accumulator": dtypes, "result": dtypes}.items():
        function = getattr(reduction, name)
        if not callable(function) and (function is not None or name == "combine"):
            raise TypeError(
                message(
                    f"the {name} of reduction {reduction.name!r} cannot be called.",
                    f"It is {shown(function)}, of type {type(function).__name__}.",
                    f"Give a function {kind}.",
                )
            )
        arguments = _ARGUMENTS.get(name, ("a dtype",))
        if function is not None and not _accepts(function, len(arguments)):
            raise TypeError(
                message(
                    f"the {name} of reduction {reduction.name!r} cannot be called with "
                    f"{counted(len(arguments), 'argument')}.",
                    f"It is {shown(function)}; it is called with {' and '.join(arguments)}.",
                    f"Give a function of {counted(len(arguments), 'argument')}.",
                )
            )


_ARGUMENTS = {
    "combine": ("an operand", "another operand"),
    "comparator": ("an element", "an earlier element"),
    "prepare": ("the elements",),
    "finish": ("the combined values", "the number of elements of each window"),
}
"""The arguments of each function of a reduction; the others have one, a dtype."""


def _accepts(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function accepts ``count`` arguments, if its signature is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


_POOL = Op("pool", _pool, _canonical, has_reduction=True)
