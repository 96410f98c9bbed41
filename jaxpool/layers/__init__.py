"""Pooling layers of the neural network libraries: ``linen``, ``nnx``, ``haiku``, ``equinox``.

Each is a separate module, imported on first use, so only the libraries in use must be installed.
All modules have the same layers. A layer holds the static settings of an op, with the same names
and meanings, and calls the op. Only ``GeMPool`` has a parameter, and only ``StochasticPool`` and
``FractionalMaxPool`` are random.
"""

from typing import TYPE_CHECKING

from .._errors.missing_names import getter, of_modules

__all__ = ["equinox", "haiku", "linen", "nnx"]

if TYPE_CHECKING:
    from . import equinox as equinox
    from . import haiku as haiku
    from . import linen as linen
    from . import nnx as nnx


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_modules, __all__, submodules=__all__)
