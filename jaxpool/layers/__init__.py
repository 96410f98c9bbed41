"""Pooling layers of the neural network libraries: ``linen``, ``nnx``, ``haiku``, ``equinox``.

Each is a module of its own, loaded when it is first used, so that nobody needs a library that they
do not use. All have the same layers. A layer holds the static settings of an op, spelled and meant
as there, and calls it; only ``GeMPool`` learns anything, and only ``StochasticPool`` and
``FractionalMaxPool`` are random.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .._errors import no_attribute

__all__ = ["equinox", "haiku", "linen", "nnx"]

if TYPE_CHECKING:
    from . import equinox as equinox
    from . import haiku as haiku
    from . import linen as linen
    from . import nnx as nnx


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a checker would know every name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return importlib.import_module(f".{name}", __name__)
        raise no_attribute(__name__, name, f": it has {', '.join(__all__)}")
