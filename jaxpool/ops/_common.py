"""From a call to a compiled function: words are settled once and cached, arrays come last.

``call`` finds the jitted body for the settings as written, one ``jax.jit`` per static
configuration; only a first call pays for checking words.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import _data_format
from .._arguments import is_sequence
from .._errors import message, shown
from .._mesh import with_types
from .._plan import Plan, check_name, plan_for
from .._reductions import Reduction
from .._window import Geometry, Window, settle


@dataclass(frozen=True, eq=False)
class Op:
    """A windowed op.

    Attributes:
      name: name of the public function, for messages.
      body: ``body(settings, x, arrays)``, the traced part.
      settle: checks the op's own settings and returns them as a hashable tuple.
      arrays: names of the arrays beside ``x``. One is given to ``body`` as it is, several as a
        tuple; any may be None.
    """

    name: str
    body: Callable[..., Any]
    settle: Callable[..., tuple[Any, ...]] = lambda op: ()
    arrays: tuple[str, ...] = ("where",)


@dataclass(frozen=True)
class Settings:
    """The settled static settings of one call.

    Attributes:
      op: name of the public function, for messages.
      window: kernel, strides, padding, dilations and rounding.
      data_format: a layout word or letters.
      lowering: "auto" or the name of a lowering.
      own: the op's own settings, settled, in the order of its signature.
    """

    op: str
    window: Window
    data_format: str
    lowering: str = "auto"
    own: tuple[Any, ...] = ()

    def geometry(self, shape: tuple[int, ...]) -> Geometry:
        """Return the geometry of these windows over an array of ``shape``."""
        count = len(self.window.kernel)
        positions = _data_format.pooled_axes(self.op, self.data_format, count, shape)
        made = settle(self.op, self.window, [shape[p] for p in positions], positions)
        return Geometry(tuple(axis.compact() for axis in made.axes), positions)

    def plan(self, shape: tuple[int, ...], dtype: Any, reduction: Reduction) -> Plan:
        """Return the plan of ``reduction`` over an array of ``shape`` and ``dtype``."""
        return plan_for(
            self.op, self.geometry(shape), reduction, np.dtype(dtype), lowering=self.lowering
        )


def window_of(
    op: str,
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any,
    rounding: Any,
    data_format: Any,
) -> tuple[Window, str]:
    """Return the checked window and layout, or raise in the caller's words."""
    data_format = _data_format.check(op, data_format)
    if not is_sequence(window_shape):
        window_shape = _spread(op, window_shape, data_format)
    return Window(window_shape, strides, padding, dilations, rounding, op=op), data_format


def _spread(op: str, window_shape: Any, data_format: str) -> tuple[Any, ...]:
    """An int window, repeated over the pooled axes that an explicit layout names."""
    if not _data_format.is_explicit(data_format):
        raise TypeError(
            message(
                op,
                f"`window_shape` = {shown(window_shape)} does not say how many axes are pooled.",
                f"With data_format {data_format!r} the window has one entry per pooled axis.",
                'Give a tuple such as (2, 2), or a layout in letters such as "NHWC".',
            )
        )
    return (window_shape,) * _data_format.spatial_count(data_format)


def call(op: Op, x: Any, arrays: Any, *words: Any) -> Any:
    """Run ``op`` on arrays; ``words`` are its settings as written, its own ones last.

    In order: window_shape, strides, padding, dilations, rounding, data_format, lowering.
    """
    return run(op, _settings, x, arrays, words)


def run(op: Op, settle: Callable[..., Any], x: Any, arrays: Any, words: tuple[Any, ...]) -> Any:
    """Run ``op`` with the settings ``settle(op, *words)``, which are hashable."""
    # 1, 1.0 and True are equal as keys of a cache, but not as settings.
    kinds = tuple([_kinds(word) for word in words if type(word) is tuple])
    try:
        compiled = _compiled(op, settle, kinds, *words)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        compiled = _jitted(op, settle(op, *words))
    if not isinstance(x, jax.Array):
        x = as_array(op.name, "the array", x)
    return compiled(x, _as_arrays(op, arrays))


def _kinds(word: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([_kinds(entry) if type(entry) is tuple else type(entry) for entry in word])


def as_array(op: str, name: str, value: Any, make: Callable[[Any], Array] = jnp.asarray) -> Array:
    """Return ``make(value)``, or raise in the caller's words."""
    try:
        return make(value)
    except Exception as error:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                op,
                f"{name} is {shown(value)}, of {_kind(value)}: not an array.",
                f"It cannot be made one: {str(error)[:200].rstrip('. ')}.",
                "Give an array of numbers, or nested lists of them of equal lengths.",
            )
        ) from None


def _as_arrays(op: Op, given: Any) -> Any:
    """What is given beside ``x``, as ``op.arrays`` names it, as arrays."""
    if given is None or isinstance(given, jax.Array):
        return given
    if len(op.arrays) == 1:
        return as_array(op.name, f"`{op.arrays[0]}`", given)
    return tuple(
        value
        if value is None or isinstance(value, jax.Array)
        else as_array(op.name, f"`{name}`", value)
        for name, value in zip(op.arrays, given, strict=True)
    )


def _kind(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return f"type {type(value).__name__}" if dtype is None else f"dtype {dtype}"


@functools.lru_cache(maxsize=1024, typed=True)
def _compiled(
    op: Op, settle: Callable[..., Any], kinds: tuple[Any, ...], *words: Any
) -> Callable[..., Any]:
    return _jitted(op, settle(op, *words))


@functools.lru_cache(maxsize=1024)
def _jitted(op: Op, settings: Any) -> Callable[..., Any]:
    body = functools.partial(op.body, settings)
    return jax.jit(functools.partial(with_types, body))


def _settings(op: Op, *words: Any) -> Settings:
    window, data_format = window_of(op.name, *words[:6])
    own = op.settle(op.name, *words[7:])
    return Settings(op.name, window, data_format, check_name(op.name, words[6]), own)


def check_real(op: str, x: Array) -> None:
    """Raise unless ``x`` holds real numbers or booleans."""
    if not (jnp.issubdtype(x.dtype, jnp.number) or x.dtype == jnp.bool_) or jnp.issubdtype(
        x.dtype, jnp.complexfloating
    ):
        raise TypeError(
            message(
                op,
                f"the array has dtype {x.dtype}.",
                "Pooling is defined for real numbers and booleans.",
                "Pool the real and imaginary parts apart.",
            )
        )


def check_float(op: str, x: Array) -> None:
    """Raise unless ``x`` holds floating-point numbers."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                op,
                f"the array has dtype {x.dtype}.",
                "The result is a real number, which only floating-point dtypes hold.",
                "Convert it first, for example x.astype(jnp.float32).",
            )
        )


def check_where(op: str, where: Any, shape: tuple[int, ...]) -> Array | None:
    """Return the mask broadcast to ``shape``, or None."""
    if where is None:
        return None
    where = as_array(op, "`where`", where)
    if where.dtype != jnp.bool_:
        raise TypeError(
            message(
                op,
                f"`where` has dtype {where.dtype}.",
                "The mask says of each cell whether it is there: True or False.",
                "Compare it first, for example `where=mask > 0`.",
            )
        )
    try:
        return jnp.broadcast_to(where, shape)
    except ValueError:
        raise ValueError(
            message(
                op,
                f"`where` of shape {where.shape} does not broadcast to the array.",
                f"The array has shape {shape}.",
                "Give a mask of that shape, or with axes of length 1.",
            )
        ) from None
