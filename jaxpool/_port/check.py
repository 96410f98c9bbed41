"""A check of one operation: numbers of our own through jaxpool and through the file's runtime.

A file may ask for any amount of work. What a check would cost is counted before it runs, and what
costs more than ``MOST_ELEMENTS`` or ``MOST_STEPS`` is left out, with the reason.
"""

import importlib
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import message
from .._geometry.resolve import geometry
from .nodes import OPEN, Node, Unchecked

MOST_ELEMENTS = 2**27
"""Of an array, or of a result."""
MOST_STEPS = 2**32
"""Elements that a runtime reads, window by window; a runtime of the simplest kind takes seconds."""
_OPEN_LENGTHS = (2, 3, 32)
"""What is taken for an open batch, for open channels and for an open pooled axis."""


def compared(node: Node) -> str:
    """Run the operation on both sides; return what it ran on, or raise if they differ."""
    shape, dtype = _tried_array(node)
    _check_cost(node, shape)
    x = _numbers(shape, dtype)
    inputs = x, *node.others(x)
    ours = node.run(*inputs)
    try:
        theirs = node.peer(*inputs)
    except Exception as error:  # each runtime raises types of its own
        lines = (line for line in str(error).splitlines() if line and "Exception from" not in line)
        reason = next(lines, type(error).__name__)
        raise Unchecked(f"the runtime refuses it on an array {shape}: {reason}") from None
    for mine, other in zip(ours, theirs, strict=True):
        # A maximum is exact; the order of a sum, and so its last bits, is free.
        exact = node.operator.endswith(("MaxPool", "MaxUnpool"))
        np.testing.assert_allclose(
            np.asarray(mine, np.float64),
            np.asarray(other, np.float64),
            rtol=0 if exact else 32 * float(jnp.finfo(_float_like(dtype)).eps),
            err_msg=f"on an array {shape}",
        )
    return f"on an array {shape}"


def _tried_array(node: Node) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the array, with lengths for those that the file leaves open."""
    if node.shape is None or node.dtype is None:
        source = node.unknown_from and f"; onnx finds none of what {node.unknown_from} gives"
        raise Unchecked(f"the file does not say the shape of its array{source}")
    lengths = (*_OPEN_LENGTHS[:2], *_OPEN_LENGTHS[2:] * (len(node.shape) - 2))
    shape = zip(node.shape, lengths, strict=False)
    return tuple(other if n == OPEN else n for n, other in shape), node.dtype


def _check_cost(node: Node, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST_ELEMENTS:
        raise Unchecked(f"an array {shape} is too large to try")
    outputs, steps = _cost(node, shape)
    if outputs > MOST_ELEMENTS:
        raise Unchecked(f"a result of {outputs} elements is too large to try")
    if steps > MOST_STEPS:
        raise Unchecked(f"it reads {steps} elements, too many to try; at most {MOST_STEPS} are")


def _cost(node: Node, shape: tuple[int, ...]) -> tuple[int, int]:
    """Elements of the result over an array of ``shape``, and elements read to compute it."""
    planes, sizes = math.prod(shape[:2]), shape[2:]
    if node.windows is None:
        outputs = tuple(node.output_sizes(shape))
        read = math.prod(n + o for n, o in zip(sizes, outputs, strict=True))
        return planes * math.prod(outputs), planes * read
    found = _axes(node.windows(sizes), sizes)
    outputs = planes * math.prod(axis.out for axis in found)
    return outputs, outputs * math.prod(axis.kernel for axis in found)


def _axes(windows: tuple[Any, ...], sizes: Sequence[int]) -> Sequence[Any]:
    kernel, strides, padding, dilations, rounding = windows
    made = geometry(sizes, kernel, strides, padding, dilations=dilations, rounding=rounding)
    return made.axes


def _float_like(dtype: np.dtype) -> np.dtype:
    return dtype if jnp.issubdtype(dtype, jnp.floating) else np.dtype("float32")


def _numbers(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers without an order, of both signs, that every dtype of a model holds exactly."""
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    values = np.random.default_rng(0).integers(low, high, shape)
    return (values if jnp.issubdtype(dtype, jnp.integer) else values / 16).astype(dtype)


def module(name: str) -> Any:
    """Return a package that reads or checks files, or raise that it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            message(
                f"the package {name} is not installed.",
                "ONNX files are read by onnx; checks need onnxruntime or openvino.",
                'Install them with pip install "jaxpool[peers]".',
            )
        ) from None
