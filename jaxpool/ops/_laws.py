"""The laws of a reduction, tested before its first use.

Each implementation combines the parts of a window in a different order, so ``combine`` must be
associative and commutative. This is tested on a few numbers when a reduction is first used with a
dtype. The test is no proof, but it detects a subtraction or an average of averages.

The operands of ``combine`` are arrays, or the pytrees of arrays that ``prepare`` returns. Two
pytrees are equal if all their arrays are equal.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.tree_util import treedef_is_leaf

from .._errors import message, shown
from .._lowerings.result_cache import cached_per_reduction
from .._numerics.checks import explaining_tracer_errors
from ..reductions import Reduction, identity_like


def prepared(reduction: Reduction, x: Array) -> Any:
    """Return the operand of ``combine``: the elements, or ``prepare`` of them, or raise."""
    if reduction.prepare is None:
        return x
    with explaining_tracer_errors(f"the prepare of reduction {reduction.name!r}"):
        result = jax.tree.map(jnp.asarray, reduction.prepare(x))
    shapes = {a.shape for a in jax.tree.leaves(result)}
    if shapes != {x.shape}:
        raise TypeError(
            message(
                f"the prepare of reduction {reduction.name!r} does not keep the shape.",
                f"For {described(x)} it returns {described(result)}.",
                "Give an elementwise prepare that returns one array or a pytree of arrays of that "
                "shape; jnp.ones_like(x) gives 1 for each element.",
            )
        )
    return result


class Trial(NamedTuple):
    """The fault if a law fails, both sides of the law as text and as arrays, and its operands."""

    fault: str
    left: str
    right: str
    sides: Any
    operands: Any


@cached_per_reduction(maxsize=1024)
def check_laws(reduction: Reduction, accum_dtype: np.dtype) -> None:
    """Raise unless the laws hold for a few numbers of the accumulator's dtype.

    A function may be undefined at some of these numbers, as a logarithm is at negative ones. The
    laws cannot be tested if a function contains a traced value, such as a learned parameter.
    """
    with _trying_numbers():
        elements = prepared(reduction, jnp.asarray(_test_numbers(accum_dtype)))
        _check_selection(reduction, elements)
        _check_combine(reduction, elements)
        _check_identity(reduction, elements)
        if _are_traced(elements):
            return
        trials = list(_trials(reduction, elements))
    if _are_traced(trials):
        return
    for trial in trials:
        left, right, *operands = jax.tree.map(np.asarray, (*trial.sides, *trial.operands))
        broken = np.argwhere(~_is_close(left, right, operands))
        if len(broken):
            numbers = dict(zip("abc", (_numbers_at(a, broken[0]) for a in operands), strict=False))
            values = _numbers_at(left, broken[0]), _numbers_at(right, broken[0])
            raise ValueError(_counterexample(reduction, accum_dtype, trial, values, numbers))


@cached_per_reduction(maxsize=1024)
def has_nan_derivative_at_padding(reduction: Reduction, accum_dtype: np.dtype) -> bool:
    """Return whether the first or second derivative of ``combine`` at two identities is NaN.

    An example is ``jnp.logaddexp`` at -inf and -inf. The tangents of padding are 0, but 0 times NaN
    is NaN. Return True if the derivative is traced.
    """

    def derivative(a: Any, b: Any) -> Any:
        zero_tangents = jax.tree.map(_zero_tangent, (a, b))
        return _float_leaves(jax.jvp(reduction.combine, (a, b), zero_tangents)[1])

    with _trying_numbers():
        elements = prepared(reduction, jnp.asarray(_test_numbers(accum_dtype)))
        identity = jax.tree.map(jnp.asarray, identity_like(reduction, elements))
        pair = identity, identity
        try:
            second_derivatives = jax.jvp(derivative, pair, jax.tree.map(_zero_tangent, pair))
        except Exception:  # no forward-mode derivative; the caller sees the error when it is needed
            return False
    floats = _float_leaves(second_derivatives)
    return _are_traced(floats) or any(bool(np.isnan(np.asarray(a)).any()) for a in floats)


def _are_traced(arrays: Any) -> bool:
    return any(isinstance(a, Tracer) for a in jax.tree.leaves(arrays))


def _zero_tangent(a: Array) -> Any:
    is_float = jnp.issubdtype(a.dtype, jnp.inexact)
    return jnp.zeros_like(a) if is_float else np.zeros(a.shape, jax.dtypes.float0)


def _float_leaves(arrays: Any) -> list[Any]:
    return [a for a in jax.tree.leaves(arrays) if jnp.issubdtype(a.dtype, jnp.inexact)]


@contextlib.contextmanager
def _trying_numbers() -> Iterator[None]:
    """Compute at once, exempt from the checks that the caller has asked JAX for."""
    with (
        jax.ensure_compile_time_eval(),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.transfer_guard("allow"),
    ):
        yield


def _test_numbers(dtype: np.dtype) -> np.ndarray:
    """Return a few numbers; in signed dtypes they include a number and its negative."""
    if dtype == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array([-2, -0.5, 0, 0.25, 0.5, 1, 3], dtype)
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return np.array([0, 1, 2, 3, 5, 7], dtype)
    return np.array([-3, -1, 0, 1, 2, 5], dtype)


def _trials(reduction: Reduction, elements: Any) -> Iterator[Trial]:
    """Yield both sides of each law for all choices of numbers; one program computes them."""
    combine = reduction.combine
    shape = (jax.tree.leaves(elements)[0].size,) * 3

    def sides(a: Any, b: Any, c: Any, e: Any) -> list[tuple[Any, Any]]:
        return [
            (combine(a, b), combine(b, a)),
            (combine(combine(a, b), c), combine(a, combine(b, c))),
            (combine(a, e), a),
            (combine(a, a), a),
        ]

    def operand_on_axis(axis: int) -> Any:
        ones = (1,) * (2 - axis)
        return jax.tree.map(lambda x: np.broadcast_to(x.reshape(-1, *ones), shape), numbers)

    # NumPy broadcasts, because each array operation outside of ``jit`` compiles its own program.
    numbers = jax.tree.map(np.asarray, elements)
    a, b, c = map(operand_on_axis, range(3))
    identity = identity_like(reduction, elements)
    results = jax.jit(sides)(a, b, c, jax.tree.map(lambda v: np.full(shape, v), identity))
    laws = [
        ("is not commutative", "combine(a, b)", "combine(b, a)", (a, b)),
        ("is not associative", "combine(combine(a, b), c)", "combine(a, combine(b, c))", (a, b, c)),
        ("does not ignore its identity", "combine(a, identity)", "a", (a,)),
        ("is not idempotent", "combine(a, a)", "a", (a,)),
    ]
    declared = laws if reduction.idempotent else laws[:-1]
    for (fault, left, right, operands), pair in zip(declared, results, strict=False):
        yield Trial(fault, left, right, pair, operands)


def _is_close(left: Any, right: Any, operands: list[Any]) -> np.ndarray:
    """Return where both sides of a law agree; floats, up to the rounding of a few operations."""
    magnitude = np.max([_magnitude(a) for a in jax.tree.leaves((left, right, operands))], axis=0)
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return np.all([_arrays_close(a, b, magnitude) for a, b in pairs], axis=0)


def _magnitude(a: np.ndarray) -> np.ndarray:
    """Return the magnitude of the numbers that may be rounded: 0 for integers and infinities."""
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return np.zeros(a.shape)
    return np.abs(np.where(np.isfinite(a), a, 0).astype(np.float64))


def _arrays_close(left: np.ndarray, right: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    same = (left == right) | ((left != left) & (right != right))
    if not jnp.issubdtype(left.dtype, jnp.floating):
        return same
    with np.errstate(invalid="ignore"):
        difference = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return same | (difference <= 64 * float(jnp.finfo(left.dtype).eps) * magnitude)


# --- messages -------------------------------------------------------------------------------------


class _Unquoted(str):
    """A string whose ``repr`` has no quotes."""

    __repr__ = str.__str__


def _numbers_at(x: Any, index: np.ndarray) -> Any:
    """Return the numbers at one index of each array, for a message."""
    return jax.tree.map(lambda a: _Unquoted(a[tuple(index)]), x)


def described(x: Any) -> str:
    """Return the pytree with each array as dtype and shape, for a message."""
    return str(jax.tree.map(lambda a: _Unquoted(f"{a.dtype.name}{list(a.shape)}"), x))


def _counterexample(
    reduction: Reduction,
    dtype: np.dtype,
    trial: Trial,
    values: tuple[Any, Any],
    operands: dict[str, Any],
) -> str:
    where = ", ".join(f"{letter} = {number}" for letter, number in operands.items())
    return message(
        f"the combine of reduction {reduction.name!r} {trial.fault}.",
        f"In {dtype.name}, with {where}: {trial.left} = {values[0]}, {trial.right} = {values[1]}.",
        "Windows are cut into parts and combined in any order, padding is the identity: "
        "give a combine and an identity for which both are equal.",
    )


# --- signatures -----------------------------------------------------------------------------------


def _check_selection(reduction: Reduction, elements: Any) -> None:
    """Raise if the reduction is a selection, but its operand has several arrays."""
    selects = reduction.comparator is not None or reduction.extremum is not None
    if selects and not treedef_is_leaf(jax.tree.structure(elements)):
        raise TypeError(
            message(
                f"reduction {reduction.name!r} is a selection of several arrays.",
                f"Its prepare returns {described(elements)}; a selection is from one array.",
                "Leave out $comparator and $extremum: combine says what is preferred.",
            )
        )
    if reduction.comparator is not None:
        _check_comparator(reduction.name, reduction.comparator, jax.typeof(elements))


def _check_comparator(name: str, comparator: Callable[..., Array], element: Any) -> None:
    """Raise if the comparator contains a traced value, with which ``lax.reduce`` fails."""
    with explaining_tracer_errors(f"the comparator of reduction {name!r}"):
        traced = jax.make_jaxpr(comparator)(element, element)
    if _are_traced(traced.consts):
        raise TypeError(
            message(
                f"the comparator of reduction {name!r} contains a traced value.",
                "JAX reduces pairs of an element and its offset only by functions without one.",
                "Use the value in $prepare; or leave out $comparator and $extremum: combine says "
                "what is preferred.",
            )
        )


def _check_combine(reduction: Reduction, elements: Any) -> None:
    """Raise unless ``combine`` preserves the structure, shapes and dtypes of its operands."""
    with explaining_tracer_errors(f"the combine of reduction {reduction.name!r}"):
        result = jax.eval_shape(lambda a, b: reduction.combine(a, b), elements, elements)
    if jax.tree.structure(result) != jax.tree.structure(elements):
        fault, advice = "the structure of its operands", "Give a combine that keeps it."
    elif described(result) != described(elements):
        fault = "shape and dtype"
        advice = "Give an elementwise combine, and an $accumulator of a dtype that it keeps."
    else:
        return
    raise TypeError(
        message(
            f"the combine of reduction {reduction.name!r} does not keep {fault}.",
            f"For two operands {described(elements)} it returns {described(result)}.",
            advice,
        )
    )


def _check_identity(reduction: Reduction, elements: Any) -> None:
    """Raise unless the identity has a scalar for each array that fits the array's dtype."""
    dtypes = jax.tree.map(lambda a: a.dtype, elements)
    identity = reduction.identity(dtypes)
    if _are_traced(identity):
        raise TypeError(
            message(
                f"the identity of reduction {reduction.name!r} is traced.",
                f"It is {shown(identity)}; padding has this value, and is known before tracing.",
                "Give a number for each array that is combined.",
            )
        )
    if jax.tree.structure(identity) == jax.tree.structure(dtypes):
        try:
            scalars = jax.tree.leaves(identity_like(reduction, elements))
        except (OverflowError, ValueError, TypeError):
            scalars = [np.zeros(1)]
        if all(scalar.shape == () for scalar in scalars):
            return
    names = jax.tree.map(lambda dtype: _Unquoted(dtype.name), dtypes)
    raise ValueError(
        message(
            f"the identity of reduction {reduction.name!r} does not fit {names}.",
            f"It is {shown(identity)}.",
            "Give a scalar for each array that is combined, or a function from their dtypes to "
            "such scalars, or an $accumulator of a dtype that can represent it.",
        )
    )
