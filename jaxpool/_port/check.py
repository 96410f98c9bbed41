"""Check of one operation: random numbers are pooled by jaxpool and by the runtime of the file.

A file may demand any amount of work. The cost of a check is computed before the check runs, and a
check that exceeds ``MAX_ELEMENTS`` or ``MAX_STEPS`` is skipped with a reason.
"""

import importlib
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import message
from .nodes import OPEN, Arrays, Node, Unchecked

MAX_ELEMENTS = 2**27
"""Largest number of elements of an array or of a result."""
MAX_STEPS = 2**32
"""Largest number of elements read, counted per window; a naive runtime needs seconds for them."""
_OPEN_LENGTHS = (2, 3, 32)
"""Lengths that replace an open batch axis, an open channel axis and an open pooled axis."""


def compare(node: Node) -> str:
    """Run the operation in jaxpool and in the runtime; return text that describes the array.

    Raises:
      AssertionError: the results differ. Unchecked: the operation cannot be run.
    """
    shape, dtype = _trial_shape_and_dtype(node)
    # Sums of powers of small numbers are exact, in whatever order a runtime adds them.
    x = _trial_numbers(shape, dtype, 8 if "Lp" in node.operator else 128)
    inputs = x, *node.others(x)
    pairs = zip(node.run(*inputs), _run_peer(node, inputs), strict=True)
    # Maxima are exact. Sums may differ in the last bits, because their order is unspecified.
    exact = node.operator.endswith(("MaxPool", "MaxUnpool"))
    # jaxpool adds in 32 bits while 64-bit types of JAX are off, and OpenVINO always does.
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    sum_dtype = dtype if is_narrow else np.float32
    where = f"for an array of shape {shape}"
    for ours, theirs in pairs:
        np.testing.assert_allclose(
            np.asarray(ours, np.float64),
            np.asarray(theirs, np.float64),
            rtol=0 if exact else 32 * float(jnp.finfo(sum_dtype).eps),
            err_msg=where,
        )
    return where


def check_array(node: Node) -> None:
    """Raise if the call rejects the array of the file, for its rank or dtype; nothing is computed.

    An array or another input that the file leaves open is not checked.
    """
    try:
        shape, dtype = _trial_shape_and_dtype(node)
        x = np.broadcast_to(np.zeros((), dtype), shape)
        others = node.others(x)
    except Unchecked:
        return
    jax.eval_shape(lambda x: node.run(x, *others), x)


def _run_peer(node: Node, inputs: Arrays) -> Arrays:
    try:
        return node.peer(*inputs)
    except Exception as error:  # each runtime raises other types
        lines = (line for line in str(error).splitlines() if line and "Exception from" not in line)
        reason = next(lines, type(error).__name__)
        shape = inputs[0].shape
        raise Unchecked(f"the runtime rejects it for an array of shape {shape}: {reason}") from None


def _trial_shape_and_dtype(node: Node) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and dtype of the array, with numbers in place of the open lengths.

    Raise Unchecked if they are unknown, or if the operation costs too much to try.
    """
    if node.shape is None or node.dtype is None:
        source = node.unknown_from and f"; onnx infers no shapes after {node.unknown_from}"
        raise Unchecked(f"the file does not give the shape of its array{source}")
    shape = node.shape
    if OPEN in shape:
        pairs = zip(shape, _lengths_if_open(node, len(shape)), strict=False)
        shape = tuple(length_if_open if n == OPEN else n for n, length_if_open in pairs)
    _check_cost(node, shape)
    return shape, node.dtype


def _lengths_if_open(node: Node, rank: int) -> tuple[int, ...]:
    lengths = tuple(node.open_lengths())
    if len(lengths) == rank:
        return lengths
    batch, channels, pooled = _OPEN_LENGTHS
    between = (pooled,) * (rank - 2)
    return (batch, *between, channels) if node.channels_last else (batch, channels, *between)


def _check_cost(node: Node, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MAX_ELEMENTS:
        raise Unchecked(f"an array of shape {shape} is too large to try")
    outputs, steps = _cost(node, shape)
    if outputs > MAX_ELEMENTS:
        raise Unchecked(f"a result of {outputs} elements is too large to try")
    if steps > MAX_STEPS:
        raise Unchecked(f"it reads {steps} elements, too many to try; the limit is {MAX_STEPS}")


def _cost(node: Node, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of elements of the result for an array of ``shape``, and of those read."""
    shape = node.channels_second(shape)
    planes, sizes = math.prod(shape[:2]), shape[2:]
    if node.windows is None:
        outputs = tuple(node.output_sizes(shape))
        read = math.prod(n + o for n, o in zip(sizes, outputs, strict=True))
        return planes * math.prod(outputs), planes * read
    axes = node.axes(sizes)
    outputs = planes * math.prod(axis.out for axis in axes)
    return outputs, outputs * math.prod(axis.kernel for axis in axes)


def _trial_numbers(shape: tuple[int, ...], dtype: np.dtype, limit: int) -> np.ndarray:
    """Return unordered numbers, of both signs unless unsigned, that are exact in ``dtype``."""
    low, high = (0, 2 * limit) if jnp.issubdtype(dtype, jnp.unsignedinteger) else (-limit, limit)
    values = np.random.default_rng(0).integers(low, high, shape)
    return (values if jnp.issubdtype(dtype, jnp.integer) else values / 16).astype(dtype)


def module(name: str) -> Any:
    """Return a package that reads or checks files; raise ModuleNotFoundError if not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            message(
                f"the package {name} is not installed.",
                "ONNX files are read by onnx; checks need onnxruntime or openvino.",
                f"Run pip install {name}.",
            )
        ) from None
