"""Pooling layers of the neural network libraries: ``linen``, ``nnx``, ``haiku``, ``equinox``.

Each is a separate module, imported on first use, so only the libraries in use must be installed.
All modules have the same layers. A layer holds the static settings of an op, with the same names
and meanings, and calls the op. Only ``GeMPool`` has a parameter, and only ``StochasticPool`` and
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


if not TYPE_CHECKING:  # or a type checker would accept every name

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return importlib.import_module(f".{name}", __name__)
        raise no_attribute(__name__, name, f": it has {', '.join(__all__)}")
