"""``patch``: the pooling of installed libraries is replaced in place, until ``unpatch``.

What is replaced. A function keeps its identity and gets other code (``__code__``), so every
reference to it is served: ``nn.max_pool``, a name that a third package imported long ago, a
``partial``. A layer's ``__call__`` is replaced on its class, so every instance is served.

What stays. The stand-in has the arguments, shapes, dtypes and defaults of the library, through
:mod:`jaxpool.compat`. Whatever the stand-in refuses runs in the library's own code: complex
numbers, a reduction of one's own, a call that is wrong there too and raises the library's error.

Who holds a patch. Each call of ``patch`` is one holder of each of its libraries; leaving its
``with`` block takes it away, ``unpatch`` takes all away, and the last one to go restores the
library. So blocks may be nested, and overlap in threads.
"""

import importlib.util
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

from .._errors import message, public, shown
from .swap import Swap, apply, undo

UNNAMED = ("flax", "haiku", "equinox")
"""What is patched without a name: to import Keras would choose a backend for the process."""
LIBRARIES = (*UNNAMED, "keras")


@dataclass(frozen=True, eq=False, repr=False)
class Patch:
    """What one call of :func:`patch` holds; a context manager.

    Attributes:
      libraries: names of the libraries.
      replaced: full names of the functions and layers that are replaced.
    """

    libraries: tuple[str, ...]
    replaced: tuple[str, ...]

    def __enter__(self) -> "Patch":
        with _LOCK:
            _ENTERED[self] += 1
            _hold(self)
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
                _release(self.libraries, lambda holders: holders.discard(self))

    def __repr__(self) -> str:
        return f"jaxpool replaces {', '.join(self.replaced)}; jaxpool.unpatch() restores them"


@public
def patch(*libraries: str) -> Patch:
    """Replace the pooling of installed libraries in place.

    Models of other packages run their pooling in jaxpool afterwards, without an edit, with the
    shapes, dtypes and defaults that they had: ``nn.max_pool`` computes what
    ``jaxpool.compat.flax.max_pool`` does. Call it before a model is compiled: what JAX has
    compiled stays as it is, until ``jax.clear_caches()``.

    Args:
      libraries: "flax" (Linen and NNX, which share their pools), "haiku", "equinox"; without a
        name, all of these that are installed. Also "keras", on its JAX backend.
    Returns:
      A :class:`Patch`, which prints what was replaced. As a context manager it restores the
      libraries at the end of its block, unless another call of ``patch`` still holds them.
    Edge cases: calling it again changes nothing. What jaxpool refuses, such as complex numbers,
      runs in the library's own code. Sums of narrow floats and averages of integers are right where
      the library's are not, and the gradient of a maximum goes to the first one.
    Raises:
      ValueError: a library is not one of these.
      ModuleNotFoundError: a library is not installed.
      NotImplementedError: the installed version has pools with other arguments, or Keras has
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
    names = libraries or tuple(filter(_is_installed, UNNAMED))
    with _LOCK:
        swaps = {name: _swaps_of(name) for name in map(_check, names)}
        made = Patch(tuple(swaps), tuple(swap.name for row in swaps.values() for swap in row))
        _hold(made)
    return made


@public
def unpatch(*libraries: str) -> tuple[str, ...]:
    """Restore the pooling of libraries that :func:`patch` replaced.

    Every holder loses them: calls of ``patch``, and ``with`` blocks that have not ended.

    Args:
      libraries: as in :func:`patch`; without a name, all.
    Returns:
      Names of the libraries that were restored; those that were not patched are left out.
    Raises:
      ValueError: a library is not one that :func:`patch` knows.
    Example:
      >>> _ = jaxpool.patch("flax")
      >>> jaxpool.unpatch()
      ('flax',)
      >>> jaxpool.unpatch()
      ()
    """
    names = tuple(map(_check, libraries or LIBRARIES))
    return _release(names, lambda holders: holders.clear())


# --- holders --------------------------------------------------------------------------------------

_LOCK = threading.RLock()
_HOLDERS: dict[str, set[Patch]] = {}
_ENTERED: Counter[Patch] = Counter()
"""How many ``with`` blocks of one patch are open."""


def _hold(holder: Patch) -> None:
    """Let a holder hold its libraries, and replace their pooling if no other holds them."""
    with _LOCK:
        for name in holder.libraries:
            if not _HOLDERS.setdefault(name, set()):
                apply(_swaps_of(name))
            _HOLDERS[name].add(holder)


def _release(names: Iterable[str], drop: Callable[[set[Patch]], None]) -> tuple[str, ...]:
    """Drop holders; restore the libraries whose last holder went, and return their names."""
    restored = []
    with _LOCK:
        for name in names:
            holders = _HOLDERS.get(name, set())
            held = bool(holders)
            drop(holders)
            if held and not holders:
                undo(_swaps_of(name))
                restored.append(name)
    return tuple(restored)


def _swaps_of(library: str) -> tuple[Swap, ...]:
    """The swaps of a library; the front ends that they need are loaded when they are first used."""
    from .libraries import swaps_of

    return swaps_of(library)


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _check(library: str) -> str:
    if library not in LIBRARIES:
        raise ValueError(
            message(
                f"{shown(library)} is no library that can be patched.",
                f"Known are {', '.join(LIBRARIES)}; flax stands for Linen and NNX.",
                "For the arguments of other libraries see jaxpool.compat.",
            )
        )
    return library
