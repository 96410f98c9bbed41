"""Reductions as values with laws.

A reduction is what a window does with its cells: an identity per dtype and an associative,
commutative ``combine``, between ``prepare``, which turns cells into what is combined, and
``finish``, which turns the whole into the result. Lowerings ask for its laws (``idempotent``),
never for its name.

A *selection* is a reduction that returns one of its operands, such as max. It has ``beats(b, a)``:
whether ``b`` is strictly preferred to an ``a`` that comes earlier in the window. ``beats`` must be
the strict part of a total preorder; then the winner of a window is the first of its best cells, and
it is the same cell however the window is cut into parts. (``MAX_LAST_NAN`` orders cells by value
and place, which does as well.)
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

DType = np.dtype


@dataclass(frozen=True, eq=False)
class Reduction:
    """What a window does with its cells: a value, to be made once and given to :func:`pool`.

    ``finish(combine of prepare(x[q]) over the cells q of the window, count)``. Making one states
    that ``combine`` is associative and commutative and that it ignores ``identity``:
    a window is cut into parts that are combined in any order, and padding is the identity.
    :func:`pool` tries these laws on a few numbers of both signs, as ``prepare`` leaves them, of
    each dtype it meets.

    Attributes:
      name: how the reduction is called in messages and plans.
      combine: function of two arrays of one shape and dtype, which it keeps.
      identity: the value that ``combine`` ignores, or a function from a dtype to that value.
      idempotent: ``combine(a, a) == a``, so that overlapping parts of a window may be combined.
      beats: for a selection, whether its first argument is strictly preferred; else None.
      wins: the end of the order of numbers that a selection prefers, NaN above all; else None.
      prepare: elementwise function of the cells, in the accumulator; None leaves them.
      finish: elementwise function of the combined values and of the number of real cells of each
        window, an array that broadcasts to them, of their dtype if that is a float, else int32;
        None leaves the values.
      accumulator: from the dtype of ``x`` to the dtype that is prepared and combined; it returns
        None for a dtype that the reduction does not take. Default: float32 for narrow floats,
        else the dtype itself.
      result: from the dtype of ``x`` to that of the result. Default: the same.
      associative: False says that ``combine`` is not; :func:`pool` then refuses.
      commutative: False says that ``combine`` is not; :func:`pool` then refuses.

    Example:
      >>> rms = Reduction(
      ...     "root mean square", jnp.add, 0,
      ...     prepare=jnp.square, finish=lambda total, count: jnp.sqrt(total / count),
      ... )
      >>> jaxpool.pool(jnp.array([[1.0], [7.0], [1.0]]), rms, (2,), 1)[:, 0]
      Array([5., 5.], dtype=float32)
    """

    name: str
    combine: Callable[[Array, Array], Array]
    identity: Any
    _: KW_ONLY
    idempotent: bool = False
    beats: Callable[[Array, Array], Array] | None = None
    wins: Literal["largest", "smallest"] | None = None
    prepare: Callable[[Array], Array] | None = None
    finish: Callable[[Array, Array], Array] | None = None
    accumulator: Callable[[DType], Any] | None = None
    result: Callable[[DType], Any] | None = None
    associative: bool = True
    commutative: bool = True

    def __post_init__(self) -> None:
        if not callable(self.identity):
            value = self.identity
            object.__setattr__(self, "identity", lambda dtype: value)


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


def _greater(b: Array, a: Array) -> Array:
    """``b`` over an earlier ``a``: NaN beats every number, and the first NaN wins."""
    return (a == a) & ~(b <= a) if _is_float(b.dtype) else b > a


def _greater_or_nan(b: Array, a: Array) -> Array:
    return (b != b) | (b > a) if _is_float(b.dtype) else b > a


def _less(b: Array, a: Array) -> Array:
    return (a == a) & ~(b >= a) if _is_float(b.dtype) else b < a


MAX = Reduction("max", lax.max, _lowest, idempotent=True, beats=_greater, wins="largest")
MAX_LAST_NAN = replace(MAX, beats=_greater_or_nan)
"""The same values; among the NaN of a window the last one wins, as in PyTorch."""

MaxRule = Literal["first_nan", "last_nan", "from_lowest", "from_first_cell"]
"""What a maximum starts from and what it makes of NaN, see :mod:`jaxpool.ops.max`."""

MIN = Reduction("min", lax.min, _highest, idempotent=True, beats=_less, wins="smallest")


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


@jax.custom_jvp
def absolute(x: Array) -> Array:
    """Return ``|x|``, with derivative 0 at 0 and at NaN, where ``jnp.abs`` has 1 and NaN."""
    return x if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else lax.abs(x)


@absolute.defjvp
def _absolute_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    one, zero = np.ones((), x.dtype), np.zeros((), x.dtype)
    return absolute(x), t * jnp.where(x > 0, one, jnp.where(x < 0, -one, zero))


def identity_array(reduction: Reduction, dtype: DType) -> np.ndarray:
    """The identity as a NumPy scalar array, concrete also while JAX is tracing."""
    return np.asarray(reduction.identity(dtype), dtype)


def filled(x: Array, valid: Array | None, reduction: Reduction) -> Array:
    """Return ``x`` with the identity in the cells that are not ``valid``."""
    if valid is None:
        return x
    return lax.select(valid, x, lax.full_like(x, identity_array(reduction, np.dtype(x.dtype))))
