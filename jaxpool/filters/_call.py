"""From a call of a filter to a compiled function, one for each static configuration."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from .._errors import message
from .._numerics.checks import check_real
from ..ops._dispatch import Op, call
from ._arguments import Neighborhood, Request, neighborhood, request

Body = Callable[[Array, Neighborhood, tuple[Any, ...], Array | None], Array]
"""``body(x, neighborhood, settings of the filter's own, array beside x or None)``"""


def filter_op(name: str, body: Body, *arrays: str) -> Op:
    """Return the op of a filter; ``arrays`` names the array beside ``x``, if it has one."""

    def traced(x: Array, other: Array | None = None, *, asked: Request) -> Array:
        check_real(x)
        if other is None:
            return body(x, neighborhood(asked, x.ndim), asked.own, None)
        _check_beside(other, *arrays)
        return body(x, neighborhood(asked, x.ndim, other.shape, *arrays), asked.own, other)

    return Op(name, traced, _canonical, arrays)


def _check_beside(array: Array, name: str) -> None:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(
            message(
                f"${name} has dtype {array.dtype}.",
                "Filters are defined for real numbers and booleans.",
                f"Give the real part of the {name}.",
            )
        )


def _canonical(**arguments: Any) -> dict[str, Request]:
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
    *own: Any,
    structure: Any = None,
) -> Array:
    """Run a filter on an array with its settings as written; ``own`` are already checked."""
    others = (structure,) if op.arrays else ()
    return call(
        op, x, others, size=size, footprint=footprint, mode=mode, cval=cval, origin=origin,
        axes=axes, own=own, structure=structure is not None,
    )  # fmt: skip
