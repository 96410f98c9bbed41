"""The pooling of a model file as calls of ``jaxpool.compat``: ``python -m jaxpool port``.

A file is read by its suffix (``READERS``) into one :class:`Node` a pooling operation; nothing
but the file is opened. The file is not trusted: see :mod:`jaxpool._port.text` for what is printed
of it, and :mod:`jaxpool._port.check` for what a check may cost.
"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from .._errors import message, shown
from .._explain.axes import axis_lines
from .._geometry.resolve import geometry
from .check import compared, module
from .nodes import OPEN, Node, Reader, Unchecked, Unsupported
from .onnx_file import onnx_nodes
from .openvino_ir import openvino_nodes
from .text import printable

_LONGEST_NAME = 200

# A new kind of file is one row here.
READERS = {
    ".onnx": Reader(onnx_nodes, "ONNX Runtime", "onnxruntime"),
    ".xml": Reader(openvino_nodes, "OpenVINO", "openvino"),
}


def port(path: str, check: bool = False) -> int:
    """Print every pooling operation of a model file and the call for it.

    Args:
      path: of an ONNX file, or of the ``.xml`` file of an OpenVINO model.
      check: also run each operation by itself and compare with ONNX Runtime or OpenVINO.
    Returns:
      0, or 1 if an operation cannot be expressed, cannot be checked or differs.
    Raises:
      OSError: the file cannot be read. ValueError: it is no model, or is cut short.
      ModuleNotFoundError: the package that reads it, or the one that checks it, is not installed.
    """
    reader = READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise ValueError(
            message(
                f"{shown(path)} does not end in {' or '.join(READERS)}.",
                "Models of ONNX (.onnx) and of OpenVINO (.xml) can be read.",
                "Export the model to one of the two.",
            )
        )
    if check:
        module(reader.package)
    nodes = list(reader.nodes(path))
    print(printable(f"{path}: pooling operations: {len(nodes)}"))
    sound = 0
    for node in nodes:
        print()
        print(printable(f"{_cut(node.name) or '(no name)'}: {_cut(node.operator)}"))
        sound += _show(node, reader if check else None)
    if check:
        print(f"\n{sound} of {len(nodes)} agree with {reader.runtime} {version(reader.package)}")
    return int(sound < len(nodes))


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def _show(node: Node | Unsupported, checked_by: Reader | None) -> bool:
    """Print an operation; return whether all is well with it."""
    try:
        _print(_lines(node))
        if isinstance(node, Unsupported):
            return False
        if checked_by is not None:
            _print([f"agrees with {checked_by.runtime} {compared(node)}"])
    except Unchecked as error:
        _print(f"not checked: {error}".splitlines())
    except AssertionError as error:
        _print(f"differs: {str(error).strip()}".splitlines())
    except (TypeError, ValueError, NotImplementedError) as error:
        _print(f"refused: {error}".splitlines())
    except Exception as error:  # one operation of a broken file does not hide the others
        _print(f"refused: {type(error).__name__}: {error}".splitlines())
    else:
        return True
    return False


def _print(lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        print(printable(f"  {line.strip()}"))


def _lines(node: Node | Unsupported) -> Iterator[str]:
    if isinstance(node, Unsupported):
        yield "cannot be expressed:"
        yield from node.reason.splitlines()
        return
    yield _array_text(node)
    if node.shape and node.windows and OPEN not in node.shape[2:]:
        kernel, strides, padding, dilations, rounding = node.windows(node.shape[2:])
        settings = {"dilations": dilations, "rounding": rounding}
        axes = geometry(node.shape[2:], kernel, strides, padding, **settings).axes
        for number, axis in enumerate(axes, start=2):
            yield from axis_lines(axis, number)
    yield from node.call


def _array_text(node: Node) -> str:
    if node.dtype is None:
        return "array of a shape and a dtype that the file does not say"
    if node.shape is None:
        return f"{node.dtype} array of a shape that the file does not say"
    lengths = ("?" if n == OPEN else str(n) for n in node.shape)
    return f"{node.dtype} ({', '.join(lengths)})"
