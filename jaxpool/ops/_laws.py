"""The laws of a reduction, tried before it is used.

Implementations combine the parts of a window in an order of their own. That ``combine`` allows it
is tried on a few numbers when a reduction first meets a dtype: enough to find a subtraction or an
average of averages, no proof.

What is combined is an array, which is a pytree of one leaf, or the pytree of arrays that
``prepare`` makes. Two of them are equal if all their arrays are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import treedef_is_leaf

from .._errors import message, shown
from .._lowerings.remembered import remembered
from .._numerics.checks import function_of_the_user
from ..reductions import Reduction, identity_like


def prepared(reduction: Reduction, x: Array) -> Any:
    """Return what is combined: the elements, or the pytree of arrays that ``prepare`` makes."""
    if reduction.prepare is None:
        return x
    with function_of_the_user(f"the prepare of reduction {reduction.name!r}"):
        made = jax.tree.map(jnp.asarray, reduction.prepare(x))
    shapes = {a.shape for a in jax.tree.leaves(made)}
    if shapes != {x.shape}:
        raise TypeError(
            message(
                f"the prepare of reduction {reduction.name!r} does not keep the shape.",
                f"Of {described(x)} it makes {described(made)}.",
                "Give an elementwise prepare, of one array or a pytree of arrays of that shape; "
                "jnp.ones_like(x) is a one for each element.",
            )
        )
    return made


class Trial(NamedTuple):
    """Two sides of a law, as text and as numbers, and the operands they were made of."""

    fault: str
    left: str
    right: str
    sides: Any
    operands: Any


@remembered(maxsize=1024)
def check_laws(reduction: Reduction, wide: np.dtype) -> None:
    """Raise unless the laws hold for a few numbers of the accumulator's dtype."""
    with jax.ensure_compile_time_eval():
        elements = prepared(reduction, jnp.asarray(_numbers(wide)))
        _check_selection(reduction, elements)
        _check_combine(reduction, elements)
        _check_identity(reduction, elements)
        trials = list(_trials(reduction, elements))
    for trial in trials:
        left, right, *operands = jax.tree.map(np.asarray, (*trial.sides, *trial.operands))
        broken = np.argwhere(~_close(left, right, operands))
        if len(broken):
            numbers = dict(zip("abc", (_at(a, broken[0]) for a in operands), strict=False))
            values = _at(left, broken[0]), _at(right, broken[0])
            raise ValueError(_counterexample(reduction, wide, trial, values, numbers))


@remembered(maxsize=1024)
def is_nan_of_padding(reduction: Reduction, wide: np.dtype) -> bool:
    """Whether ``combine`` of two identities has NaN as its first or second derivative.

    So has ``jnp.logaddexp`` of -inf and -inf. Zeros, the tangents of padding, do not undo it.
    """

    def slopes(a: Any, b: Any) -> Any:
        still = jax.tree.map(_no_tangent, (a, b))
        return _floats(jax.jvp(reduction.combine, (a, b), still)[1])

    with jax.ensure_compile_time_eval(), jax.debug_nans(False), jax.debug_infs(False):
        elements = prepared(reduction, jnp.asarray(_numbers(wide)))
        identity = jax.tree.map(jnp.asarray, identity_like(reduction, elements))
        pair = identity, identity
        try:
            found = jax.jvp(slopes, pair, jax.tree.map(_no_tangent, pair))
        except Exception:  # it has no derivative in this mode, and says so where it is asked for
            return False
    return any(bool(np.isnan(np.asarray(a)).any()) for a in _floats(found))


def _no_tangent(a: Array) -> Any:
    is_float = jnp.issubdtype(a.dtype, jnp.inexact)
    return jnp.zeros_like(a) if is_float else np.zeros(a.shape, jax.dtypes.float0)


def _floats(arrays: Any) -> list[Any]:
    return [a for a in jax.tree.leaves(arrays) if jnp.issubdtype(a.dtype, jnp.inexact)]


def _numbers(dtype: np.dtype) -> np.ndarray:
    """Few, of both signs, with a pair of opposites."""
    if dtype == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array([-2, -0.5, 0, 0.25, 0.5, 1, 3], dtype)
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return np.array([0, 1, 2, 3, 5, 7], dtype)
    return np.array([-3, -1, 0, 1, 2, 5], dtype)


def _trials(reduction: Reduction, elements: Any) -> Iterator[Trial]:
    """Every law on every choice of numbers, one program for all."""
    combine = reduction.combine
    shape = (jax.tree.leaves(elements)[0].size,) * 3

    def sides(a: Any, b: Any, c: Any, e: Any) -> list[tuple[Any, Any]]:
        return [
            (combine(a, b), combine(b, a)),
            (combine(combine(a, b), c), combine(a, combine(b, c))),
            (combine(a, e), a),
            (combine(a, a), a),
        ]

    def along(axis: int) -> Any:
        ones = (1,) * (2 - axis)
        return jax.tree.map(lambda x: jnp.broadcast_to(x.reshape(-1, *ones), shape), elements)

    a, b, c = map(along, range(3))
    identity = identity_like(reduction, elements)
    results = jax.jit(sides)(a, b, c, jax.tree.map(lambda v: jnp.full(shape, v), identity))
    laws = [
        ("is not commutative", "combine(a, b)", "combine(b, a)", (a, b)),
        ("is not associative", "combine(combine(a, b), c)", "combine(a, combine(b, c))", (a, b, c)),
        ("does not ignore its identity", "combine(a, identity)", "a", (a,)),
        ("is not idempotent", "combine(a, a)", "a", (a,)),
    ]
    stated = laws if reduction.idempotent else laws[:-1]
    for (fault, left, right, operands), pair in zip(stated, results, strict=False):
        yield Trial(fault, left, right, pair, operands)


def _close(left: Any, right: Any, operands: list[Any]) -> np.ndarray:
    """Where two sides of a law agree, floats to the rounding of a few operations."""
    size = np.max([_size(a) for a in jax.tree.leaves((left, right, operands))], axis=0)
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return np.all([_close_arrays(a, b, size) for a, b in pairs], axis=0)


def _size(a: np.ndarray) -> np.ndarray:
    """The size of what may be rounded."""
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return np.zeros(a.shape)
    return np.abs(np.where(np.isfinite(a), a, 0).astype(np.float64))


def _close_arrays(left: np.ndarray, right: np.ndarray, size: np.ndarray) -> np.ndarray:
    same = (left == right) | ((left != left) & (right != right))
    if not jnp.issubdtype(left.dtype, jnp.floating):
        return same
    with np.errstate(invalid="ignore"):
        difference = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return same | (difference <= 64 * float(jnp.finfo(left.dtype).eps) * size)


# --- messages -------------------------------------------------------------------------------------


class _Bare(str):
    """Text that a tuple shows without quotes."""

    __repr__ = str.__str__


def _at(x: Any, place: np.ndarray) -> Any:
    """The numbers of one choice, to be shown."""
    return jax.tree.map(lambda a: _Bare(a[tuple(place)]), x)


def described(x: Any) -> str:
    """What is combined, with dtype and shape of every array."""
    return str(jax.tree.map(lambda a: _Bare(f"{a.dtype.name}{list(a.shape)}"), x))


def _counterexample(
    reduction: Reduction,
    wide: np.dtype,
    trial: Trial,
    values: tuple[Any, Any],
    numbers: dict[str, Any],
) -> str:
    where = ", ".join(f"{letter} = {number}" for letter, number in numbers.items())
    return message(
        f"the combine of reduction {reduction.name!r} {trial.fault}.",
        f"In {wide.name}, with {where}: {trial.left} = {values[0]}, {trial.right} = {values[1]}.",
        "Windows are cut into parts and combined in any order, padding is the identity: "
        "give a combine and an identity for which both are equal.",
    )


# --- signatures -----------------------------------------------------------------------------------


def _check_selection(reduction: Reduction, elements: Any) -> None:
    """Raise if a selection is one of several arrays."""
    selects = reduction.comparator is not None or reduction.extremum is not None
    if selects and not treedef_is_leaf(jax.tree.structure(elements)):
        raise TypeError(
            message(
                f"reduction {reduction.name!r} is a selection of several arrays.",
                f"Its prepare makes {described(elements)}; a selection returns elements of one.",
                "Leave out $comparator and $extremum: combine says what is preferred.",
            )
        )


def _check_combine(reduction: Reduction, elements: Any) -> None:
    """Raise unless ``combine`` returns what it takes."""
    with function_of_the_user(f"the combine of reduction {reduction.name!r}"):
        made = jax.eval_shape(lambda a, b: reduction.combine(a, b), elements, elements)
    if jax.tree.structure(made) != jax.tree.structure(elements):
        fault, advice = "the structure of its operands", "Give a combine that returns a third."
    elif described(made) != described(elements):
        fault = "shape and dtype"
        advice = "Give an elementwise combine, and an $accumulator of a dtype that it keeps."
    else:
        return
    raise TypeError(
        message(
            f"the combine of reduction {reduction.name!r} does not keep {fault}.",
            f"Of two operands {described(elements)} it makes {described(made)}.",
            advice,
        )
    )


def _check_identity(reduction: Reduction, elements: Any) -> None:
    """Raise unless the identity is a scalar of the dtype of each array."""
    dtypes = jax.tree.map(lambda a: a.dtype, elements)
    given = reduction.identity(dtypes)
    if jax.tree.structure(given) == jax.tree.structure(dtypes):
        try:
            scalars = jax.tree.leaves(identity_like(reduction, elements))
        except (OverflowError, ValueError, TypeError):
            scalars = [np.zeros(1)]
        if all(scalar.shape == () for scalar in scalars):
            return
    names = jax.tree.map(lambda dtype: _Bare(dtype.name), dtypes)
    raise ValueError(
        message(
            f"the identity of reduction {reduction.name!r} is no {names}.",
            f"It is {shown(given)}.",
            "Give a scalar for each array that is combined, or a function from their dtypes to "
            "such scalars, or an $accumulator of a dtype that holds it.",
        )
    )
