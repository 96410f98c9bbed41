"""Types of the functions whose ``return_indices`` decides what they return."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, cast, overload

from jax import Array
from jax.typing import ArrayLike

from .arguments import OutputSize, Sizes

Function = Callable[..., Any]


class SlidingMax(Protocol):
    """The type of ``max_pool1d`` to ``max_pool3d``."""

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, ceil_mode: bool = False, return_indices: Literal[False] = False,
    ) -> Array: ...  # fmt: skip

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, ceil_mode: bool = False, *, return_indices: Literal[True],
    ) -> tuple[Array, Array]: ...  # fmt: skip

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
        dilation: Sizes, ceil_mode: bool, return_indices: Literal[True],
    ) -> tuple[Array, Array]: ...  # fmt: skip


class AdaptiveMax(Protocol):
    """The type of ``adaptive_max_pool1d`` to ``adaptive_max_pool3d``."""

    @overload
    def __call__(
        self, input: ArrayLike, output_size: OutputSize, return_indices: Literal[False] = False
    ) -> Array: ...

    @overload
    def __call__(
        self, input: ArrayLike, output_size: OutputSize, return_indices: Literal[True]
    ) -> tuple[Array, Array]: ...


class FractionalMax(Protocol):
    """The type of ``fractional_max_pool2d`` and ``fractional_max_pool3d``."""

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: Literal[False] = False, _random_samples: ArrayLike | None = None, *,
        key: ArrayLike | None = None,
    ) -> Array: ...  # fmt: skip

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None, *,
        return_indices: Literal[True], _random_samples: ArrayLike | None = None,
        key: ArrayLike | None = None,
    ) -> tuple[Array, Array]: ...  # fmt: skip

    @overload
    def __call__(
        self, input: ArrayLike, kernel_size: Sizes, output_size: Sizes | None,
        output_ratio: float | Sequence[float] | None, return_indices: Literal[True],
        _random_samples: ArrayLike | None = None, *, key: ArrayLike | None = None,
    ) -> tuple[Array, Array]: ...  # fmt: skip


def sliding_max(function: Function) -> SlidingMax:
    """Return ``function`` with its type."""
    return cast(SlidingMax, function)


def adaptive_max(function: Function) -> AdaptiveMax:
    """Return ``function`` with its type."""
    return cast(AdaptiveMax, function)


def fractional_max(function: Function) -> FractionalMax:
    """Return ``function`` with its type."""
    return cast(FractionalMax, function)
