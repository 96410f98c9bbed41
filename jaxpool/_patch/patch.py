"""``patch``: replace the pooling of installed libraries in place, until ``unpatch``.

*Replaced.* A function keeps its identity and gets new code (``__code__``), so every reference to it
is affected: ``nn.max_pool``, a name that a third package imported earlier, a ``partial``. The
``__call__`` of a layer is replaced on its class, so every instance is affected.

*Unchanged.* The stand-ins keep the arguments, shapes, dtypes and defaults of the library, through
:mod:`jaxpool.compat`. Calls that a stand-in rejects run the code of the library: complex numbers, a
user-defined reduction, or an invalid call, which then raises the library's error.

*Holders.* Each call of ``patch`` is one holder of each of its libraries. Leaving a ``with`` block
removes its holder, and ``unpatch`` removes all holders. Removing the last holder restores the
library. So blocks may be nested, and may overlap in threads.
"""

import importlib.util
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

from .._errors import message, public, shown
from .swap import Swap, apply, undo

DEFAULT_LIBRARIES = ("flax", "haiku", "equinox")
"""Libraries that are patched by default. Importing Keras would fix the backend of the process."""
LIBRARIES = (*DEFAULT_LIBRARIES, "keras")


@dataclass(frozen=True, eq=False, repr=False)
class Patch:
    """The result of :func:`patch`: a holder of the patched libraries, and a context manager.

    Attributes:
      libraries: names of the libraries.
      replaced: full names of the replaced functions and layers.
    """

    libraries: tuple[str, ...]
    replaced: tuple[str, ...]

    def __enter__(self) -> "Patch":
        with _LOCK:
            _ENTERED[self] += 1
            _add_holder(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _LOCK:
            _ENTERED[self] -= 1
            if not _ENTERED[self]:
                del _ENTERED[self]
                _drop_holders(self.libraries, lambda holders: holders.discard(self))

    def __repr__(self) -> str:
        return f"jaxpool replaces {', '.join(self.replaced)}; jaxpool.unpatch() restores them"


@public
def patch(*libraries: str) -> Patch:
    """Replace the pooling of installed libraries in place.

    Afterwards, unmodified models of other packages run their pooling in jaxpool, with the same
    shapes, dtypes and defaults as before: ``nn.max_pool`` computes what
    ``jaxpool.compat.flax.max_pool`` does. Call it before a model is compiled: functions that JAX
    has already compiled do not change until ``jax.clear_caches()``.

    Args:
      libraries: "flax" (Linen and NNX, which share their pools), "haiku", "equinox"; default: all
        of these that are installed. Also "keras", with its JAX backend.
    Returns:
      A :class:`Patch`, whose ``repr`` lists the replaced functions. As a context manager it
      restores the libraries at the end of its block, unless another call of ``patch`` still holds
      them.
    Edge cases: a second call changes nothing. Calls that jaxpool rejects, such as those with
      complex numbers, run the code of the library. Sums of low-precision floats and averages of
      integers are correct where those of the library are not, and the gradient of a maximum goes to
      the first maximum.
    Raises:
      ValueError: a library is not one of these.
      ModuleNotFoundError: a library is not installed.
      NotImplementedError: the pools of the installed version have other arguments, or Keras uses
        another backend.
    Example:
      >>> from flax import linen as nn
      >>> x = jnp.ones((1, 32, 32, 1), jnp.bfloat16)
      >>> nn.avg_pool(x, (32, 32)).item()
      0.25
      >>> with jaxpool.patch("flax"):
      ...     nn.avg_pool(x, (32, 32)).item()
      1.0
    """
    names = libraries or tuple(filter(_is_installed, DEFAULT_LIBRARIES))
    with _LOCK:
        swaps = {name: _swaps_of(name) for name in map(_check_library, names)}
        holder = Patch(tuple(swaps), tuple(swap.name for row in swaps.values() for swap in row))
        _add_holder(holder)
    return holder


@public
def unpatch(*libraries: str) -> tuple[str, ...]:
    """Restore the pooling of libraries that :func:`patch` replaced.

    This also ends the effect of ``with`` blocks that have not ended yet.

    Args:
      libraries: as in :func:`patch`; default all.
    Returns:
      Names of the libraries that were restored, without those that were not patched.
    Raises:
      ValueError: a library is not one that :func:`patch` knows.
    Example:
      >>> _ = jaxpool.patch("flax")
      >>> jaxpool.unpatch()
      ('flax',)
      >>> jaxpool.unpatch()
      ()
    """
    names = tuple(map(_check_library, libraries or LIBRARIES))
    return _drop_holders(names, lambda holders: holders.clear())


# --- holders --------------------------------------------------------------------------------------

_LOCK = threading.RLock()
_HOLDERS: dict[str, set[Patch]] = {}
_ENTERED: Counter[Patch] = Counter()
"""The number of open ``with`` blocks of each patch."""


def _add_holder(holder: Patch) -> None:
    """Add a holder to its libraries, and replace the pooling of those that had no holder."""
    with _LOCK:
        for name in holder.libraries:
            if not _HOLDERS.setdefault(name, set()):
                apply(_swaps_of(name))
            _HOLDERS[name].add(holder)


def _drop_holders(names: Iterable[str], drop: Callable[[set[Patch]], None]) -> tuple[str, ...]:
    """Drop holders; restore the libraries that lost their last holder, and return their names."""
    restored = []
    with _LOCK:
        for name in names:
            holders = _HOLDERS.get(name, set())
            had_holders = bool(holders)
            drop(holders)
            if had_holders and not holders:
                undo(_swaps_of(name))
                restored.append(name)
    return tuple(restored)


def _swaps_of(library: str) -> tuple[Swap, ...]:
    """Return the swaps of a library; imports the front ends on first use."""
    from .libraries import swaps_of

    return swaps_of(library)


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _check_library(library: str) -> str:
    if not isinstance(library, str) or library not in LIBRARIES:
        raise ValueError(
            message(
                f"{shown(library)} is not a library that can be patched.",
                f"The libraries are {', '.join(LIBRARIES)}; flax means Linen and NNX.",
                'Give names such as "flax", "haiku"; for other libraries see jaxpool.compat.',
            )
        )
    return library
