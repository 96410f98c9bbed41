"""Reductions for :func:`jaxpool.pool`, as values with laws.

``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP, ANY, ALL`` and ``lp(p)`` are values; one of your own is a
:class:`jaxpool.Reduction`. A window without an element gives the identity: the lowest or highest
value of the dtype, 0, 0, 1, -inf, False, True, 0.

A reduction is what a window does with its elements: an identity per dtype and an associative,
commutative ``combine``, between ``prepare``, which turns elements into what is combined, and
``finish``, which turns the whole into the result. Implementations ask for its laws
(``idempotent``), never for its name. What is combined is one array or a pytree of several, as by
``lax.reduce_window``.

A *selection* is a reduction that returns one of its operands, such as max. It has a
``comparator(b, a)``: whether ``b`` is strictly preferred to an ``a`` that comes earlier in the
window. It must be the strict part of a total preorder; then the argmax of a window is the first of
its most preferred elements, the same one however the window is cut into parts.
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

from ._errors import message, public, public_constructor

__all__ = ["ALL", "ANY", "LOGSUMEXP", "MAX", "MEAN", "MIN", "PRODUCT", "Reduction", "SUM", "lp"]


def __dir__() -> list[str]:
    return list(__all__)


DType = np.dtype
T = TypeVar("T")


@public_constructor
@dataclass(frozen=True, eq=False)
class Reduction:
    """What a window does with its elements: a value, to be made once and given to :func:`pool`.

    ``finish(combine of prepare(x[q]) over the elements q of the window, count)``. Making one states
    that ``combine`` is associative and commutative and that it ignores ``identity``:
    a window is cut into parts that are combined in any order, and padding is the identity.
    :func:`pool` tries these laws on a few numbers of both signs, as ``prepare`` leaves them, of
    each dtype it meets.

    Attributes:
      name: how the reduction is called in messages and plans.
      combine: elementwise function of two arrays of one shape and dtype, which it keeps; or of two
        pytrees of such arrays, as ``prepare`` makes them, to a third.
      identity: the value that ``combine`` ignores, or a function from a dtype to that value. Of
        pytrees, one with a scalar for each array, or a function from one of dtypes to that.
      idempotent: ``combine(a, a) == a``, so that overlapping parts of a window may be combined.
      comparator: for a selection, whether its first argument is strictly preferred; else None. A
        selection combines one array.
      extremum: the end of the order of numbers that a selection prefers, NaN above all; else None.
      prepare: elementwise function of the elements, in the accumulator, to an array or a pytree of
        arrays of their shape, whatever that is; None leaves them. Where sizes are symbolic, the
        array that it is given may have padding around it.
      finish: elementwise function of the combined values and of the number of elements of each
        window without padding, an array that broadcasts to them, of their dtype if that is a float
        (of several, the first), else int32; to an array or a pytree of arrays. None leaves the
        values.
      accumulator: from the dtype of ``x`` to the dtype that is prepared and combined; it returns
        None for a dtype that the reduction does not take. Default: float32 for narrow floats,
        else the dtype itself.
      result: from the dtype of ``x`` to that of the result, or to a pytree with those of several
        results. Default: the same; several results keep theirs.
      associative: False says that ``combine`` is not; :func:`pool` then refuses.
      commutative: False says that ``combine`` is not; :func:`pool` then refuses.

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
    kept: ClassVar[dict[Any, Any]]
    """What was made for it, by what made it: plans and compiled programs."""

    def __post_init__(self) -> None:
        if not callable(self.identity):
            object.__setattr__(self, "identity", functools.partial(_constant, self.identity))
        vars(self)["kept"] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept for it: that belongs to this value."""
        return {**vars(self), "kept": {}}


def _constant(value: Any, _: Any) -> Any:
    return value


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _has_infinity(dtype: DType) -> bool:
    """False for the float8 formats that spend the code of infinity on a number."""
    return bool(np.isinf(np.asarray(np.inf, dtype)))


def _lowest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return False
    if not _is_float(dtype):
        return jnp.iinfo(dtype).min
    return -np.inf if _has_infinity(dtype) else jnp.finfo(dtype).min


def _highest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return True
    if not _is_float(dtype):
        return jnp.iinfo(dtype).max
    return np.inf if _has_infinity(dtype) else jnp.finfo(dtype).max


def _not_nan_and_not(a: Array, other: Array) -> Array:
    return lax.bitwise_and(lax.eq(a, a), lax.bitwise_not(other))


def _greater(b: Array, a: Array) -> Array:
    """``b`` over an earlier ``a``: NaN over every number, and the first NaN over later ones."""
    return _not_nan_and_not(a, lax.le(b, a)) if _is_float(b.dtype) else lax.gt(b, a)


def _greater_or_nan(b: Array, a: Array) -> Array:
    """``b`` over an earlier ``a``: NaN over every element, NaN too."""
    return lax.bitwise_or(lax.ne(b, b), lax.gt(b, a)) if _is_float(b.dtype) else lax.gt(b, a)


def _less(b: Array, a: Array) -> Array:
    return _not_nan_and_not(a, lax.ge(b, a)) if _is_float(b.dtype) else lax.lt(b, a)


MAX = Reduction("max", lax.max, _lowest, idempotent=True, comparator=_greater, extremum="max")
MAX_LAST_NAN = replace(MAX, comparator=_greater_or_nan)
"""The same values; the argmax of a window with NaN is the last NaN, as in PyTorch: elements are
ordered by value and offset."""

MIN = Reduction("min", lax.min, _highest, idempotent=True, comparator=_less, extremum="min")


def sum_dtype(dtype: DType) -> DType:
    """The dtype of ``jnp.sum``: floats keep theirs, small integers and booleans become wider."""
    if jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 8:
        dtype = np.dtype(np.int8 if jnp.iinfo(dtype).min else np.uint8)  # jnp.sum takes no int4
    return np.dtype(jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), dtype)).dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype that sums of ``dtype`` run in: float32 for narrow floats, else the dtype itself."""
    if _is_float(dtype) and jnp.finfo(dtype).bits < 32:
        return np.dtype(np.float32)
    return dtype


def sum_accumulator(dtype: DType) -> DType:
    """The dtype that sums of ``dtype`` run in, as :func:`sum_dtype` but wide for narrow floats."""
    return accumulator(sum_dtype(dtype))


SUM = Reduction("sum", lax.add, 0, accumulator=sum_accumulator, result=sum_dtype)


def absolute(x: Array) -> Array:
    """Return ``|x|``, with derivative 0 at 0 and at NaN, where ``lax.abs`` has 1 and -1."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x
    magnitude = lax.abs(x)  # XLA drops a choice between two things that are one
    return jnp.where(magnitude > 0, magnitude, lax.stop_gradient(magnitude))


def identity_array(reduction: Reduction, dtype: DType) -> np.ndarray:
    """The identity as a NumPy scalar array, concrete also while JAX is tracing."""
    return np.asarray(reduction.identity(dtype), dtype)


def identity_like(reduction: Reduction, x: Any) -> Any:
    """The identity of what is combined: a NumPy scalar array for each array of ``x``."""
    dtypes = jax.tree.map(lambda a: np.dtype(a.dtype), x)
    return jax.tree.map(
        lambda dtype, value: np.asarray(value, dtype), dtypes, reduction.identity(dtypes)
    )


def filled(x: T, valid: Array | None, reduction: Reduction) -> T:
    """Return ``x`` with the identity in the elements that are not ``valid``."""
    if valid is None:
        return x
    return jax.tree.map(
        lambda a, value: lax.select(valid, a, lax.full_like(a, value)),
        x,
        identity_like(reduction, x),
    )


def _floats(dtype: np.dtype) -> np.dtype | None:
    """The accumulator of a reduction that takes floats alone."""
    return accumulator(dtype) if _is_float(dtype) else None


def _boolean(dtype: np.dtype) -> np.dtype:
    return np.dtype(bool)


def _mean(total: Array, count: Array) -> Array:
    empty = count == 0
    return jnp.where(empty, jnp.zeros((), total.dtype), total / jnp.where(empty, 1, count))


def _plain_logaddexp(a: Array, b: Array) -> Array:
    """``log(e^a + e^b) = high + log(1 + e^(low - high))``: smooth, also where ``a`` equals ``b``.

    Of two equal infinities the first has the derivative; -inf has none.
    """
    high, low = jnp.where(a >= b, a, b), jnp.where(a >= b, b, a)
    same = jnp.isinf(a) & (a == b)
    zero, lowest = np.zeros((), a.dtype), np.asarray(-np.inf, a.dtype)
    difference = jnp.where(same, lowest, low - jnp.where(same, zero, high))
    y = high + lax.log1p(lax.exp(difference))
    return jnp.where(high == lowest, lowest, y)


_ruled_logaddexp = jax.custom_jvp(_plain_logaddexp)
"""With a cheaper derivative than JAX finds: should it lose the rule, it finds the same."""


@_ruled_logaddexp.defjvp
def _logaddexp_jvp(primals, tangents):
    """``dy = s(a - b) da + s(b - a) db``, s the logistic function; 0 where both are -inf."""
    a, b = primals
    y = _plain_logaddexp(a, b)
    difference = jnp.where(jnp.isinf(a) & (a == b), jnp.zeros((), a.dtype), a - b)
    tangent = jax.nn.sigmoid(difference) * tangents[0] + jax.nn.sigmoid(-difference) * tangents[1]
    return y, jnp.where(y == -jnp.inf, jnp.zeros((), a.dtype), tangent)


def _logaddexp(a: Array, b: Array) -> Array:  # can be pickled, unlike what it calls
    return _ruled_logaddexp(a, b)


MEAN = Reduction("mean", lax.add, 0, finish=_mean, accumulator=_floats)
PRODUCT = Reduction("product", lax.mul, 1, accumulator=sum_accumulator, result=sum_dtype)
LOGSUMEXP = Reduction("logsumexp", _logaddexp, -np.inf, accumulator=_floats)
ANY = Reduction(
    "any", lax.bitwise_or, False, idempotent=True, accumulator=_boolean, result=_boolean
)
ALL = Reduction(
    "all", lax.bitwise_and, True, idempotent=True, accumulator=_boolean, result=_boolean
)


@public
def lp(p: float) -> Reduction:
    """The reduction ``(sum |x|^p)^(1/p)``; for ``p = inf``, ``max |x|``.

    The derivative at a window of zeros is 0. Floats only; ``|x|^p`` must be in their range, which
    :func:`jaxpool.lp_pool` does not ask for.

    Args:
      p: a positive number. Equal numbers give the same value, so that :func:`jaxpool.pool` is
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
        f"$p = {p!r} is not a positive number.",
        "It is a static number, the power of |x|.",
        "Give for example 2, or float('inf') for the largest absolute value.",
    )


@functools.lru_cache(maxsize=256)
def _lp(p: float) -> Reduction:
    if p == float("inf"):
        return replace(MAX, name="lp(inf)", identity=0, prepare=absolute, accumulator=_floats)
    return Reduction(
        f"lp({p:g})",
        lax.add,
        0,
        prepare=functools.partial(_absolute_power, p=p),
        finish=functools.partial(_power, exponent=1 / p),
        accumulator=_floats,
    )


def _absolute_power(x: Array, p: float) -> Array:
    """``|x|^p``; for even ``p`` without ``|x|``, whose corner would lose the curvature at 0."""
    if not p.is_integer():
        return _power(absolute(x), exponent=p)
    return x ** int(p) if p % 2 == 0 else absolute(x) ** int(p)


def _power(x: Array, _: Any = None, *, exponent: float) -> Array:
    """``x^exponent`` of ``x >= 0``; at 0 it is 0, and so is every derivative."""
    if exponent == 1:
        return x
    zero = x == 0
    power = jnp.where(zero, jnp.ones((), x.dtype), x) ** exponent
    return jnp.where(zero, jnp.zeros((), x.dtype), power)
