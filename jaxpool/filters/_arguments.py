"""What a caller wrote, as the neighbourhood of an element.

Along an axis let the window have ``size`` taps and the origin ``s``. The element ``i`` of the
result is made of the elements ``i - low .. i + high`` of the array, with

    low = size // 2 + s,   high = size - 1 - low,   0 <= low < size.

A :class:`Request` is what was asked for, before the rank of the array is known; a
:class:`Neighborhood` is what that means for an array.

Source: the manual of scipy.ndimage, "Filter functions" and "Interpolation boundary handling".
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._errors import counted, message, shown
from .._geometry.arguments import check_length, entries_of, integer, is_sequence
from ._static import Footprint, footprint_of, hashable, number

MODES = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "nearest": "nearest",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}
"""The names of the modes, and the mode of that name."""

LARGEST_ORIGIN = 2**31


@dataclass(frozen=True)
class Request:
    """The settings of one call, hashable.

    Attributes:
      size: one int, one per axis, or None.
      footprint: which elements of the window belong to it, or None.
      mode: one of ``MODES``, or one per axis.
      cval: the value of elements outside the array under "constant".
      origin: one int, or one per axis.
      axes: the axes that are filtered, or None for all.
      own: settings of the filter's own.
    """

    size: int | tuple[int, ...] | None
    footprint: Footprint | None
    mode: str | tuple[str, ...]
    cval: float
    origin: int | tuple[int, ...]
    axes: tuple[int, ...] | None
    own: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Extent:
    """The neighbourhood along one axis.

    Attributes:
      position: the axis of the array, counted from the end (negative).
      size: taps from the first to the last.
      low: taps before the element itself.
      mode: how the axis goes on past its ends.
    """

    position: int
    size: int
    low: int
    mode: str

    @property
    def high(self) -> int:
        """Taps after the element itself."""
        return self.size - 1 - self.low


@dataclass(frozen=True)
class Neighborhood:
    """The neighbourhood of every element of an array.

    Attributes:
      extents: one for each filtered axis, in the order in which the caller named them.
      footprint: which taps belong to it, an axis for each extent; None for all.
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
        """The elements whose neighbourhoods hold an element: the same, point-reflected."""
        extents = tuple(replace(extent, low=extent.high) for extent in self.extents)
        if self.footprint is None:
            return replace(self, extents=extents)
        return replace(self, extents=extents, footprint=hashable(np.flip(self.mask)))


def request(
    size: Any,
    footprint: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    own: tuple[Any, ...] = (),
    structure: bool = False,
) -> Request:
    """Return the settings as a :class:`Request`, or raise in the caller's words.

    Args:
      size, footprint, mode, cval, origin, axes, own: as in :class:`Request`, as written.
      structure: whether a structure is given, which has a size.
    """
    _check_given(size, footprint, structure)
    return Request(
        None if size is None else _integers("size", size, 1),
        None if footprint is None else footprint_of("footprint", footprint),
        _modes(mode),
        number("cval", cval),
        _integers("origin", origin, -LARGEST_ORIGIN),
        None if axes is None else _axes(axes),
        own,
    )


def _check_given(size: Any, footprint: Any, structure: bool) -> None:
    given = [
        name
        for name, there in (
            ("size", size is not None),
            ("footprint", footprint is not None),
            ("structure", structure),
        )
        if there
    ]
    if not given or "size" in given[:-1]:
        named = " and ".join(f"${name}" for name in given) or "neither"
        other = given[1] if given else "footprint"
        raise ValueError(
            message(
                f"$size and ${other} say what the window is.",
                f"Given: {named}.",
                f"Give a size for a rectangular window, or else a {other}.",
            )
        )


def _integers(name: str, value: Any, least: int) -> int | tuple[int, ...]:
    if not is_sequence(value):
        return integer(name, value, least)
    return tuple(integer(name, entry, least) for entry in entries_of(name, value))


def _axes(axes: Any) -> tuple[int, ...]:
    found = _integers("axes", axes, -LARGEST_ORIGIN)
    return (found,) if isinstance(found, int) else found


def _modes(mode: Any) -> str | tuple[str, ...]:
    if isinstance(mode, str) or not is_sequence(mode):
        return _mode(mode)
    return tuple(_mode(entry) for entry in entries_of("mode", mode))


def _mode(mode: Any) -> str:
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    raise ValueError(
        message(
            f"$mode = {shown(mode)} is not a mode.",
            f"The modes are {', '.join(MODES)}.",
            "Give one of them, or one for each filtered axis.",
        )
    )


# --- from a request to the neighbourhood in an array ----------------------------------------------


def neighborhood(
    asked: Request, rank: int, shape: tuple[int, ...] | None = None, name: str = "footprint"
) -> Neighborhood:
    """Return what ``asked`` means for an array of ``rank`` axes.

    Args:
      asked: the settings.
      rank: axes of the array.
      shape: shape of the window if neither size nor footprint give it.
      name: what gives the shape of the window, for messages.
    """
    positions = _positions(asked.axes, rank)
    count = len(positions)
    if asked.footprint is not None:
        _check_alike(asked.footprint.shape, shape, name)
        shape, name = asked.footprint.shape, "footprint"
    if shape is not None:
        _check_shape(name, shape, count)
    sizes = shape if shape is not None else _spread("size", asked.size, count)
    modes, origins = _spread("mode", asked.mode, count), _spread("origin", asked.origin, count)
    extents = map(_extent, positions, sizes, origins, modes)
    footprint = asked.footprint
    whole = footprint is None or bool(footprint.mask.all())
    return Neighborhood(tuple(extents), None if whole else footprint, asked.cval)


def _positions(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The filtered axes, counted from the end."""
    if axes is None:
        return tuple(range(-rank, 0))
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(
                message(
                    f"$axes holds {axis}.",
                    f"The array has {counted(rank, 'axis')}, {-rank} to {rank - 1}.",
                    "Give axes of the array.",
                )
            )
    found = tuple(axis - rank if axis >= 0 else axis for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(
            message(
                f"$axes = {axes} names an axis twice.",
                f"The array has {counted(rank, 'axis')}; counted from the end they are {found}.",
                "Name each filtered axis once.",
            )
        )
    return found


def _spread(name: str, value: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        return (value,) * count
    check_length(name, value, count)
    return value


def _check_alike(footprint: tuple[int, ...], shape: tuple[int, ...] | None, name: str) -> None:
    if shape is not None and shape != footprint:
        raise ValueError(
            message(
                f"${name} has shape {shape}, and $footprint has shape {footprint}.",
                "Both lie on the same window, tap on tap.",
                "Give them the same shape, or leave the footprint out.",
            )
        )


def _check_shape(name: str, shape: tuple[int, ...], count: int) -> None:
    if 0 in shape:
        raise ValueError(
            message(
                f"${name} is empty.",
                f"It has shape {shape}; a window needs at least one element.",
                "Give an array of one number or more.",
            )
        )
    if len(shape) != count:
        raise ValueError(
            message(
                f"${name} has {counted(len(shape), 'axis')}.",
                f"Its shape is {shape}, and {count} axes are filtered.",
                f"Give a {name} with one axis for each filtered axis, or say by $axes which "
                "axes are filtered.",
            )
        )


def _extent(position: int, size: int, origin: int, mode: str) -> Extent:
    low = size // 2 + origin
    if not 0 <= low < size:
        raise ValueError(
            message(
                f"$origin holds {origin}.",
                f"A window of {size} elements allows origins from {-(size // 2)} to "
                f"{(size - 1) // 2}: the window must reach over its own place.",
                "Give an origin nearer to 0.",
            )
        )
    return Extent(position, size, low, mode)
