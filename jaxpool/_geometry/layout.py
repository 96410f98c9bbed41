"""The pooled axes of an array: their positions, from ``data_format``, and their lengths."""

from collections.abc import Sequence
from typing import Any

from .._errors import counted, message, shown
from .arguments import advice_without_others

WORDS = ("channels_last", "channels_first")
_SPATIAL = "DHW"
_LETTERS = "NC" + _SPATIAL


def is_explicit(data_format: Any) -> bool:
    """Return whether the layout is spelled in letters, such as "NHWC", which fix the rank."""
    return data_format not in WORDS


def check(data_format: Any) -> str:
    """Return ``data_format``; raise unless it is a layout."""
    letters = data_format if isinstance(data_format, str) else ""
    if letters in WORDS:
        return letters
    known = set(letters) <= set(_LETTERS) and len(set(letters)) == len(letters)
    if not known or not set(letters) & set(_SPATIAL):
        raise ValueError(
            message(
                f"$data_format = {shown(data_format)} is not a layout.",
                f"It must be one of {', '.join(WORDS)}, or letters, each at most once: N for the "
                "batch, C for channels, and at least one of D, H, W for pooled axes.",
                'Give for example "NHWC", "NCHW", "NCDHW", "HWC" or "channels_first"; '
                'for sequences "NWC" or "NCW".',
            )
        )
    return letters


def spatial_count(data_format: str) -> int:
    """Return the number of pooled axes of a layout that is spelled in letters."""
    return sum(letter in _SPATIAL for letter in data_format)


def check_repeatable(
    name: str, value: Any, data_format: str, example: int, subject: str = "it"
) -> None:
    """Raise unless the layout says for how many pooled axes a single ``value`` is repeated."""
    if is_explicit(data_format):
        return
    raise TypeError(
        message(
            f"${name} = {shown(value)} does not say how many axes are pooled.",
            f"With data_format {data_format!r} {subject} has one entry per pooled axis.",
            f'Give a tuple such as ({example}, {example}), or a layout in letters such as "NHWC"; '
            f'for one axis ({example},), or "NWC".',
        )
    )


def pooled_axes(
    data_format: str, count: int, shape: tuple[int, ...], kernel: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Return the ``count`` pooled axes of an array of ``shape``, as negative positions.

    ``kernel`` is only used for the advice in errors.
    """
    if not is_explicit(data_format):
        _check_rank(data_format, count, shape, kernel)
        last = -1 if data_format == "channels_first" else -2
        return tuple(range(last - count + 1, last + 1))
    _check_explicit(data_format, count, shape, kernel)
    return tuple(i - len(shape) for i, letter in enumerate(data_format) if letter in _SPATIAL)


def _check_explicit(
    data_format: str, count: int, shape: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    """Raise unless an explicit layout has ``count`` pooled axes and the rank of the array."""
    expected = spatial_count(data_format)
    if expected != count:
        raise ValueError(
            message(
                f"$window_shape has {counted(count, 'entry')}.",
                f"data_format {data_format!r} has {counted(expected, 'pooled axis')}.",
                "Give one entry per pooled axis, or a layout with that many pooled axes."
                + advice_without_others(kernel),
            )
        )
    if len(shape) != len(data_format):
        raise ValueError(
            message(
                f"the array has {counted(len(shape), 'axis')}.",
                f"Its shape is {shape}; data_format {data_format!r} has {len(data_format)}.",
                'Give an array of that rank, or "channels_last" / "channels_first", which '
                "accept any number of leading batch axes.",
            )
        )


def _check_rank(
    data_format: str, count: int, shape: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    if len(shape) < count + 1:
        letters = _SPATIAL[-count:] if count <= len(_SPATIAL) else "HW"
        raise ValueError(
            message(
                f"the array has {counted(len(shape), 'axis')}, too few for "
                f"{counted(count, 'pooled axis')}.",
                f"Its shape is {shape}; {data_format!r} needs {counted(count, 'pooled axis')} and "
                "a channel axis, after any number of batch axes.",
                f'Give an array with channels, or a layout without them, such as "{letters}".'
                + advice_without_others(kernel),
            )
        )


def with_lengths(
    shape: Sequence[int], axes: Sequence[int], lengths: Sequence[int]
) -> tuple[int, ...]:
    """Return ``shape`` with the given lengths on ``axes``."""
    result = list(shape)
    for axis, length in zip(axes, lengths, strict=True):
        result[axis] = length
    return tuple(result)
