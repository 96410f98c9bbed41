"""From a call to a compiled function: static arguments are canonicalised once and cached.

:func:`call` looks up the jitted body by the static arguments as the caller passed them. There is
one ``jax.jit`` per canonical configuration. Only the first call checks its arguments.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._errors import with_advice
from .._geometry import layout as layouts
from .._geometry.arguments import is_sequence
from .._geometry.resolve import Geometry, resolve
from .._geometry.window import Window
from .._lowerings.plan import Plan, check_name, plan_for
from .._lowerings.result_cache import CachedPerReduction, cached_per_reduction
from .._numerics.checks import as_array
from .._xla.sharding_types import with_sharding_types
from ..reductions import Reduction
from ._op import Op, for_symbolic_sizes


class WindowArguments(NamedTuple):
    """The settings of a sliding window as the caller passed them, unchecked."""

    window_shape: Any
    strides: Any
    padding: Any = "VALID"
    dilations: Any = 1
    rounding: Any = "floor"
    data_format: Any = "channels_last"
    implementation: Any = "auto"


@dataclass(frozen=True)
class Configuration:
    """The canonical form of :class:`WindowArguments`.

    Attributes:
      window: kernel, strides, padding, dilations and rounding.
      data_format: a layout, as a word or as letters.
      implementation: "auto" or the name of an implementation.
    """

    window: Window
    data_format: str
    implementation: str = "auto"

    def geometry(self, shape: tuple[int, ...]) -> Geometry:
        """Return the geometry of these windows over an array of ``shape``."""
        try:
            return self._geometry(shape).compact()
        except ValueError as error:
            if self.data_format != "channels_last" or not self._fits_channels_first(shape):
                raise
            advice = 'If the channels come first, give $data_format="channels_first".'
            raise with_advice(error, advice) from None

    def pooled_axes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the pooled axes of an array of ``shape``, as negative positions."""
        kernel = self.window.kernel
        return layouts.pooled_axes(self.data_format, len(kernel), shape, kernel)

    def _geometry(self, shape: tuple[int, ...]) -> Geometry:
        positions = self.pooled_axes(shape)
        return resolve(self.window, [shape[p] for p in positions], positions)

    def _fits_channels_first(self, shape: tuple[int, ...]) -> bool:
        try:
            replace(self, data_format="channels_first")._geometry(shape)
        except ValueError:
            return False
        return True

    def plan(self, shape: tuple[int, ...], dtype: Any, reduction: Reduction) -> Plan:
        """Return the plan of ``reduction`` over an array of ``shape`` and ``dtype``."""
        return plan_for(self.geometry(shape), reduction, np.dtype(dtype), self.implementation)


def configure(arguments: WindowArguments) -> Configuration:
    """Return the canonical form of the arguments, or raise if one is invalid."""
    shape, strides, padding, dilations, rounding, data_format, implementation = arguments
    data_format = layouts.check(data_format)
    shape = shape if is_sequence(shape) else _repeated(shape, data_format)
    window = Window(shape, strides, padding, dilations, rounding)
    return Configuration(window, data_format, check_name(implementation))


def _repeated(window_shape: Any, data_format: str) -> tuple[Any, ...]:
    """Return an int window repeated for each pooled axis of an explicit layout, or raise."""
    layouts.check_repeatable("window_shape", window_shape, data_format, 2, "the window")
    return (window_shape,) * layouts.spatial_count(data_format)


def call(
    op: Op,
    x: Any,
    others: tuple[Any, ...],
    windows: WindowArguments | tuple[()] = (),
    /,
    **options: Any,
) -> Any:
    """Run ``op`` on its arrays, with the static arguments as the caller passed them."""
    # 1, 1.0 and True are equal as keys of a cache, but not as arguments. The cache distinguishes
    # the types of its arguments, but not of entries of tuples. So entries are passed as arguments
    # too; no valid argument is a tuple nested more than two levels deep.
    entries: tuple[Any, ...] = ()
    for argument in (*windows, *options.values()):
        if isinstance(argument, tuple):
            entries += argument
    for entry in entries:
        if isinstance(entry, tuple):
            entries += entry
    compiled_for = _cached_for(op, _compiled)
    try:
        compiled = compiled_for(op, len(windows), *windows, *entries, **options)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        compiled = _jitted(op, windows, options)
    if not isinstance(x, jax.Array):
        x = _as_argument("the array", x)
    for other in others:
        if other is not None and not isinstance(other, jax.Array):
            return compiled(x, *_as_arrays(op, others))
    return compiled(x, *others)


def _as_arrays(op: Op, others: tuple[Any, ...]) -> list[Any]:
    return [
        value if value is None or isinstance(value, jax.Array) else _as_argument(f"${name}", value)
        for name, value in zip(op.arrays, others, strict=True)
    ]


def _as_argument(name: str, value: Any) -> Any:
    """Return ``value`` as an argument of a jitted function, or raise an error about ``name``.

    A jitted function converts NumPy arrays and Python numbers itself, as ``jnp.asarray`` does,
    which would run another program.
    """
    if type(value) is np.ndarray:
        dtype = value.dtype
        is_accepted = dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative
    else:
        is_accepted = type(value) in (int, float) and abs(value) < 2**31
    return value if is_accepted else as_array(name, value)


@cached_per_reduction(maxsize=1024, typed=True)
def _compiled(op: Op, count: int, *entries: Any, **options: Any) -> Callable[..., Any]:
    windows = WindowArguments(*entries[:count]) if count else ()
    return _jitted(op, windows, options)


def _jitted(
    op: Op, windows: WindowArguments | tuple[()], options: dict[str, Any]
) -> Callable[..., Any]:
    """Return the compiled function for the canonical form of the arguments."""
    config = {"config": configure(windows)} if windows else {}
    canonical = {**config, **op.canonicalize(**options)}
    owner = canonical["reduction"] if op.has_reduction else None
    return _cached_for(op, _program)(op, tuple(canonical.items()), owner)


def _cached_for(op: Op, function: CachedPerReduction) -> Callable[..., Any]:
    """Return ``function`` with the cache of an op: its reduction's, its own, or the shared one."""
    if op.has_reduction:
        return function
    return function.shared if op.cached_results is None else function.cached_in(op.cached_results)


@cached_per_reduction(maxsize=1024)
def _program(op: Op, canonical: tuple[tuple[str, Any], ...], owner: Any) -> Callable[..., Any]:
    """Return the compiled function; ``owner``, a reduction or None, keeps it in its own cache."""
    options = dict(canonical)
    if "config" in options and op.takes_any_size:
        body = for_symbolic_sizes(op, options.pop("config"), options)
    else:
        body = functools.partial(op.body, **options)

    def run(*arrays: Any) -> Any:
        if jax.config.jax_disable_jit:  # pyright: ignore
            arrays = jax.tree.map(jnp.asarray, arrays)
        if arrays[0].weak_type:  # or implementations would return different types
            arrays = lax.convert_element_type(arrays[0], arrays[0].dtype), *arrays[1:]
        with jax.named_scope(op.name):
            results = with_sharding_types(body, *arrays)
            return op.finish(results, **options) if op.finish else results

    run.__name__ = run.__qualname__ = op.name
    return jax.jit(run)
