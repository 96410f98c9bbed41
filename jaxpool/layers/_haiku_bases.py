"""What the modules for Haiku are made of."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from jax.typing import ArrayLike

from ._common import Padding, PerAxis, Rounding, module, not_installed, settings

try:
    import haiku as hk
except ModuleNotFoundError as error:
    raise not_installed("haiku", "haiku", error) from None


class Layer(hk.Module):
    function: ClassVar[Callable[..., Any]]

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.function(*arrays, **{**settings(self, besides=("name",)), **options})


class Pool(Layer):
    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Any:
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
class Adaptive(Pool):
    output_size: int | Sequence[int | None]
    channel_axis: int | None = -1
    _: KW_ONLY
    name: str | None = None


@module
class Global(Pool):
    channel_axis: int | None = -1
    _: KW_ONLY
    keepdims: bool = True
    name: str | None = None
