"""Other libraries' pooling, with their names, defaults and results: one front end a file.

A front end translates names, defaults, layouts and rules into calls of the ops. None imports the
library that it stands for; each is loaded when it is first used.
"""

import importlib
from typing import Any

# pyright: reportUnsupportedDunderAll=false
# Each name is a module, found by __getattr__ below.
__all__ = [
    "equinox",  # noqa: F822
    "flax",  # noqa: F822
    "haiku",  # noqa: F822
    "keras",  # noqa: F822
    "mli",  # noqa: F822
    "onednn",  # noqa: F822
    "onnx",  # noqa: F822
    "openvino",  # noqa: F822
    "tensorflow",  # noqa: F822
    "torch",  # noqa: F822
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
