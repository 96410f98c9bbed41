"""Shapes of results, computed without arrays."""

from collections.abc import Sequence
from typing import SupportsIndex

from .._errors import message, public, shown
from .._geometry.arguments import Integers, is_sequence, length_of, per_axis
from .._geometry.window import Padding, Rounding
from ._dispatch import WindowArguments, configure


@public
def output_shape(
    input_shape: Sequence[SupportsIndex],
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
) -> tuple[int, ...]:
    """Return the shape of a pooled array, from the shape of the input and the window settings.

    Let ``n = size + pad_low + pad_high - ((window - 1) * dilation + 1)``. A pooled axis has
    ``n // stride + 1`` windows (floor) or ``ceil(n / stride) + 1`` (ceil). ceil_torch drops the
    last window of ceil if it would start past the data. Other axes keep their size. No array is
    created.

    Args:
      input_shape: the full shape of the array, batch and channel axes included.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
    Returns:
      The full shape of the result, as a tuple of ints.
    Raises:
      TypeError: a setting is not an integer. ValueError: a setting is out of range or does not fit.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> output_shape((8, 112, 112, 64), (3, 3), 2, 1)
      (8, 56, 56, 64)
      >>> output_shape((8, 64, 7, 7), 2, 2, rounding="ceil", data_format="NCHW")
      (8, 64, 4, 4)
    """
    arguments = window_shape, strides, padding, dilations, rounding, data_format
    config = configure(WindowArguments(*arguments))
    if not is_sequence(input_shape) or getattr(input_shape, "ndim", 1) != 1:
        raise TypeError(
            message(
                f"$input_shape = {shown(input_shape)} is not a shape.",
                "It has one length for each axis of the array, batch and channel axes included.",
                "Give for example x.shape.",
            )
        )
    shape = per_axis("input_shape", input_shape, length_of(input_shape), least=0)
    return config.geometry(shape).full_shape(shape)
