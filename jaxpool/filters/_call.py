"""From a call of a filter to a compiled function, one for each static configuration."""

from collections.abc import Callable
from typing import Any

from jax import Array

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
        return body(x, neighborhood(asked, x.ndim, other.shape, *arrays), asked.own, other)

    return Op(name, traced, _canonical, arrays)


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
