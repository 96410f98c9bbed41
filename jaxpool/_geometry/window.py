"""The settings of a window, independent of an array."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, get_args

from .._errors import counted, message, public, shown
from .arguments import (
    MAX_AXES,
    Integers,
    check_length,
    entries_of,
    integer,
    is_sequence,
    length_of,
    per_axis,
)
from .axis import INT32_MAX

Padding = str | SupportsIndex | Sequence[Integers]
"""A word, an integer, one integer for each pooled axis, or (low, high) pairs."""

Rounding = Literal["floor", "ceil", "ceil_torch"]

ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
PADDING_WORDS = ("VALID", "SAME", "SAME_UPPER", "SAME_LOWER")
Pairs = tuple[tuple[int, int], ...]

_BORDERS = ("CIRCULAR", "WRAP", "REFLECT", "MIRROR", "SYMMETRIC", "REPLICATE", "EDGE", "NEAREST")
_ADVICE_ON_WORDS = {
    **dict.fromkeys(
        (*_BORDERS, "CONSTANT", "ZEROS"),
        'For a border, extend the array by jnp.pad first, then pool with "VALID".',
    ),
    "CAUSAL": "Give (low, high) pairs: low is the span of a window minus 1, high is 0.",
    "FULL": "Give the span of a window minus 1.",
}
"""Advice for words of other libraries, in upper case."""


class _FrontEndRounding(str):
    """A rounding that callers cannot pass: only this type is accepted, not an equal string."""


CEIL_OR_ONE = _FrontEndRounding("ceil_torch_or_one")
"""The exact ceil_mode of PyTorch and ONNX, for the front ends: as "ceil_torch", but a kernel that
exceeds the padded axis by less than a stride gives one window instead of an error."""


@dataclass(frozen=True)
class Window:
    """The settings of a window, independent of an array.

    The constructor checks every setting and accepts the same forms as the public ops. It stores
    tuples with one entry per pooled axis. A window is frozen and hashable.

    Attributes:
      kernel: taps per pooled axis.
      strides: distance between neighbouring windows, per pooled axis, in elements.
      padding: "VALID", "SAME_UPPER" or "SAME_LOWER", or one (low, high) pair per pooled axis.
      dilations: distance between neighbouring taps, per pooled axis, in elements.
      rounding: "floor", "ceil" or "ceil_torch".

    Raises:
      TypeError: a setting is not an integer. ValueError: a setting is out of range or has the
      wrong length.

    Example:
      >>> Window((3, 2), strides=2, padding="same").padding
      'SAME_UPPER'
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | Pairs
    dilations: tuple[int, ...]
    rounding: str

    @public(window_shape="kernel")
    def __init__(
        self,
        kernel: Integers,
        strides: Integers,
        padding: Padding = "VALID",
        dilations: Integers = 1,
        rounding: str = "floor",
    ):
        count = length_of(kernel) if is_sequence(kernel) else 1
        _check_count(count)
        vars(self).update(
            kernel=per_axis("window_shape", kernel, count),
            strides=per_axis("strides", strides, count),
            padding=_padding(padding, count),
            dilations=per_axis("dilations", dilations, count),
            rounding=_rounding(rounding),
        )


def check_taps(kernel: Sequence[int]) -> None:
    """Raise unless int32 can count the taps of a window."""
    taps = math.prod(kernel)
    if taps > INT32_MAX:
        raise ValueError(
            message(
                f"a window has {' x '.join(map(str, kernel))} = {taps} elements.",
                f"They are counted in int32; the limit is {INT32_MAX}.",
                "Pool some of the axes, and the others in a second call.",
            )
        )


def _check_count(count: int) -> None:
    if not 0 < count <= MAX_AXES:
        raise ValueError(
            message(
                f"$window_shape has {counted(count, 'entry')}.",
                f"It needs one per pooled axis, and 1 to {MAX_AXES} axes can be pooled.",
                "Give for example (2, 2) for images.",
            )
        )


def _padding(value: Any, count: int) -> str | Pairs:
    if isinstance(value, str):
        return _padding_word(value)
    if not is_sequence(value):
        return (_pair(value),) * count
    if count == 1 and length_of(value) == 2 and not any(map(is_sequence, value)):
        raise ValueError(
            message(
                f"$padding = {shown(value)} has 2 entries.",
                "The window slides along 1 axis, so one entry is expected.",
                f"Give one integer for both ends, or one pair: ({shown(value)},).",
            )
        )
    _check_pads_are_pairs(value, count)
    check_length("padding", value, count, neutral="0")
    return tuple(_pair(entry) for entry in entries_of("padding", value))


def _check_pads_are_pairs(value: Any, count: int) -> None:
    """Raise if ``value`` seems to be ONNX's pads: all low ends, then all high ends."""
    if count < 2 or type(value) not in (tuple, list) or len(value) != 2 * count:
        return
    has_others = count == 2 and value[0] == value[-1] == 0  # of batch and channels
    if has_others or not all(type(entry) is int for entry in value):
        return
    pairs = tuple(zip(value[:count], value[count:], strict=True))
    raise ValueError(
        message(
            f"$padding = {shown(value)} has {counted(len(value), 'entry')}.",
            f"The window slides along {counted(count, 'axis')}, each with a low and a high end.",
            f"Give (low, high) pairs; pads in ONNX's order are {shown(pairs)}.",
        )
    )


def _padding_word(word: str) -> str:
    upper = word.upper()
    if upper not in PADDING_WORDS:
        raise ValueError(
            message(
                f"$padding = {shown(word)} is not a padding.",
                f"The names are {', '.join(PADDING_WORDS)}, in upper or lower case.",
                _ADVICE_ON_WORDS.get(upper)
                or "Give one of them, an integer, one integer per axis, or (low, high) pairs.",
            )
        )
    return "SAME_UPPER" if upper == "SAME" else upper


def _pair(entry: Any) -> tuple[int, int]:
    if not is_sequence(entry):
        both = integer("padding", entry, 0)
        return both, both
    if length_of(entry) != 2:
        raise ValueError(
            message(
                f"$padding contains the entry {shown(entry)}.",
                f"An axis has two ends, low and high; the entry has {length_of(entry)} numbers.",
                "Give an integer for both ends, or a pair (low, high).",
            )
        )
    low, high = entries_of("padding", entry)
    return integer("padding", low, 0), integer("padding", high, 0)


def _rounding(value: Any) -> str:
    if type(value) is _FrontEndRounding:
        return value
    if not isinstance(value, str) or value not in ROUNDINGS:
        raise ValueError(
            message(
                f"$rounding = {shown(value)} is not a rounding.",
                f"The roundings are {', '.join(ROUNDINGS)}.",
                'Give "ceil_torch" for the ceil_mode of PyTorch and ONNX, "ceil" for OpenVINO.',
            )
        )
    return value
