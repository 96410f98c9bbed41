"""Pooling operators of ONNX, in its words and by its standard (opset 22).

Arrays are channels first: (N, C, D1, ..., Dn). Where the standard's text is silent, the rules are
those of ONNX Runtime 1.31 on CPU:

* a maximum starts from the first real cell of the window; a NaN there stays, any other is ignored;
* a window without a cell gives the lowest finite number (0 as an average), and its index is that of
  the cell before the first one of its plane, on every axis;
* pads are smaller than the kernel, a pooled or channel axis is not empty, ranks are 3 to 5;
* indices are int64 (int32 while JAX's 64-bit types are off).

Where ONNX Runtime and the standard differ, this module follows the standard:

* SAME_UPPER and SAME_LOWER give ``ceil(size / stride)`` windows, with pads for the dilated kernel,
  never negative; ONNX Runtime pads for the undilated kernel, and by less than nothing where the
  stride exceeds it;
* with ``ceil_mode=0`` a kernel that exceeds the padded axis is refused; ONNX Runtime divides with
  truncation and runs one window if it does so by less than a stride;
* ``pads`` together with another ``auto_pad`` are refused, unless all are 0; ONNX Runtime ignores
  them;
* a maximum is the same with and without indices; without them, ONNX Runtime's MaxPool and
  GlobalMaxPool let a NaN win or lose by its place among vectors;
* indices of MaxUnpool count in the shape that its window implies, also where ``output_shape`` is
  larger; ONNX Runtime reads them against ``output_shape`` (``index_shape="output"``).

With VALID the standard's text rounds down whatever ``ceil_mode`` says; ONNX's own shape inference
and ONNX Runtime both obey ``ceil_mode``, and so does this module.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .. import _window
from .._arguments import is_sequence
from .._errors import message, shown
from ..ops import adaptive, average, global_, lp, unpool
from ..ops import max as maximum
from . import _checks
from ._words import in_words

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")

Windows = tuple[Any, Any, Any, Any, str]
"""Window, strides, padding, dilations and rounding."""


def max_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> tuple[Array, Array]:
    """Maximum over windows and where it was found, as the operator MaxPool.

    Args:
      x: array (N, C, D1, ..., Dn) of any real dtype.
      kernel_shape: taps per pooled axis.
      strides: per pooled axis; None is 1 (MaxPool-22, attribute strides).
      pads: the beginnings of all pooled axes, then the ends; None is 0. Padding never wins.
      dilations: per pooled axis; None is 1.
      auto_pad: "NOTSET" (use ``pads``), "VALID" (none), "SAME_UPPER" or "SAME_LOWER".
      ceil_mode: 1 keeps a last, partly filled window if it starts in the array or the padding
        before it.
      storage_order: of the indices; 1 counts the pooled axes in column-major order.
    Returns:
      (y, indices): indices are flat over the whole array.
    Derivatives: as :func:`jaxpool.max_pool`.
    Edge cases: as in the module.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range, has the wrong length
        or does not fit.
    References: ONNX MaxPool-22.
    Example:
      >>> x = jnp.arange(24.0).reshape(2, 2, 2, 3)
      >>> jaxpool.compat.onnx.max_pool(x, (2, 2))[1].ravel()
      Array([ 4,  5, 10, 11, 16, 17, 22, 23], dtype=int32)
    """
    op = "MaxPool"
    x, words = _windows(op, x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    column_major = bool(_binary(op, "storage_order", storage_order))
    return maximum.max_with_argmax_by(
        op, "from_first_cell", x, *words, index_space=0, index_dtype=_checks.index_dtype(),
        empty_cell=-1, column_major=column_major,
    )  # fmt: skip


def average_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Array:
    """Average over windows, as the operator AveragePool.

    Args:
      x: array (N, C, D1, ..., Dn) of floats.
      kernel_shape, strides, pads, dilations, auto_pad, ceil_mode: as in :func:`max_pool`.
      count_include_pad: 1 counts padding in the divisor; what ceil_mode adds beyond it never
        counts. The default is 0 (AveragePool-22, attribute count_include_pad).
    Returns:
      Array of the dtype of ``x``; narrow floats are added in float32.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: a window in which nothing counts gives 0.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers.
    References: ONNX AveragePool-22.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> jaxpool.compat.onnx.average_pool(x, (3,), strides=(2,), pads=(1, 1), ceil_mode=1)[0, 0]
      Array([1.5, 3. , 5. , 6. ], dtype=float32)
    """
    op = "AveragePool"
    x, words = _windows(op, x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    _check_float(op, x)
    return average.average_by(op, _counting(op, count_include_pad), x, *words)


def lp_pool(
    x: ArrayLike,
    kernel_shape: Sequence[int],
    *,
    p: float = 2,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Array:
    """Lp norm over windows, as the operator LpPool: ``(sum of |x| ** p) ** (1 / p)``.

    Args:
      x: array (N, C, D1, ..., Dn) of floats.
      kernel_shape, strides, pads, dilations, auto_pad, ceil_mode: as in :func:`max_pool`.
      p: the exponent, positive; 2 by default (LpPool-22, attribute p).
    Returns:
      Array of the dtype of ``x``.
    Derivatives: as :func:`jaxpool.lp_pool`.
    Edge cases: a partly filled window is not scaled up; one without a cell gives 0.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers.
    References: ONNX LpPool-22.
    Example:
      >>> jaxpool.compat.onnx.lp_pool(jnp.array([[[-3.0, -4.0]]]), (2,), p=1)[0, 0]
      Array([7.], dtype=float32)
    """
    op = "LpPool"
    x, words = _windows(op, x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    _check_float(op, x)
    kernel, steps, padding, spacing, rounding = words
    return lp.lp_pool(
        x, kernel, steps, padding, p=_exponent(op, p), dilations=spacing, rounding=rounding,
        data_format="channels_first",
    )  # fmt: skip


def global_max_pool(x: ArrayLike) -> Array:
    """Maximum of each plane, as the operator GlobalMaxPool: (N, C, 1, ..., 1)."""
    x = _array("GlobalMaxPool", x)
    return adaptive.adaptive_max_by("GlobalMaxPool", "from_first_cell", x, (1,) * (x.ndim - 2))


def global_average_pool(x: ArrayLike) -> Array:
    """Average of each plane, as the operator GlobalAveragePool: (N, C, 1, ..., 1)."""
    x = _array("GlobalAveragePool", x)
    _check_float("GlobalAveragePool", x)
    return global_.global_avg_pool(x, data_format="channels_first")


def global_lp_pool(x: ArrayLike, *, p: float = 2) -> Array:
    """Lp norm of each plane, as the operator GlobalLpPool: (N, C, 1, ..., 1)."""
    x = _array("GlobalLpPool", x)
    _check_float("GlobalLpPool", x)
    exponent = _exponent("GlobalLpPool", p)
    return global_.global_lp_pool(x, p=exponent, data_format="channels_first")


def max_unpool(
    x: ArrayLike,
    indices: ArrayLike,
    output_shape: Sequence[int] | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    index_shape: str = "inferred",
) -> Array:
    """Values of a MaxPool back at their indices, as the operator MaxUnpool.

    Args:
      x: array (N, C, D1, ..., Dn).
      indices: integers of the same shape, flat over the whole result.
      output_shape: shape of the result, static; without it an axis of n has
        ``(n - 1) * stride + kernel - pads``, the inferred length.
      kernel_shape, strides, pads: of the MaxPool, as in :func:`max_pool`.
      index_shape: the array in which ``indices`` count: "inferred", to which zeros are then added
        at the ends of the axes up to ``output_shape`` (ONNX's own test of the operator), no axis of
        which may be shorter; or "output" (ONNX Runtime), which undoes a MaxPool that left cells
        out, and must have at least as many cells.
    Returns:
      Array of the dtype of ``x``, zero where no index points. Of equal indices the last wins.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: -1 is passed over. Any other index outside the result is an error in an eager call,
      and dropped inside a transformation.
    Raises:
      TypeError, ValueError: as :func:`max_pool`.
    References: ONNX MaxUnpool-22.
    Example:
      >>> y, indices = jnp.array([[[5.0, 7.0]]]), jnp.array([[[1, 2]]])
      >>> jaxpool.compat.onnx.max_unpool(y, indices, kernel_shape=(2,), strides=(2,))[0, 0]
      Array([0., 5., 7., 0.], dtype=float32)
    """
    op = "MaxUnpool"
    x = _array(op, x)
    count = x.ndim - 2
    whole = _checks.word(op, "index_shape", index_shape, ("inferred", "output")) == "output"
    kernel = _checks.ints(op, "kernel_shape", kernel_shape, count, spread=False)
    steps = _per_axis(op, "strides", strides, count)
    _window.check_known(op, x.shape[2:])
    rows = zip(x.shape[2:], kernel, steps, _pads(op, pads, count), strict=True)
    inferred = tuple((size - 1) * s + k - low - high for size, k, s, (low, high) in rows)
    shape = (*x.shape[:2], *inferred)
    if output_shape is not None:
        given = _checks.ints(
            op, "output_shape", np.asarray(output_shape).tolist(), x.ndim, 0, spread=False
        )
        shorter = any(a < b for a, b in zip(given, shape, strict=True))
        small = math.prod(given) < math.prod(shape) if whole else shorter
        if given[:2] != shape[:2] or small:
            raise ValueError(
                message(
                    op,
                    f"`output_shape` = {given} is too small, or of another batch.",
                    f"The attributes imply {shape}; "
                    + ("it needs as many cells." if whole else "no axis may be shorter."),
                    "Give the shape of the array that was pooled.",
                )
            )
        shape, output_shape = given if whole else shape, given
    with in_words(op):
        y = unpool.max_unpool(x, indices, shape[2:], index_space=0, data_format="channels_first")
    if output_shape is None:
        return y
    missing = [(0, whole - part) for whole, part in zip(output_shape, y.shape, strict=True)]
    return jnp.pad(y, missing) if any(map(any, missing)) else y


def qlinear_average_pool(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Array:
    """Average of quantised integers, as ONNX Runtime's operator QLinearAveragePool.

    ``saturate(round(average((x - x_zero_point) * x_scale) / y_scale + y_zero_point))``, rounded
    half to even. With ``count_include_pad`` every tap counts, also what ceil_mode adds, and padding
    is the number 0. A window that is the whole plane, without padding, is averaged as by
    :func:`qlinear_global_average_pool`.

    Args:
      x: array of int8 or uint8.
      x_scale, x_zero_point, y_scale, y_zero_point: scalars; a zero point of None is 0.
      kernel_shape, strides, pads, auto_pad, ceil_mode, count_include_pad: as in
        :func:`average_pool`.
      channels_last: 1 if the channel axis is the last one.
    Returns:
      Array of the dtype of ``x``.
    Derivatives: none, as of all integers.
    Raises:
      TypeError, ValueError: as :func:`average_pool`; TypeError also for other dtypes.
    References: ONNX Runtime, contrib operators, com.microsoft.QLinearAveragePool.
    Example:
      >>> x = jnp.array([[[1, 2, 3]]], jnp.int8)
      >>> f = jaxpool.compat.onnx.qlinear_average_pool
      >>> f(x, 0.5, 0, 0.5, 10, kernel_shape=(2,))[0, 0]
      Array([12, 12], dtype=int8)
    """
    op = "QLinearAveragePool"
    x = _quantised(op, x, channels_last)
    _, words = _windows(op, x, kernel_shape, strides, pads, None, auto_pad, ceil_mode)
    include = _binary(op, "count_include_pad", count_include_pad)
    scales = x_scale, x_zero_point, y_scale, y_zero_point
    if _is_whole_plane(x.shape[2:], *words):
        y = average.quantised_global_average(x, *scales)
    else:
        rule = average.Averaging("taps" if include else "real")
        y = average.quantised_average_by(op, rule, x, scales, *words)
    return jnp.moveaxis(y, 1, -1) if channels_last else y


def _is_whole_plane(
    sizes: tuple[int, ...], kernel: Any, strides: Any, padding: Any, dilations: Any, rounding: str
) -> bool:
    """Whether the window holds exactly the cells of the plane, without padding."""
    if kernel != sizes:
        return False
    words = {"dilations": dilations, "rounding": rounding}
    axes = _window.geometry(sizes, kernel, strides, padding, **words).axes
    return not any(axis.pad_low or axis.pad_high for axis in axes)


def qlinear_global_average_pool(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    channels_last: int = 0,
) -> Array:
    """Average of each quantised plane, as ONNX Runtime's QLinearGlobalAveragePool.

    ``saturate(round(sum(x - x_zero_point) * (x_scale / (y_scale * count))) + y_zero_point)``.
    """
    op = "QLinearGlobalAveragePool"
    x = _quantised(op, x, channels_last)
    y = average.quantised_global_average(x, x_scale, x_zero_point, y_scale, y_zero_point)
    return jnp.moveaxis(y, 1, -1) if channels_last else y


# --- nodes ----------------------------------------------------------------------------------------

OPERATORS: dict[str, Any] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "MaxUnpool": max_unpool,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
}
"""The operators of :func:`run_node`, by their names in a node."""

_FIELDS = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}


def run_node(node: Any, *inputs: Any) -> tuple[Array, ...]:
    """Run a pooling node of an ONNX graph.

    Args:
      node: an ``onnx.NodeProto`` of one of :data:`OPERATORS`, of any opset.
      inputs: arrays, in the order of the node; None for an input that is left out.
    Returns:
      One array for each output of the node.
    Derivatives: those of the operator.
    Raises:
      NotImplementedError: the node is no pooling, or has an attribute that its operator has not.
      TypeError, ValueError: as the operator.
    References: ONNX operators, opsets 1 to 22; the opset needs not be told, since none of them
      gives another meaning to an attribute of its own.
    Example:
      >>> run_node = jaxpool.compat.onnx.run_node
      >>> node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2])  # doctest: +SKIP
      >>> (y,) = run_node(node, x)  # doctest: +SKIP
    """
    function, words = operator(node), attributes(node)
    if node.op_type == "MaxPool" and len(node.output) == 1:
        function = _values_of_max_pool
    try:
        if len(inputs) > len(node.input):
            raise TypeError("too many arrays")
        call = inspect.signature(function).bind(*inputs, **words)
    except TypeError as error:
        raise TypeError(
            message(
                "run_node",
                f"{node.op_type} does not run on what it is given: {error}.",
                f"Arrays given: {len(inputs)}. Inputs of the node: {len(node.input)}. Attributes: "
                f"{', '.join(words) or 'none'}.",
                "Give one array for each input of the node; check the node with onnx.checker.",
            )
        ) from None
    result = function(*call.args, **call.kwargs)
    return result if isinstance(result, tuple) else (result,)


def operator(node: Any) -> Any:
    """Return the function of this module for a pooling node."""
    if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx", "com.microsoft"):
        raise NotImplementedError(
            message(
                "run_node",
                f"{node.domain or 'ai.onnx'}.{node.op_type} is no pooling operator.",
                f"The operators are {', '.join(OPERATORS)}.",
                "Run the other nodes of a graph with another library.",
            )
        )
    return OPERATORS[node.op_type]


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of a pooling node as keyword arguments of its operator."""
    known = set(inspect.signature(OPERATORS[node.op_type]).parameters)
    words = {}
    for attribute in node.attribute:
        field = None if attribute.ref_attr_name else _FIELDS.get(attribute.type)
        if attribute.name not in known or field is None:
            raise NotImplementedError(
                message(
                    "run_node",
                    f"{node.op_type} has no attribute `{attribute.name}` of this type, or it is "
                    "that of an ONNX function.",
                    f"Its attributes are {', '.join(sorted(known))}.",
                    "Check the node with onnx.checker, and inline the functions of the model.",
                )
            )
        value = getattr(attribute, field)
        if field == "s":
            value = value.decode()
        words[attribute.name] = tuple(value) if field.endswith("s") and field != "s" else value
    return words


def _values_of_max_pool(
    x: ArrayLike, kernel_shape: Any, strides: Any = None, pads: Any = None, dilations: Any = None,
    auto_pad: Any = "NOTSET", ceil_mode: Any = 0, storage_order: Any = 0,
) -> Array:  # fmt: skip
    op = "MaxPool"
    _binary(op, "storage_order", storage_order)
    x, words = _windows(op, x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return maximum.max_by(op, "from_first_cell", x, *words)


# --- what the caller wrote ------------------------------------------------------------------------


def _array(op: str, x: Any) -> Array:
    x = _checks.array(op, "x", x)
    _checks.check_rank(op, "x", x.shape, (3, 4, 5), "batch, channels and the pooled axes")
    _checks.check_not_empty(op, "x", x.shape, 1, "Only the batch axis may be empty.")
    return x


def _quantised(op: str, x: Any, channels_last: Any) -> Array:
    x = _checks.array(op, "x", x)
    if _binary(op, "channels_last", channels_last):
        x = jnp.moveaxis(x, -1, 1)
    if x.dtype not in (jnp.int8, jnp.uint8):
        raise TypeError(
            message(
                op,
                f"`x` has dtype {x.dtype}.",
                "Quantised numbers are int8 or uint8.",
                "Use average_pool for floats.",
            )
        )
    return _array(op, x)


def _check_float(op: str, x: Array) -> None:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                op,
                f"`x` has dtype {x.dtype}.",
                "The operator takes floating-point numbers.",
                "Use qlinear_average_pool for quantised integers, or jaxpool.avg_pool.",
            )
        )


def _binary(op: str, name: str, value: Any) -> int:
    if isinstance(value, (bool, int, np.integer)) and value in (0, 1):
        return int(value)
    raise ValueError(
        message(op, f"`{name}` = {shown(value)} is out of range.", "It is 0 or 1.", "Give 0 or 1.")
    )


def _exponent(op: str, p: Any) -> float:
    number = isinstance(p, (int, float, np.integer, np.floating)) and not isinstance(p, bool)
    if not number or not 0 < p < np.inf:
        raise ValueError(
            message(
                op,
                f"`p` = {shown(p)} is out of range.",
                "The root of order p is taken: it is positive and finite.",
                "Give for example 2.",
            )
        )
    return int(p) if float(p).is_integer() else float(p)


def _counting(op: str, count_include_pad: Any) -> average.Averaging:
    include = _binary(op, "count_include_pad", count_include_pad)
    return average.Averaging("declared" if include else "real")


def _per_axis(op: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    return (1,) * count if value is None else _checks.ints(op, name, value, count, spread=False)


def _pads(op: str, pads: Any, count: int) -> tuple[tuple[int, int], ...]:
    if pads is None:
        return ((0, 0),) * count
    if is_sequence(pads) and len(pads) != 2 * count:
        raise ValueError(
            message(
                op,
                f"`pads` = {shown(pads)} has {len(pads)} entries.",
                f"{count} axes are pooled; it has the beginnings of all, then the ends of all.",
                f"Give {2 * count} integers.",
            )
        )
    both = _checks.ints(op, "pads", pads, 2 * count, 0, spread=False)
    return tuple(zip(both[:count], both[count:], strict=True))


def _windows(
    op: str, x: Any, kernel_shape: Any, strides: Any, pads: Any, dilations: Any, auto_pad: Any,
    ceil_mode: Any,
) -> tuple[Array, Windows]:  # fmt: skip
    x = _array(op, x)
    words = kernel_shape, strides, pads, dilations, auto_pad, ceil_mode
    return x, windows_over(op, x.shape[2:], *words)


def windows_over(
    op: str, sizes: Sequence[int], kernel_shape: Any, strides: Any = None, pads: Any = None,
    dilations: Any = None, auto_pad: Any = "NOTSET", ceil_mode: Any = 0,
) -> Windows:  # fmt: skip
    """Window, strides, padding, dilations and rounding in the core's words, checked."""
    count = len(sizes)
    kernel = _checks.ints(op, "kernel_shape", kernel_shape, count, spread=False)
    steps = _per_axis(op, "strides", strides, count)
    spacing = _per_axis(op, "dilations", dilations, count)
    ceil = _binary(op, "ceil_mode", ceil_mode)
    padding: Any = _pads(op, pads, count)
    word = _checks.word(op, "auto_pad", auto_pad, AUTO_PADS)
    if word != "NOTSET":
        if any(map(any, padding)):
            raise ValueError(
                message(
                    op,
                    f"`pads` = {shown(pads)} and `auto_pad` = {word!r} are both given.",
                    "The standard: pads cannot be used simultaneously with auto_pad.",
                    'Leave one of them out, or give auto_pad="NOTSET".',
                )
            )
        padding = word
    if not word.startswith("SAME"):
        ends = ((0, 0),) * count if word == "VALID" else padding
        _check_windows(op, sizes, kernel, steps, spacing, ends, ceil)
    return kernel, steps, padding, spacing, _window.CEIL_OR_ONE if ceil else "floor"


def _check_windows(
    op: str, sizes: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, ceil: int
) -> None:
    rows = zip(sizes, kernel, strides, dilations, pads, strict=True)
    for axis, (size, k, s, d, ends) in enumerate(rows):
        if max(ends) >= k:
            raise ValueError(
                message(
                    op,
                    f"`pads` = {ends} of pooled axis {axis} are not smaller than the kernel.",
                    f"`kernel_shape` is {k} there; ONNX Runtime refuses such pads.",
                    "Pad the array itself, or use jaxpool's own op, which has no such limit.",
                )
            )
        missing = _checks.missing(k, d, size, ends)
        if missing > 0 and not (ceil and missing < s):
            raise ValueError(_checks.does_not_fit(op, "kernel_shape", axis, k, d, size, ends))
