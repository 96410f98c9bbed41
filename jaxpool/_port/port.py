"""Print the pooling of a model file as calls of ``jaxpool.compat``: ``python -m jaxpool port``.

The suffix of the file selects a reader of ``READERS``, which yields one :class:`Node` per pooling
operation and opens only that file. The file is not trusted: :mod:`jaxpool._port.text` makes its
text safe to print, and :mod:`jaxpool._port.check` bounds the cost of a check.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from .._errors import message, shown
from .._explain.axes import axis_lines
from .check import check_array, compare, module
from .nodes import OPEN, Node, Reader, Unchecked, Unsupported
from .onnx_file import onnx_nodes
from .openvino_file import openvino_nodes
from .text import is_plain, printable

_LONGEST_NAME = 200

# To support another kind of file, add a row here.
READERS = {
    ".onnx": Reader(onnx_nodes, "ONNX Runtime", "onnxruntime"),
    ".xml": Reader(openvino_nodes, "OpenVINO", "openvino"),
}


def port(path: str, check: bool = False) -> int:
    """Print every pooling operation of a model file and the call for it.

    Args:
      path: path of an ONNX file, or of the ``.xml`` file of an OpenVINO model.
      check: also run each operation separately and compare it with ONNX Runtime or OpenVINO.
    Returns:
      0, or 1 if an operation cannot be expressed, cannot be checked or differs.
    Raises:
      OSError: the file cannot be read. ValueError: the file is not a model, or is truncated.
      ModuleNotFoundError: the package that reads or checks the file is not installed.
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
    passed = 0
    for node in nodes:
        print()
        print(printable(f"{_shorten(node.name) or '(no name)'}: {_shorten(node.operator)}"))
        passed += _print_node(node, reader if check else None)
    if check:
        print(f"\n{passed} of {len(nodes)} agree with {reader.runtime} {version(reader.package)}")
    return int(passed < len(nodes))


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def _print_node(node: Node | Unsupported, checked_by: Reader | None) -> bool:
    """Print an operation; return whether it can be expressed and passes the check, if any."""
    try:
        _print_lines(_lines(node))
        if checked_by is not None and isinstance(node, Node):
            _print_lines([f"agrees with {checked_by.runtime} {compare(node)}"])
        return isinstance(node, Node)
    except Unchecked as error:
        problem = f"not checked: {error}"
    except AssertionError as error:
        problem = f"differs: {str(error).strip()}"
    except (TypeError, ValueError, NotImplementedError) as error:
        problem = f"rejected: {error}"
    except Exception as error:  # one broken operation must not hide the others
        problem = f"rejected: {type(error).__name__}: {error}"
    _print_lines(problem.splitlines())
    return False


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(f"  {line.strip()}"))


def _lines(node: Node | Unsupported) -> Iterator[str]:
    if isinstance(node, Unsupported):
        yield "cannot be expressed:"
        yield from node.reason.splitlines()
        return
    yield _describe_array(node)
    sizes = node.channels_second(node.shape or ())[2:]
    if node.shape and node.windows and OPEN not in sizes:
        for number, axis in enumerate(node.axes(sizes), start=1 if node.channels_last else 2):
            yield from axis_lines(axis, number)
    check_array(node)
    yield from node.call


def _describe_array(node: Node) -> str:
    if node.dtype is None:
        return "array of unknown shape and dtype"
    if node.shape is None:
        return f"{node.dtype} array of unknown shape"
    names = node.length_names or ("",) * len(node.shape)
    lengths = (
        str(n) if n != OPEN else name if is_plain(name) else "?"
        for n, name in zip(node.shape, names, strict=True)
    )
    return f"{node.dtype} ({', '.join(lengths)})"
