"""Reductions for :func:`jaxpool.pool`, as values with algebraic properties.

``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP, ANY, ALL`` and ``lp(p)`` are ready-made reductions. A
:class:`jaxpool.Reduction` defines your own. The result of a window without an element is the
identity: the lowest or highest value of the dtype, 0, 0, 1, -inf, False, True, 0.

A reduction has an identity for each dtype and an associative, commutative ``combine``. ``prepare``
maps elements to the operands of ``combine``, and ``finish`` maps the combined value to the result.
Implementations depend on the properties of a reduction (``idempotent``), never on its name. The
operands of ``combine`` are arrays or pytrees of arrays, as for ``lax.reduce_window``.

A *selection* is a reduction that returns one of its operands, such as max. Its
``comparator(b, a)`` returns whether ``b`` is strictly preferred to an earlier element ``a`` of the
window. The comparator must be the strict part of a total preorder. The argmax of a window is then
the first of its most preferred elements, independent of how the window is split into parts.
"""

import functools
import numbers
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._errors import message, public, public_constructor, shown

__all__ = ["ALL", "ANY", "LOGSUMEXP", "MAX", "MEAN", "MIN", "PRODUCT", "Reduction", "SUM", "lp"]


def __dir__() -> list[str]:
    return list(__all__)


DType = np.dtype
T = TypeVar("T")


@public_constructor
@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduction of the elements of a window, to be defined once and passed to :func:`pool`.

    The result of a window is ``finish(c, count)``, where ``c`` is the ``combine`` of
    ``prepare(x[q])`` over all elements ``q`` of the window. The definition asserts that ``combine``
    is associative and commutative and ignores ``identity``, because a window is split into parts
    that are combined in any order, and padding has the value of the identity. :func:`pool` tests
    these laws once for each dtype, on a few prepared numbers of both signs, unless a function
    contains a traced value, such as a learned parameter.

    Attributes:
      name: name of the reduction in messages and plans.
      combine: elementwise function of two arrays of equal shape and dtype that returns a third; or
        the same for two pytrees of arrays, as returned by ``prepare``.
      identity: the value that ``combine`` ignores, or a function from a dtype to this value. For
        pytrees, a pytree with a scalar for each array, or a function from a pytree of dtypes to it.
      idempotent: ``combine(a, a) == a``, so that overlapping parts of a window may be combined.
      comparator: for a selection, whether its first argument is strictly preferred; else None. A
        selection combines one array.
      extremum: "max" or "min" for a selection of the largest or smallest number, which prefers NaN
        to all numbers; else None.
      prepare: elementwise function of the elements, an array of any shape and of the accumulator
        dtype, that returns an array or a pytree of arrays of the same shape. None returns the
        elements unchanged. If sizes are symbolic, the elements may include padding.
      finish: elementwise function of the combined values and of the number of elements of each
        window, without padding; it returns an array or a pytree of arrays. The number is an array
        that broadcasts to the values. Its dtype is that of the (first) values if that is a float,
        else int32. None returns the values unchanged.
      accumulator: function from the dtype of ``x`` to the dtype that is prepared and combined, or
        to None for a dtype that the reduction does not accept. Default: float32 for floats of less
        than 32 bits, else the dtype itself.
      result: function from the dtype of ``x`` to the dtype of the result, or to a pytree of dtypes
        for several results. Default: the dtype of ``x``; several results keep their dtypes.
      associative: False if ``combine`` is not associative; :func:`pool` then raises.
      commutative: False if ``combine`` is not commutative; :func:`pool` then raises.

    Example:
      >>> rms = Reduction(
      ...     "root mean square", jnp.add, 0,
      ...     prepare=jnp.square, finish=lambda total, count: jnp.sqrt(total / count),
      ... )
      >>> jaxpool.pool(jnp.array([[1.0], [7.0], [1.0]]), rms, (2,), 1)[:, 0]
      Array([5., 5.], dtype=float32)
      >>> ends = Reduction(
      ...     "least and largest", lambda a, b: (jnp.minimum(a[0], b[0]), jnp.maximum(a[1], b[1])),
      ...     (jnp.inf, -jnp.inf), prepare=lambda x: (x, x),
      ... )
      >>> least, largest = jaxpool.pool(jnp.array([[1.0], [7.0], [2.0]]), ends, (2,), 1)
      >>> (largest - least)[:, 0]
      Array([6., 5.], dtype=float32)
    """

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Any
    _: KW_ONLY
    idempotent: bool = False
    comparator: Callable[[Array, Array], Array] | None = None
    extremum: Literal["max", "min"] | None = None
    prepare: Callable[[Array], Any] | None = None
    finish: Callable[[Any, Array], Any] | None = None
    accumulator: Callable[[DType], Any] | None = None
    result: Callable[[DType], Any] | None = None
    associative: bool = True
    commutative: bool = True
    cached_results: ClassVar[dict[Any, Any]]
    """Cached plans and compiled programs of this reduction, by the function that created them."""

    def __post_init__(self) -> None:
        if not callable(self.identity):
            object.__setattr__(self, "identity", functools.partial(_constant, self.identity))
        vars(self)["cached_results"] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values, which belong to this object."""
        return {**vars(self), "cached_results": {}}


def _constant(value: Any, _: Any) -> Any:
    return value


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def has_infinity(dtype: DType) -> bool:
    """Return whether the dtype has infinity; some float8 formats use its code for a number."""
    return bool(np.isinf(np.asarray(np.inf, dtype)))


def _lowest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return False
    if not _is_float(dtype):
        return jnp.iinfo(dtype).min
    return -np.inf if has_infinity(dtype) else jnp.finfo(dtype).min


def _highest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return True
    if not _is_float(dtype):
        return jnp.iinfo(dtype).max
    return np.inf if has_infinity(dtype) else jnp.finfo(dtype).max


def _is_number_and_not(a: Array, condition: Array) -> Array:
    return lax.bitwise_and(lax.eq(a, a), lax.bitwise_not(condition))


def _greater(b: Array, a: Array) -> Array:
    """Return whether ``b`` is preferred to an earlier ``a``; the first NaN is preferred to all."""
    return _is_number_and_not(a, lax.le(b, a)) if _is_float(b.dtype) else lax.gt(b, a)


def _greater_or_nan(b: Array, a: Array) -> Array:
    """Return whether ``b`` is preferred to an earlier ``a``; the last NaN is preferred to all."""
    return lax.bitwise_or(lax.ne(b, b), lax.gt(b, a)) if _is_float(b.dtype) else lax.gt(b, a)


def _less(b: Array, a: Array) -> Array:
    return _is_number_and_not(a, lax.ge(b, a)) if _is_float(b.dtype) else lax.lt(b, a)


MAX = Reduction("max", lax.max, _lowest, idempotent=True, comparator=_greater, extremum="max")
MAX_LAST_NAN = replace(MAX, comparator=_greater_or_nan)
"""As MAX, but the argmax of a window with NaN is the last NaN, as in PyTorch: elements are ordered
by value and offset."""

MIN = Reduction("min", lax.min, _highest, idempotent=True, comparator=_less, extremum="min")


def byte_dtype(dtype: DType) -> DType:
    """Return int8 or uint8 for an integer dtype of less than a byte, else ``dtype``."""
    if not jnp.issubdtype(dtype, jnp.integer) or jnp.iinfo(dtype).bits >= 8:
        return dtype
    return np.dtype(np.int8 if jnp.iinfo(dtype).min else np.uint8)


def sum_dtype(dtype: DType) -> DType:
    """Return the result dtype of ``jnp.sum``, which promotes booleans and small integers."""
    dtype = byte_dtype(dtype)  # jnp.sum rejects int4
    return np.dtype(jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), dtype)).dtype)


def accumulator(dtype: DType) -> DType:
    """Return float32 for floats of less than 32 bits, else ``dtype``, to accumulate sums in."""
    if _is_float(dtype) and jnp.finfo(dtype).bits < 32:
        return np.dtype(np.float32)
    return dtype


def sum_accumulator(dtype: DType) -> DType:
    """Return the dtype to accumulate ``jnp.sum`` in: the accumulator of :func:`sum_dtype`."""
    return accumulator(sum_dtype(dtype))


SUM = Reduction("sum", lax.add, 0, accumulator=sum_accumulator, result=sum_dtype)


def absolute(x: Array) -> Array:
    """Return ``|x|``, with derivative 0 at 0 and at NaN, where ``lax.abs`` has 1 and -1."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x
    magnitude = lax.abs(x)  # XLA removes a select between equal operands
    return jnp.where(magnitude > 0, magnitude, lax.stop_gradient(magnitude))


def identity_array(reduction: Reduction, dtype: DType) -> np.ndarray:
    """Return the identity as a NumPy scalar array, which is concrete even while JAX is tracing."""
    return np.asarray(reduction.identity(dtype), dtype)


def identity_like(reduction: Reduction, x: Any) -> Any:
    """Return the identity for the operands ``x``: a NumPy scalar array for each array of ``x``."""
    identity = reduction.identity(jax.tree.map(lambda a: a.dtype, x))
    return jax.tree.map(lambda a, value: np.asarray(value, a.dtype), x, identity)


def mask_with_identity(x: T, valid: Array | None, reduction: Reduction) -> T:
    """Return ``x`` with the elements that are not ``valid`` replaced by the identity."""
    if valid is None:
        return x

    def select(a: Array, value: np.ndarray) -> Array:
        in_bytes = a.astype(byte_dtype(a.dtype))  # XLA:CPU (jaxlib 0.12) may read int2 wrongly
        return lax.select(valid, in_bytes, lax.full_like(in_bytes, value)).astype(a.dtype)

    return jax.tree.map(select, x, identity_like(reduction, x))


def _float_accumulator(dtype: np.dtype) -> np.dtype | None:
    """Return the accumulator dtype of a reduction that accepts only floats."""
    return accumulator(dtype) if _is_float(dtype) else None


def _boolean_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(bool)


def _mean(total: Array, count: Array) -> Array:
    empty = count == 0
    return jnp.where(empty, jnp.zeros((), total.dtype), total / jnp.where(empty, 1, count))


def _direct_logaddexp(a: Array, b: Array) -> Array:
    """Return ``log(e^a + e^b)`` as ``high + log(1 + e^(low - high))``, smooth also for ``a == b``.

    Of two operands +inf, only the first has a derivative of 1; -inf has derivative 0.
    """
    high, low = jnp.where(a >= b, a, b), jnp.where(a >= b, b, a)
    same = jnp.isinf(a) & (a == b)
    zero, lowest = np.zeros((), a.dtype), np.asarray(-np.inf, a.dtype)
    difference = jnp.where(same, lowest, low - jnp.where(same, zero, high))
    y = high + lax.log1p(lax.exp(difference))
    return jnp.where(high == lowest, lowest, y)


_custom_jvp_logaddexp = jax.custom_jvp(_direct_logaddexp)
"""As _direct_logaddexp, with a cheaper derivative rule. If JAX loses the rule, the derivative
differs only for two operands of +inf."""


@_custom_jvp_logaddexp.defjvp
def _logaddexp_jvp(primals, tangents):
    """Return ``y`` and ``dy = s(a - b) da + s(b - a) db``, s the sigmoid; 0 if both are -inf."""
    a, b = primals
    y = _direct_logaddexp(a, b)
    difference = jnp.where(jnp.isinf(a) & (a == b), jnp.zeros((), a.dtype), a - b)
    tangent = jax.nn.sigmoid(difference) * tangents[0] + jax.nn.sigmoid(-difference) * tangents[1]
    return y, jnp.where(y == -jnp.inf, jnp.zeros((), a.dtype), tangent)


def _logaddexp(a: Array, b: Array) -> Array:  # picklable, unlike a custom_jvp object
    return _custom_jvp_logaddexp(a, b)


MEAN = Reduction("mean", lax.add, 0, finish=_mean, accumulator=_float_accumulator)
PRODUCT = Reduction("product", lax.mul, 1, accumulator=sum_accumulator, result=sum_dtype)
LOGSUMEXP = Reduction("logsumexp", _logaddexp, -np.inf, accumulator=_float_accumulator)
_OF_BOOLEANS: Any = {"idempotent": True, "accumulator": _boolean_dtype, "result": _boolean_dtype}
ANY = Reduction("any", lax.bitwise_or, False, **_OF_BOOLEANS)
ALL = Reduction("all", lax.bitwise_and, True, **_OF_BOOLEANS)


@public
def lp(p: float) -> Reduction:
    """Return the reduction ``(sum |x|^p)^(1/p)``; for ``p = inf``, ``max |x|``.

    The derivative at a window of zeros is 0. The reduction accepts only floats. ``|x|^p`` must be
    in their range; :func:`jaxpool.lp_pool` needs this only for ``p`` = 2.

    Args:
      p: a positive number. Equal numbers give the same object, so that :func:`jaxpool.pool` is
        compiled once for each.
    Raises:
      TypeError: ``p`` is not a number. ValueError: it is not positive.
    Example:
      >>> jaxpool.pool(jnp.array([[3.0], [-4.0]]), jaxpool.reductions.lp(2), (2,), 1)[:, 0]
      Array([5.], dtype=float32)
    """
    if not isinstance(p, numbers.Real):
        raise TypeError(_not_a_power(p))
    if not p > 0:
        raise ValueError(_not_a_power(p))
    return _lp(float(p))


def _not_a_power(p: Any) -> str:
    return message(
        f"$p = {shown(p)} is not a positive number.",
        "It is the exponent of |x|, a static number.",
        "Give for example 2, or float('inf') for the largest absolute value.",
    )


@functools.lru_cache(maxsize=256)
def _lp(p: float) -> Reduction:
    if p == float("inf"):
        return replace(
            MAX, name="lp(inf)", identity=0, prepare=absolute, accumulator=_float_accumulator
        )
    return Reduction(
        f"lp({p:g})",
        lax.add,
        0,
        prepare=functools.partial(_absolute_power, p=p),
        finish=functools.partial(_power, exponent=1 / p),
        accumulator=_float_accumulator,
    )


def _absolute_power(x: Array, p: float) -> Array:
    """Return ``|x|^p``; for even ``p`` as ``x^p``, since ``|x|`` would lose the curvature at 0."""
    if not p.is_integer():
        return _power(absolute(x), exponent=p)
    return x ** int(p) if p % 2 == 0 else absolute(x) ** int(p)


def _power(x: Array, _: Any = None, *, exponent: float) -> Array:
    """Return ``x^exponent`` for ``x >= 0``; at 0, the value and every derivative are 0."""
    if exponent == 1:
        return x
    zero = x == 0
    power = jnp.where(zero, jnp.ones((), x.dtype), x) ** exponent
    return jnp.where(zero, jnp.zeros((), x.dtype), power)
