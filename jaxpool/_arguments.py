"""What a caller wrote, as integers, bools and tuples, or an error in the caller's words."""

import operator
import sys
from collections.abc import Mapping
from typing import Any

from ._errors import message, shown

MOST_AXES = 32


def integer(op: str, name: str, value: Any, least: int) -> int:
    """Return ``value`` as an int of at least ``least``, or raise in the caller's words."""
    try:
        if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
            raise TypeError
        number = operator.index(value)
    except Exception:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                op,
                f"`{name}` holds {shown(value)}, which is not an integer.",
                f"Its type is {type(value).__name__}; settings of a window are static integers.",
                "Give a Python or NumPy integer; it may not be a bool, a float or a traced array.",
            )
        ) from None
    if number < least:
        raise ValueError(
            message(
                op,
                f"`{name}` holds {number}.",
                f"It must be at least {least}.",
                "Crop the array instead of padding by less."
                if name == "padding"
                else "Give a larger integer.",
            )
        )
    return number


def flag(op: str, name: str, value: Any, meaning: str = "") -> bool:
    """Return ``value`` if it is a bool, or raise, saying what it means."""
    if type(value).__name__ in ("bool", "bool_"):  # Python's or NumPy's
        return bool(value)
    raise TypeError(
        message(
            op,
            f"`{name}` = {shown(value)} is not a bool.",
            meaning or f"Its type is {type(value).__name__}.",
            "Give True or False.",
        )
    )


def is_sequence(value: Any) -> bool:
    """Whether ``value`` holds one entry per axis: a list, tuple or array."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__getitem__"):
        return False
    try:
        return length_of(value) >= 0
    except Exception:  # an array of rank 0 is a number, and an object may raise what it likes
        return False


def entries_of(op: str, name: str, value: Any) -> tuple[Any, ...]:
    """Return the entries of a sequence, or raise: it may be endless, or have a length and yet none.

    A tuple is returned as it is.
    """
    length = length_of(value)
    if length > MOST_AXES:
        raise ValueError(
            message(
                op,
                f"`{name}` = {shown(value)} has {length} entries.",
                f"It has one per pooled axis, and 1 to {MOST_AXES} axes can be pooled.",
                "Give one entry for each pooled axis.",
            )
        )
    try:
        found = tuple(value)
        if len(found) == length:
            return found
        fault = f"it has a length of {length}, but gives {len(found)} entries"
    except Exception as error:  # whatever the object's own iteration raises
        fault = f"iterating over it raises {type(error).__name__}"
    raise TypeError(
        message(
            op,
            f"`{name}` = {shown(value)} cannot be read entry by entry.",
            f"Its type is {type(value).__name__}; {fault}.",
            "Give a tuple of integers.",
        )
    )


def length_of(value: Any) -> int:
    try:
        return len(value)
    except OverflowError:  # a range longer than any array
        return sys.maxsize


def check_length(op: str, name: str, value: Any, count: int) -> None:
    length = length_of(value)
    if length != count:
        entries = "1 entry" if length == 1 else f"{length} entries"
        axes = "1 axis is pooled" if count == 1 else f"{count} axes are pooled"
        raise ValueError(
            message(
                op,
                f"`{name}` = {shown(value)} has {entries}.",
                f"{axes}, one for each entry of the window.",
                "Give one integer for all pooled axes, or one entry for each.",
            )
        )


def per_axis(op: str, name: str, value: Any, count: int, least: int = 1) -> tuple[int, ...]:
    """Return ``value``, one int or one per pooled axis, as a tuple of ``count`` ints."""
    if not is_sequence(value):
        return (integer(op, name, value, least),) * count
    check_length(op, name, value, count)
    return tuple(integer(op, name, entry, least) for entry in entries_of(op, name, value))
