"""The arguments of a filter call, resolved to the neighbourhood of every element.

Let the window have ``size`` taps and the origin ``s`` along an axis. Element ``i`` of the result is
computed from the elements ``i - low .. i + high`` of the array, with

    low = size // 2 + s,   high = size - 1 - low,   0 <= low < size.

A :class:`Settings` has the checked settings of a call, before the rank of the array is known. A
:class:`Neighborhood` holds the settings resolved for an array of known rank.

Source: the manual of scipy.ndimage, "Filter functions" and "Interpolation boundary handling".
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from .._errors import counted, message, shown
from .._errors.misuse import joined
from .._geometry.arguments import check_length, entries_of, int_or_ints, is_sequence
from ._static import Footprint, footprint_of, hashable, number

Mode = Literal[
    "reflect", "grid-mirror", "mirror", "nearest", "wrap", "grid-wrap", "constant", "grid-constant",
]  # fmt: skip
MODES: dict[Mode, str] = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "nearest": "nearest",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}
"""The canonical mode for every accepted name."""

LARGEST_ORIGIN = 2**31


@dataclass(frozen=True)
class Settings:
    """The checked settings of one call, hashable.

    Attributes:
      size: an int, a tuple with an int for each filtered axis, or None.
      footprint: mask of the window, or None.
      mode: a canonical mode of ``MODES``, or one for each filtered axis.
      cval: the value of elements outside the array under "constant".
      origin: an int, or one for each filtered axis.
      axes: the filtered axes, or None for all.
      options: settings that only this filter has.
    """

    size: int | tuple[int, ...] | None
    footprint: Footprint | None
    mode: str | tuple[str, ...]
    cval: float
    origin: int | tuple[int, ...]
    axes: tuple[int, ...] | None
    options: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Extent:
    """The neighbourhood along one axis.

    Attributes:
      position: the axis of the array, counted from the end (negative).
      size: number of taps.
      low: number of taps before the element itself.
      mode: how the axis is extended.
    """

    position: int
    size: int
    low: int
    mode: str

    @property
    def high(self) -> int:
        """Number of taps after the element itself."""
        return self.size - 1 - self.low


@dataclass(frozen=True)
class Neighborhood:
    """The neighbourhood of every element of an array.

    Attributes:
      extents: one for each filtered axis, in the order in which the caller named the axes.
      footprint: mask of the window, with an axis for each extent; None if it is all True.
      cval: the value of elements outside the array under "constant".
    """

    extents: tuple[Extent, ...]
    footprint: Footprint | None
    cval: float

    @property
    def mask(self) -> np.ndarray:
        """The footprint as a boolean array."""
        if self.footprint is None:
            return np.ones([extent.size for extent in self.extents], bool)
        return self.footprint.mask

    def mirrored(self) -> "Neighborhood":
        """Return the point reflection: the elements whose neighbourhoods contain an element."""
        extents = tuple(replace(extent, low=extent.high) for extent in self.extents)
        if self.footprint is None:
            return replace(self, extents=extents)
        return replace(self, extents=extents, footprint=hashable(np.flip(self.mask)))


def checked_settings(
    size: Any,
    footprint: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    options: tuple[Any, ...] = (),
    structure: bool | None = None,
) -> Settings:
    """Return the checked settings as a :class:`Settings`; errors name the caller's arguments.

    Args:
      size, footprint, mode, cval, origin, axes, options: as in :class:`Settings`, unchecked.
      structure: whether the caller passed a structure, whose shape is that of the window; None if
        the filter has no structures.
    """
    _check_window_arguments(size, footprint, structure)
    return Settings(
        None if size is None else int_or_ints("size", size),
        None if footprint is None else footprint_of("footprint", footprint),
        _canonical_modes(mode),
        number("cval", cval),
        int_or_ints("origin", origin, -LARGEST_ORIGIN),
        None if axes is None else _canonical_axes(axes),
        options,
    )


def _check_window_arguments(size: Any, footprint: Any, structure: bool | None) -> None:
    is_passed = {"size": size is not None, "footprint": footprint is not None}
    if structure is not None:
        is_passed["structure"] = structure
    passed = [name for name in is_passed if is_passed[name]]
    if passed and "size" not in passed[:-1]:
        return
    names = passed[:2] or list(is_passed)
    nothing = "neither" if structure is None else "none"
    raise ValueError(
        message(
            f"{joined([f'${name}' for name in names])} define the window.",
            f"Given: {joined([f'${name}' for name in passed]) if passed else nothing}.",
            f"Give either a size, for a rectangular window, or a {' or a '.join(names[1:])}.",
        )
    )


def _canonical_axes(axes: Any) -> tuple[int, ...]:
    entries = int_or_ints("axes", axes, -LARGEST_ORIGIN)
    return (entries,) if isinstance(entries, int) else entries


def _canonical_modes(mode: Any) -> str | tuple[str, ...]:
    if isinstance(mode, str) or not is_sequence(mode):
        return _canonical_mode(mode)
    return tuple(_canonical_mode(entry) for entry in entries_of("mode", mode))


def _canonical_mode(mode: Any) -> str:
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    raise ValueError(
        message(
            f"$mode = {shown(mode)} is not a mode.",
            f"The modes are {', '.join(MODES)}.",
            "Give one of them, or one for each filtered axis.",
        )
    )


# --- from the settings to the neighbourhood in an array -------------------------------------------


def resolve_neighborhood(
    settings: Settings, rank: int, structure_shape: tuple[int, ...] | None = None
) -> Neighborhood:
    """Return the neighbourhood that the settings describe in an array of ``rank`` axes.

    Args:
      settings: those of the call.
      rank: number of axes of the array.
      structure_shape: shape of the structure, if there is one.
    """
    positions = _positions(settings.axes, rank)
    count, footprint = len(positions), settings.footprint
    if footprint is not None:
        _check_same_shape(footprint.shape, structure_shape)
        sizes = _checked_shape("footprint", footprint.shape, count)
    elif structure_shape is not None:
        sizes = _checked_shape("structure", structure_shape, count)
    else:
        sizes = _per_axis("size", settings.size, count)
    modes = _per_axis("mode", settings.mode, count, "mode")
    origins = _per_axis("origin", settings.origin, count)
    extents = map(_extent, positions, sizes, origins, modes)
    is_full = footprint is None or bool(footprint.mask.all())
    return Neighborhood(tuple(extents), None if is_full else footprint, settings.cval)


def _positions(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Return the filtered axes, counted from the end."""
    if axes is None:
        return tuple(range(-rank, 0))
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(
                message(
                    f"$axes contains {axis}.",
                    f"The array has {counted(rank, 'axis')}, {-rank} to {rank - 1}.",
                    "Give axes of the array.",
                )
            )
    from_end = tuple(axis - rank if axis >= 0 else axis for axis in axes)
    if len(set(from_end)) != len(from_end):
        raise ValueError(
            message(
                f"$axes = {axes} names an axis twice.",
                f"The array has {counted(rank, 'axis')}; counted from the end they are {from_end}.",
                "Name each filtered axis once.",
            )
        )
    return from_end


def _per_axis(name: str, value: Any, count: int, kind: str = "integer") -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        return (value,) * count
    check_length(name, value, count, kind=kind)
    return value


def _check_same_shape(footprint: tuple[int, ...], structure: tuple[int, ...] | None) -> None:
    if structure is not None and structure != footprint:
        raise ValueError(
            message(
                f"$structure has shape {structure}, and $footprint has shape {footprint}.",
                "Both apply to the same window.",
                "Give them the same shape, or leave the footprint out.",
            )
        )


def _checked_shape(name: str, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    if 0 in shape:
        raise ValueError(
            message(
                f"${name} is empty.",
                f"It has shape {shape}; a window needs at least one element.",
                "Give an array with at least one element.",
            )
        )
    if len(shape) != count:
        raise ValueError(
            message(
                f"${name} has {counted(len(shape), 'axis')}.",
                f"Its shape is {shape}, and the filter slides along {counted(count, 'axis')}.",
                f"Give ${name} one axis for each filtered axis, or select these with $axes.",
            )
        )
    return shape


def _extent(position: int, size: int, origin: int, mode: str) -> Extent:
    low = size // 2 + origin
    if not 0 <= low < size:
        raise ValueError(
            message(
                f"$origin contains {origin}.",
                f"A window of {size} elements allows origins from {-(size // 2)} to "
                f"{(size - 1) // 2}: the window must contain its own position.",
                "Give an origin closer to 0.",
            )
        )
    return Extent(position, size, low, mode)
