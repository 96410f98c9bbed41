"""Arguments of TensorFlow's functions, checked as in TensorFlow."""

from typing import Any

from ..._errors import message, shown
from ..._geometry.arguments import integer, is_sequence, per_axis
from ..._geometry.window import Window
from ...ops._dispatch import Configuration
from .._cached import cached

_LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@cached
def configuration(
    shape: tuple[int, ...], ksize: Any, strides: Any, padding: Any,
    data_format: str | None, counts: tuple[int, ...] = (1, 2, 3),
) -> Configuration:  # fmt: skip
    """Return the canonical windows; ``counts`` are the allowed numbers of spatial axes."""
    layout = _layout(shape, data_format, counts)
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    kernel = _spatial_entries("ksize", ksize, spatial, len(shape))
    steps = _spatial_entries("strides", strides, spatial, len(shape))
    if isinstance(padding, str):
        return Configuration(Window(kernel, steps, padding_name(padding)), layout)
    _check_pairs(padding, len(shape))
    window = Window(kernel, steps, tuple(padding[axis] for axis in spatial))
    _check_pads(padding, spatial, window)
    return Configuration(window, layout)


def _layout(shape: tuple[int, ...], data_format: str | None, counts: tuple[int, ...]) -> str:
    known = _LAYOUTS[len(shape) - 2] if len(shape) - 2 in counts else ()
    layout = known[0] if data_format is None and known else data_format
    if not isinstance(layout, str) or layout not in known:
        raise ValueError(
            message(
                f"$input of shape {shape} does not match $data_format {shown(data_format)}.",
                "Rank 3 is NWC or NCW, rank 4 NHWC or NCHW, rank 5 NDHWC or NCDHW.",
                f"Give {' or '.join(map(repr, known))}."
                if known
                else "Give an array of batch, spatial axes and channels.",
            )
        )
    return layout


def _check_pairs(padding: Any, rank: int) -> None:
    has_entry_per_axis = is_sequence(padding) and len(padding) == rank
    if not has_entry_per_axis or not all(is_sequence(pair) and len(pair) == 2 for pair in padding):
        raise ValueError(
            message(
                f"$padding = {shown(padding)} is neither a name nor one pair per axis.",
                f"$input has {rank} axes; those of batch and channels are not padded.",
                'Give "VALID", "SAME", or one (low, high) pair for every axis.',
            )
        )


def _spatial_entries(name: str, value: Any, spatial: list[int], rank: int) -> tuple[int, ...]:
    """Return one entry per spatial axis, from None (which is 1), an int, or a list of entries.

    A list has one entry, or an entry for each spatial axis or for each axis.
    """
    value = 1 if value is None else value
    value = [integer(name, entry, 1) for entry in (value if is_sequence(value) else [value])]
    if len(value) == rank and rank > len(spatial):
        if any(entry != 1 for axis, entry in enumerate(value) if axis not in spatial):
            raise ValueError(
                message(
                    f"${name} = {shown(value)} pools the batch or the channels.",
                    "Only spatial axes are pooled.",
                    "Give 1 for the others.",
                )
            )
        value = [value[axis] for axis in spatial]
    return per_axis(name, value[0] if len(value) == 1 else value, len(spatial))


def padding_name(padding: Any) -> str:
    if isinstance(padding, str) and padding in ("VALID", "SAME"):
        return padding
    raise ValueError(
        message(
            f"$padding = {shown(padding)} is not a padding.",
            "They are named VALID and SAME; max_pool also takes pairs.",
            "Give one of them.",
        )
    )


def _check_pads(padding: Any, spatial: list[int], window: Window) -> None:
    others = [tuple(padding[axis]) for axis in range(len(padding)) if axis not in spatial]
    assert not isinstance(window.padding, str)
    too_long = any(
        max(pair) >= kernel for pair, kernel in zip(window.padding, window.kernel, strict=True)
    )
    if too_long or any(pair != (0, 0) for pair in others):
        raise ValueError(
            message(
                f"$padding = {shown(padding)} does not match the window.",
                f"$ksize is {window.kernel}: each pad needs to be smaller, and 0 for the others.",
                "Pad less, or use jaxpool.max_pool.",
            )
        )
