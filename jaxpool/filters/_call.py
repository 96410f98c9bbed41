"""Dispatch of filter calls to compiled functions, one for each static configuration."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from .._errors import message
from .._numerics.checks import check_real
from ..ops._dispatch import Op, call
from ._arguments import Neighborhood, Request, request, resolve_neighborhood

Body = Callable[[Array, Neighborhood, tuple[Any, ...], Array | None], Array]
"""``body(x, neighborhood, options of the filter, second array or None)``"""


def filter_op(name: str, body: Body, *arrays: str) -> Op:
    """Return the op of a filter; ``arrays`` names the second array, if the filter has one."""

    def traced(x: Array, second: Array | None = None, *, asked: Request) -> Array:
        check_real(x)
        if second is None:
            return body(x, resolve_neighborhood(asked, x.ndim), asked.options, None)
        _check_second(second, *arrays)
        return body(
            x, resolve_neighborhood(asked, x.ndim, second.shape, *arrays), asked.options, second
        )

    return Op(name, traced, _canonicalize, arrays)


def _check_second(array: Array, name: str) -> None:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(
            message(
                f"${name} has dtype {array.dtype}.",
                "Filters are defined for real numbers and booleans.",
                f"Give the real part of the {name}.",
            )
        )


def _canonicalize(**arguments: Any) -> dict[str, Request]:
    return {"asked": request(**arguments)}


def call_filter(
    op: Op,
    x: Any,
    size: Any,
    footprint: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    *options: Any,
    structure: Any = None,
) -> Array:
    """Run a filter on ``x``; all settings are unchecked except ``options``."""
    operands = (structure,) if op.arrays else ()
    return call(
        op, x, operands, size=size, footprint=footprint, mode=mode, cval=cval, origin=origin,
        axes=axes, options=options, structure=structure is not None,
    )  # fmt: skip
