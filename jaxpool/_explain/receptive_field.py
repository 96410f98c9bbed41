"""The receptive field of a stack of windows: the input elements that one output depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import message, public, shown
from .._geometry.arguments import Integers, per_axis
from .._geometry.resolve import resolve
from .._geometry.window import Window


@dataclass(frozen=True)
class ReceptiveField:
    """The input elements that one output of a stack of windows depends on, per pooled axis.

    Attributes:
      size: number of elements from the first to the last of the field, both included.
      stride: number of elements between the starts of the fields of neighbouring outputs.
      start: first element of the field of the first output; negative inside padding.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: tuple[int, ...]


def _check_layers(layers: Any) -> None:
    advice = "Give one Window per layer, the first layer first."
    if not isinstance(layers, (list, tuple)) or not all(isinstance(a, Window) for a in layers):
        what = f"$layers = {shown(layers)} is not a list of windows."
        facts = "It must be a list or tuple with a Window for each layer."
        raise TypeError(message(what, facts, advice))
    counts = {len(layer.kernel) for layer in layers}
    if len(counts) != 1:
        what = "$layers have different numbers of axes." if counts else "$layers is empty."
        facts = f"They have {sorted(counts)}." if counts else "Without layers it is one element."
        raise ValueError(message(what, facts, advice))


@public
def receptive_field(spatial_shape: Integers, layers: Sequence[Window]) -> ReceptiveField:
    """Return the receptive field of a stack of windows, such as convolutions and poolings.

    Let ``r`` be the size of the field, ``j`` the distance between neighbouring fields and ``s`` the
    first element. A window updates ``r += (span - 1) * j``, ``s -= pad_low * j`` and then
    ``j *= stride``.

    Args:
      spatial_shape: lengths of the pooled axes of the first layer's input. "SAME" padding depends
        on them.
      layers: the windows, the first layer first; a convolution is described by its window.
    Returns:
      ReceptiveField, in elements of the first layer's input.
    Raises:
      TypeError: ``layers`` is not a list of windows, or a length is not an integer.
      ValueError: a window does not fit the output of the preceding layers.
    References: Araujo, Norris and Sim 2019, doi:10.23915/distill.00021.
    Example:
      >>> stem = [Window((7, 7), 2, 3), Window((3, 3), 2, 1)]
      >>> receptive_field((224, 224), stem)
      ReceptiveField(size=(11, 11), stride=(4, 4), start=(-5, -5))
    """
    _check_layers(layers)
    count = len(layers[0].kernel)
    sizes = per_axis("spatial_shape", spatial_shape, count)
    size, jump, start = [1] * count, [1] * count, [0] * count
    for layer in layers:
        geometry = resolve(layer, sizes, tuple(range(-count, 0)))
        for i, axis in enumerate(geometry.axes):
            size[i] += (axis.span - 1) * jump[i]
            start[i] -= axis.pad_low * jump[i]
            jump[i] *= axis.stride
        sizes = geometry.out_shape
    return ReceptiveField(tuple(size), tuple(jump), tuple(start))
