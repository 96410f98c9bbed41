"""Base classes of the modules for Haiku."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ._common import (
    IndexSpace,
    OutputSize,
    Padding,
    PerAxis,
    Rounding,
    module,
    not_installed,
    settings,
)

try:
    import haiku as hk
except ModuleNotFoundError as error:
    raise not_installed("haiku", "haiku", error) from None


class Layer(hk.Module):
    function: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        # Haiku's own repr does not see through the wrapper of a constructor.
        self._auto_repr = f"{type(self).__name__}({', '.join(_changed_settings(self))})"
        super().__post_init__()

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.function(*arrays, **{**settings(self), **options})


def _changed_settings(layer: Layer) -> Iterator[str]:
    """Yield ``name=value`` for every setting of a layer that differs from its default."""
    for setting in dataclasses.fields(layer):  # pyright: ignore[reportArgumentType]
        if setting.init and setting.repr:
            value = repr(getattr(layer, setting.name))
            if value != repr(setting.default):
                yield f"{setting.name}={value}"


class Pool(Layer):
    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        return self._call(value, where=where)


@module
class Sliding(Pool):
    window_shape: PerAxis
    strides: PerAxis
    padding: Padding = "VALID"
    channel_axis: int | None = -1
    name: str | None = None
    _: KW_ONLY
    dilations: PerAxis = 1
    rounding: Rounding = "floor"


@module
class Windowed(Sliding):
    _: KW_ONLY
    implementation: str = "auto"


@module
class Indexed(Windowed):
    _: KW_ONLY
    index_space: IndexSpace = "spatial"
    index_dtype: DTypeLike | None = None

    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> tuple[Array, Array]:
        return self._call(value, where=where)


@module
class Adaptive(Pool):
    output_size: OutputSize
    channel_axis: int | None = -1
    _: KW_ONLY
    name: str | None = None


@module
class Global(Pool):
    channel_axis: int | None = -1
    _: KW_ONLY
    keepdims: bool = True
    name: str | None = None
