"""Conversion of arguments to ints, bools and tuples, with errors that show the caller's value."""

import itertools
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from .._errors import counted, message, shown

Integers = SupportsIndex | Sequence[SupportsIndex]
"""The type of a setting: one integer, of Python or NumPy, or one for each pooled axis."""

MAX_AXES = 32
_MAX_ENTRIES = 2**28
_NUMBER_TYPES = frozenset((bool, int, float, complex))


def integer(name: str, value: Any, least: float) -> int:
    """Return ``value`` as an int, or raise unless it is an integer of at least ``least``."""
    try:
        if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
            raise TypeError
        number = operator.index(value)
    except Exception:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                f"${name} contains {shown(value)}, which is not an integer.",
                f"Its type is {type(value).__name__}; settings of a window are static integers.",
                _advice_for(name, value),
            )
        ) from None
    if number < least:
        raise ValueError(
            message(
                f"${name} contains {number}.",
                f"It must be at least {least}.",
                "Crop the array instead of padding by less."
                if name == "padding"
                else "Give a larger integer.",
            )
        )
    return number


def _advice_for(name: str, value: Any) -> str:
    """Return what to write for ``value``, which is not an integer."""
    if name == "strides" and isinstance(value, str) and value.isidentifier():
        return "Give the strides before $padding, or $padding by name."
    if name == "strides" and value is None:
        return "Give for example 2; None is not replaced by a default."
    if name == "padding" and value is None:
        return "Give 0 for no padding."
    if _is_array_of_floats(value):
        return f"Give integers; the array itself comes before ${name}."
    return "Give a Python or NumPy integer, not a bool, float, tracer or symbolic value."


def _is_array_of_floats(value: Any) -> bool:
    try:
        return value.ndim > 0 and value.dtype.kind not in "iu"
    except Exception:  # whatever the object's own attributes raise
        return False


def as_bool(name: str, value: Any, meaning: str = "") -> bool:
    """Return ``value`` as a bool, or raise an error that states its ``meaning``."""
    if type(value).__name__ in ("bool", "bool_"):  # Python's or NumPy's
        return bool(value)
    raise TypeError(
        message(
            f"${name} = {shown(value)} is not a bool.",
            meaning or f"Its type is {type(value).__name__}.",
            "Give True or False.",
        )
    )


def is_sequence(value: Any) -> bool:
    """Return whether ``value`` is a sequence of entries: a list, tuple or array of rank >= 1."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__getitem__"):
        return False
    try:
        return length_of(value) >= 0
    except Exception:  # len of an array of rank 0 raises, and an object may raise any error
        return False


def entries_of(name: str, value: Any) -> tuple[Any, ...]:
    """Return the entries of a sequence as a tuple.

    Raise if the sequence is too long, or if iteration over it fails or does not give ``len(value)``
    entries. Iteration that never ends is cut off.
    """
    length = length_of(value)
    if length > MAX_AXES:
        raise ValueError(
            message(
                f"${name} = {shown(value)} has {counted(length, 'entry')}.",
                f"It needs one per pooled axis, and 1 to {MAX_AXES} axes can be pooled.",
                "Give one entry for each pooled axis.",
            )
        )
    try:
        entries = value if isinstance(value, tuple) else tuple(itertools.islice(value, length + 1))
        if len(entries) == length:
            return tuple(entries)
        count = "more" if len(entries) > length else str(len(entries))
        fault = f"it has a length of {length}, but yields {count} entries"
    except Exception as error:  # whatever the object's own iteration raises
        fault = f"iterating over it raises {type(error).__name__}"
    raise TypeError(
        message(
            f"${name} = {shown(value)} cannot be read entry by entry.",
            f"Its type is {type(value).__name__}; {fault}.",
            "Give a tuple of integers.",
        )
    )


def check_finite(value: Any, depth: int = 0) -> None:
    """Raise if reading an array-like object entry by entry may not end, at any depth of nesting."""
    is_scalar = isinstance(value, (str, bytes, Mapping)) or hasattr(value, "dtype")
    if is_scalar or depth > MAX_AXES or not hasattr(value, "__getitem__"):
        return
    if any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__jax_array__")):
        return
    try:
        length = length_of(value)
        if length > _MAX_ENTRIES:
            raise ValueError(f"it has {length} entries, more than {_MAX_ENTRIES}")
        if isinstance(value, (range, memoryview)):
            return
        is_builtin = isinstance(value, (list, tuple))
        entries = value if is_builtin else list(itertools.islice(iter(value), length + 1))
    except TypeError:  # an object without a length or entries is read as a scalar
        return
    if len(entries) > length:
        raise ValueError(f"it has a length of {length}, but yields more entries")
    if not set(map(type, entries)) <= _NUMBER_TYPES:
        for entry in entries:
            check_finite(entry, depth + 1)


def length_of(value: Any) -> int:
    """Return ``len(value)``, or the largest length of a sequence if ``len`` overflows."""
    try:
        return len(value)
    except OverflowError:  # a range longer than any array
        return sys.maxsize


def check_length(
    name: str, value: Any, count: int, neutral: str = "1", kind: str = "integer"
) -> None:
    """Raise unless ``value``, the argument ``name``, has ``count`` entries of ``kind``.

    ``neutral`` is as in :func:`advice_without_others`.
    """
    length = length_of(value)
    if length != count:
        raise ValueError(
            message(
                f"${name} = {shown(value)} has {counted(length, 'entry')}.",
                f"The window slides along {counted(count, 'axis')}.",
                f"Give one {kind} for all of them, or one entry for each."
                + (advice_without_others(value, neutral) if length == count + 2 else ""),
            )
        )


def advice_without_others(entries: Any, neutral: str = "1") -> str:
    """Return the advice to drop entries that seem to be for batch and channel axes, or ``""``.

    Such an entry is the number ``neutral``, which leaves an axis unchanged, or two of them.
    """
    if type(entries) not in (tuple, list) or len(entries) < 3:
        return ""
    last, first = ((entries[0], entries[-1]), entries[1:-1]), (entries[:2], entries[2:])
    without_batch = entries[-1:], entries[:-1]
    for others, pooled in (last, first, without_batch):
        if all(_is_neutral(entry, neutral) for entry in others):
            return f" If some are for batch and channels, leave them out: {shown(pooled)}."
    return ""


def _is_neutral(entry: Any, neutral: str) -> bool:
    """Return whether this entry of a window, strides or padding leaves its axis unchanged."""
    pairs = f"({neutral}, {neutral})", f"[{neutral}, {neutral}]"
    return type(entry) in (int, tuple, list) and repr(entry) in (neutral, *pairs)


def per_axis(name: str, value: Any, count: int, least: float = 1) -> tuple[int, ...]:
    """Return ``value``, an int or one int per pooled axis, as ``count`` ints of at least ``least``.

    Raise an error about the argument ``name`` unless it fits.
    """
    if is_sequence(value):
        check_length(name, value, count)
    integers = int_or_ints(name, value, least)
    return (integers,) * count if isinstance(integers, int) else integers


def int_or_ints(name: str, value: Any, least: float = 1) -> int | tuple[int, ...]:
    """Return ``value``, an int or a sequence of ints of at least ``least``, or raise."""
    if not is_sequence(value):
        return integer(name, value, least)
    return tuple(integer(name, entry, least) for entry in entries_of(name, value))
