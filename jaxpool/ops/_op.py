"""What an op is to the code that calls and compiles it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Op:
    """An op on arrays.

    Attributes:
      name: of the compiled function, as profiles and HLO show it.
      body: the traced part, ``body(x, *others, **canonical)``. The canonical arguments are
        ``config``, if the op has windows, and its options.
      canonicalize: checks the options as written and returns canonical ones, hashable.
      arrays: names of the arrays beside ``x``, any of which may be None.
      per_element: those of them with a number for each element, or of length 1 on an axis.
      is_random: whether it draws numbers, as many as windows.
      convert: what makes window offsets the indices that its options name, of an op that returns
        both values and indices: ``convert(offsets, shape, geometry, masked=.., **options)``. Where
        its option ``index_space`` is "window", the op returns the offsets themselves.
      padding: of its options, what its padding is: None, nothing; "constant", zeros that count; or
        a border of ``_lowerings.parts.borders``.
      has_reduction: whether its option ``reduction`` is a reduction, of a caller maybe.
      is_twofold: whether it has windows over the results of windows.
    """

    name: str
    body: Callable[..., Any]
    canonicalize: Callable[..., dict[str, Any]] = dict
    arrays: tuple[str, ...] = ("where",)
    per_element: tuple[str, ...] = ()
    is_random: bool = False
    convert: Callable[..., Any] | None = None
    padding: Callable[..., str | None] | None = None
    has_reduction: bool = False
    is_twofold: bool = False

    @property
    def takes_any_size(self) -> bool:
        """Whether what its windows read depends on no size, but for what its padding is."""
        return self.arrays[:1] == ("where",) and not self.is_random and not self.is_twofold
