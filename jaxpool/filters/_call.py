"""Dispatch of filter calls to compiled functions, one for each static configuration."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from .._errors import message
from .._geometry.arguments import integer
from .._numerics.checks import check_real, is_real
from ..ops._dispatch import Op, call
from ._arguments import LARGEST_ORIGIN, Settings, checked_settings, resolve_neighborhood


class FilterArguments(NamedTuple):
    """The settings of a filter as the caller passed them, unchecked."""

    size: Any
    footprint: Any
    mode: Any
    cval: Any
    origin: Any
    axes: Any


def single_axis(size: Any, mode: Any, cval: Any, origin: Any, axis: Any) -> FilterArguments:
    """Return the settings of a filter along one axis, or raise if ``axis`` is not an integer."""
    integer("axes", axis, -LARGEST_ORIGIN)
    return FilterArguments(size, None, mode, cval, origin, axis)


def filter_op(name: str, body: Callable[..., Array], has_structure: bool = False) -> Op:
    """Return the op of a filter.

    The body is ``body(x, neighborhood, *options)``, and with ``has_structure``
    ``body(x, neighborhood, structure or None)``.
    """

    def traced(x: Array, *structure: Array | None, settings: Settings) -> Array:
        check_real(x)
        shape = _shape_of(*structure) if has_structure else None
        neighborhood = resolve_neighborhood(settings, x.ndim, shape)
        return body(x, neighborhood, *settings.options, *structure)

    return Op(name, traced, _canonicalize, ("structure",) if has_structure else ())


def _shape_of(structure: Array | None) -> tuple[int, ...] | None:
    """Return the shape of the structure, if there is one; raise unless it holds real numbers."""
    if structure is None:
        return None
    check_numbers("structure", structure)
    return structure.shape


def check_numbers(name: str, array: Array) -> None:
    """Raise unless ``array``, the argument ``name``, contains real numbers or booleans."""
    if not is_real(array.dtype) and array.dtype != np.bool_:
        raise TypeError(
            message(
                f"${name} has dtype {array.dtype}.",
                "Filters are defined for real numbers and booleans.",
                "Give an array of real numbers or booleans.",
            )
        )


def _canonicalize(**arguments: Any) -> dict[str, Settings]:
    return {"settings": checked_settings(**arguments)}


def call_filter(
    op: Op, x: Any, arguments: FilterArguments, *options: Any, structure: Any = None
) -> Array:
    """Run a filter on ``x``; only ``options`` are checked."""
    operands = (structure,) if op.arrays else ()
    has_structure = structure is not None if op.arrays else None
    return call(op, x, operands, **arguments._asdict(), options=options, structure=has_structure)
