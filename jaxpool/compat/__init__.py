"""Front ends: the pooling of other libraries, with their names, defaults and results.

A front end is one file or folder. It translates names, defaults, layouts and rules into calls of
the ops. No front end imports its library; each front end is imported when it is first used.

In every front end an integer may be one of NumPy, and a sequence a tuple, a list or an array, also
where the library accepts fewer spellings. A bool or a float in place of an integer is an error, and
a flag is a bool (of ONNX 0 or 1), also where the library accepts other spellings.
"""

from typing import TYPE_CHECKING

from .._errors.missing_names import getter, of_modules

__all__ = [
    "equinox",
    "flax",
    "haiku",
    "keras",
    "mli",
    "onednn",
    "onnx",
    "openvino",
    "tensorflow",
    "torch",
]

if TYPE_CHECKING:
    from . import equinox as equinox
    from . import flax as flax
    from . import haiku as haiku
    from . import keras as keras
    from . import mli as mli
    from . import onednn as onednn
    from . import onnx as onnx
    from . import openvino as openvino
    from . import tensorflow as tensorflow
    from . import torch as torch


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_modules, __all__, submodules=__all__)
