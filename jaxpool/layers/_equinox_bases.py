"""Base classes of the layers for Equinox."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._errors import message, naming_errors, shown
from .._geometry.arguments import is_sequence
from ._common import (
    IndexSpace,
    OutputSize,
    Padding,
    PerAxis,
    Rounding,
    hashable,
    not_installed,
    settings,
)

try:
    import equinox as eqx
except ModuleNotFoundError as error:
    raise not_installed("equinox", "equinox", error) from None

static = partial(eqx.field, static=True, converter=hashable)


class Layer(eqx.Module):
    op: ClassVar[Callable[..., Any]]

    def _call(self, x: Any, *arrays: Any, sizes: tuple[str, Any], **options: Any) -> Any:
        """Call the op; ``sizes``: name and value of an argument with an entry per pooled axis."""
        with naming_errors(type(self).__name__, data_format="x", deterministic="inference"):
            _check_example(jnp.shape(x), *sizes)
            return self._run(x, *arrays, **options)

    def _run(self, *arrays: Any, **options: Any) -> Any:
        return self.op(*arrays, data_format="channels_first", **settings(self), **options)


def _check_example(shape: tuple[int, ...], name: str, sizes: Any) -> None:
    """Raise unless ``shape`` is an axis of channels followed by nonempty pooled axes."""
    if not is_sequence(sizes):
        raise TypeError(
            message(
                f"${name} = {shown(sizes)} does not say how many axes are pooled.",
                "The layer accepts one example: an axis of channels, then the pooled axes.",
                f"Give one entry for each, for example {(sizes, sizes)}.",
            )
        )
    pooled = shape[len(shape) - len(sizes) :]
    if len(shape) != len(sizes) + 1 or 0 in pooled:
        raise ValueError(
            message(
                f"an example of shape {shape} cannot be pooled over {len(sizes)} axes.",
                "An example has an axis of channels, then the pooled axes, none of which is empty.",
                "Add an axis of channels, x[None]; map over a batch with jax.vmap.",
            )
        )


class Sliding(Layer):
    window_shape: PerAxis = eqx.field(static=True, converter=hashable)
    strides: PerAxis = eqx.field(static=True, converter=hashable)
    padding: Padding = static(default="VALID")
    _: KW_ONLY
    dilations: PerAxis = static(default=1)
    rounding: Rounding = static(default="floor")

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Array:
        return self._call(x, sizes=("window_shape", self.window_shape), where=where)


class Windowed(Sliding):
    _: KW_ONLY
    implementation: str = static(default="auto")


class Indexed(Windowed):
    _: KW_ONLY
    index_space: IndexSpace = static(default="spatial")
    index_dtype: DTypeLike | None = static(default=None)

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> tuple[Array, Array]:
        return self._call(x, sizes=("window_shape", self.window_shape), where=where)


class Adaptive(Layer):
    output_size: OutputSize = eqx.field(static=True, converter=hashable)

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Array:
        return self._call(x, sizes=("output_size", self.output_size), where=where)


class Global(Layer):
    _: KW_ONLY
    keepdims: bool = static(default=True)

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Array:
        with naming_errors(type(self).__name__, data_format="x"):
            _check_example(jnp.shape(x), "x", jnp.shape(x)[1:] or (1,))
            batch = jnp.asarray(x)[None]  # the op needs a batch axis
            return self._run(batch, where=where)[0]
