"""Base classes of the layers for Flax NNX."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import jax
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._errors import message, naming_errors, shown
from ._common import (
    IndexSpace,
    OutputSize,
    Padding,
    PerAxis,
    Rounding,
    hashable,
    module,
    not_installed,
    settings,
)

try:
    from flax import nnx
except ModuleNotFoundError as error:
    raise not_installed("nnx", "flax", error) from None


def static(op: Callable[..., Any]) -> Any:
    """Return ``op`` as a static method; ``nnx.tabulate`` would treat a function as a method."""
    return staticmethod(functools.partial(op))


class _Signature:
    """The signature of ``__init__``, which NNX hides behind a metaclass."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("the signature of a layer is that of its __call__")
        of_init = inspect.signature(owner.__init__)
        return of_init.replace(parameters=[*of_init.parameters.values()][1:])


class Layer(nnx.Module):
    op: ClassVar[Callable[..., Any]]
    __signature__ = _Signature()

    def __post_init__(self) -> None:
        for name, setting in settings(self).items():
            value = hashable(setting)
            # NNX traces an attribute that has held an array, unless the new value is marked static.
            is_static = value is not setting and not any(map(_is_array, jax.tree.leaves(value)))
            setattr(self, name, nnx.static(value) if is_static else value)

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.op(*arrays, **{**settings(self), **options})


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


class Pool(Layer):
    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        return self._call(x, where=where)


@module
class Sliding(Pool):
    window_shape: PerAxis
    strides: PerAxis
    padding: Padding = "VALID"
    _: KW_ONLY
    dilations: PerAxis = 1
    rounding: Rounding = "floor"
    data_format: str = "channels_last"


@module
class Windowed(Sliding):
    _: KW_ONLY
    implementation: str = "auto"


@module
class Indexed(Windowed):
    _: KW_ONLY
    index_space: IndexSpace = "spatial"
    index_dtype: DTypeLike | None = None

    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> tuple[Array, Array]:
        return self._call(x, where=where)


@module
class Adaptive(Pool):
    output_size: OutputSize
    _: KW_ONLY
    data_format: str = "channels_last"


@module
class Global(Pool):
    _: KW_ONLY
    data_format: str = "channels_last"
    keepdims: bool = True


@module
class Random(Layer):
    """A layer that draws keys from a stream."""

    _: KW_ONLY
    rngs: nnx.Rngs | nnx.RngStream | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rngs = nnx.data(None if self.rngs is None else _stream(self.rngs).fork())

    def _key(self, is_needed: bool, rngs: Any) -> Any:
        """Return the next key, from the stream of the call if there is one, else of the layer."""
        if not is_needed or isinstance(rngs, jax.Array):
            return rngs if is_needed else None
        with naming_errors(type(self).__name__):
            return _stream(self.rngs if rngs is None else rngs)()


def _stream(rngs: Any) -> Any:
    if isinstance(rngs, nnx.RngStream):
        return rngs
    if not isinstance(rngs, nnx.Rngs):
        raise (ValueError if rngs is None else TypeError)(
            message(
                f"$rngs = {shown(rngs)} is not a stream of random numbers.",
                "The layer draws a key from its stream `pooling` in each call.",
                "Give rngs=nnx.Rngs(0), or one of its streams, to the layer or to the call.",
            )
        )
    try:
        return rngs["pooling"]
    except (AttributeError, KeyError):
        raise ValueError(
            message(
                "$rngs has neither a stream `pooling` nor a default stream.",
                "The layer draws a key from it in each call.",
                "Give for example rngs=nnx.Rngs(params=0, pooling=1), or nnx.Rngs(0).",
            )
        ) from None
