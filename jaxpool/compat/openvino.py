"""Pooling operations of OpenVINO, in its words and with its results, and layers of an IR file.

Arrays are channels first: (N, C, D1, ..., Dn). A function is named by the operation and its
version, as in "MaxPool-14". The rules are those of OpenVINO 2026.4 on CPU with the precision f32:

* a maximum starts from the lowest finite number (of f16 from -inf) and only a greater cell wins: a
  window of -inf gives that number, and NaN is ignored. Where nothing wins, the index is that of the
  first cell of the plane. AdaptiveMaxPool starts from the first cell instead, where a NaN stays;
* indices are flat over the axes from ``axis`` on;
* the divisor of an average with ``exclude_pad=False`` is the whole window, overhang of rounding up
  included, if any axis has padding (SAME included), else the cells of the window;
* an average of floats whose divisor is zero, a count of cells, is NaN; it is 0 if the window starts
  beyond the first place after the array;
* averages of integers are rounded half to even and saturate.

Differences that remain: f64 and integers are pooled as they are, where the CPU plugin narrows 64
bits to 32, wraps sums of 32 bits, averages integers in float32 and lets a maximum of i16 without a
cell be 0; negative pads are refused, where OpenVINO's size
arithmetic wraps; an empty pooled axis is refused, where AvgPool returns uninitialised memory;
64-bit indices are int32 while JAX's 64-bit types are off.
"""

import inspect
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._arguments import flag, integer
from .._errors import message, shown
from ..ops import adaptive, average
from ..ops import max as maximum
from . import _checks

_AUTO_PADS = ("explicit", "valid", "same_upper", "same_lower")
_NEW_ROUNDINGS = ("floor", "ceil", "ceil_torch")
_OLD_ROUNDINGS = ("floor", "ceil")
_INDEX_TYPES = {"i64": True, "i32": False}

Windows = tuple[Any, Any, Any, Any, str]
"""Window, strides, padding, dilations and rounding."""


def max_pool_v1(
    data: ArrayLike,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
) -> Array:
    """Maximum over windows, as MaxPool-1; see :func:`max_pool_v14`.

    There are no dilations and no indices, and ``rounding_type`` is "floor" or "ceil".
    """
    op = "MaxPool-1"
    words = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    x, windows = _windows(op, data, words, _OLD_ROUNDINGS)
    return maximum.max_by(op, "from_lowest", x, *windows)


def max_pool_v8(
    data: ArrayLike,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    index_element_type: str = "i64",
    axis: int = 0,
) -> tuple[Array, Array]:
    """Maximum over windows and where it was found, as MaxPool-8; see :func:`max_pool_v14`.

    ``rounding_type`` is "floor" or "ceil".
    """
    words = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _max("MaxPool-8", data, words, _OLD_ROUNDINGS, index_element_type, axis)


def max_pool_v14(
    data: ArrayLike,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    index_element_type: str = "i64",
    axis: int = 0,
) -> tuple[Array, Array]:
    """Maximum over windows and where it was found, as MaxPool-14.

    Args:
      data: array (N, C, D1, ..., Dn) of any real dtype.
      strides, dilations: per pooled axis.
      pads_begin, pads_end: per pooled axis; they count only if ``auto_pad`` is "explicit".
      kernel_shape: taps per pooled axis.
      rounding_type: "floor", "ceil" (keeps a last, partly filled window) or "ceil_torch" (keeps it
        if it starts in the array or the padding before it). It counts whatever ``auto_pad`` is.
      auto_pad: "explicit" or None, "valid", "same_upper" or "same_lower".
      index_element_type: "i64" or "i32".
      axis: the first axis that the indices count, -R to R - 1 for R axes; 0 by default (MaxPool-14,
        attribute axis).
    Returns:
      (values, indices).
    Derivatives: as :func:`jaxpool.max_pool`; a window in which nothing wins has none.
    Edge cases: as in the module.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range, has the wrong length
        or does not fit; ``data`` is empty.
    References: OpenVINO opset 14, MaxPool-14.
    Example:
      >>> x = jnp.array([[[jnp.nan, 5.0, -jnp.inf, -jnp.inf]]])
      >>> f = jaxpool.compat.openvino.max_pool_v14
      >>> values, indices = f(x, (2,), (1,), (0,), (0,), (2,))
      >>> indices[0, 0], values[0, 0, 1] == jnp.finfo(jnp.float32).min
      (Array([1, 0], dtype=int32), Array(True, dtype=bool))
    """
    words = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _max("MaxPool-14", data, words, _NEW_ROUNDINGS, index_element_type, axis)


def _max(
    op: str, data: Any, words: tuple, roundings: Sequence[str], index_element_type: Any, axis: Any
) -> tuple[Array, Array]:
    x, windows = _windows(op, data, words, roundings)
    dtype = _index_type(op, index_element_type)
    return maximum.max_with_argmax_by(
        op, "from_lowest", x, *windows, index_space=_axis(op, axis, x.ndim), index_dtype=dtype,
        empty_cell=0,
    )  # fmt: skip


def avg_pool_v1(
    data: ArrayLike,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
) -> Array:
    """Average over windows, as AvgPool-1; see :func:`avg_pool_v16`.

    There are no dilations, and ``rounding_type`` is "floor" or "ceil".
    """
    words = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average("AvgPool-1", data, words, exclude_pad, _OLD_ROUNDINGS)


def avg_pool_v14(
    data: ArrayLike,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
) -> Array:
    """Average over windows, as AvgPool-14; see :func:`avg_pool_v16`. There are no dilations."""
    words = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average("AvgPool-14", data, words, exclude_pad, _NEW_ROUNDINGS)


def avg_pool_v16(
    data: ArrayLike,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    kernel_shape: Sequence[int],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    dilations: Sequence[int] | None = None,
) -> Array:
    """Average over windows, as AvgPool-16.

    Args:
      data: array (N, C, D1, ..., Dn) of any real dtype; not bool.
      strides, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad: as in
        :func:`max_pool_v14`.
      exclude_pad: True counts the cells of the window alone; False as in the module.
      dilations: per pooled axis; None is 1 (opset 16, AvgPool-16, attribute dilations).
    Returns:
      Array of the dtype of ``data``; narrow floats are added in float32, integers are rounded half
      to even.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: as in the module. With ``exclude_pad`` a pad may not reach the dilated kernel.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 16, AvgPool-16.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> f = jaxpool.compat.openvino.avg_pool_v16
      >>> f(x, (2,), (1,), (1,), (3,), False, "ceil")[0, 0]
      Array([1., 3., 5., 2.], dtype=float32)
    """
    words = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average("AvgPool-16", data, words, exclude_pad, _NEW_ROUNDINGS)


def _average(op: str, data: Any, words: tuple, exclude_pad: Any, roundings: Sequence[str]) -> Array:
    x, windows = _windows(op, data, words, roundings)
    if not flag(op, "exclude_pad", exclude_pad):
        rule = average.Averaging("taps_if_padded", nothing="zero_by_count")
        return average.average_by(op, rule, x, *windows)
    kernel, _, padding, dilations, _ = windows
    if not isinstance(padding, str):
        for axis, (k, d, ends) in enumerate(zip(kernel, dilations, padding, strict=True)):
            if max(ends) >= (k - 1) * d + 1:
                raise ValueError(
                    message(
                        op,
                        f"the padding {ends} of pooled axis {axis} holds a whole window.",
                        f"A window spans {(k - 1) * d + 1} cells there; with `exclude_pad` nothing "
                        "would count in it.",
                        "Use less padding, or exclude_pad=False.",
                    )
                )
    rule = average.Averaging("real", nothing="zero_by_count")
    return average.average_by(op, rule, x, *windows)


def adaptive_avg_pool_v8(data: ArrayLike, output_shape: Any) -> Array:
    """Average over as many windows as asked for, as AdaptiveAvgPool-8.

    Args:
      data: array (N, C, D1, ..., Dn).
      output_shape: windows per pooled axis, static; 0 and -1 give an empty result.
    Returns:
      Array of the dtype of ``data``.
    Derivatives: linear; as :func:`jaxpool.adaptive_avg_pool`.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 8, AdaptiveAvgPool-8.
    Example:
      >>> x = jnp.arange(1.0, 8.0).reshape(1, 1, 7)
      >>> jaxpool.compat.openvino.adaptive_avg_pool_v8(x, [3])[0, 0]
      Array([2., 4., 6.], dtype=float32)
    """
    op = "AdaptiveAvgPool-8"
    x, sizes = _adaptive(op, data, output_shape)
    return adaptive.adaptive_average_by(op, "half_even", x, sizes)


def adaptive_max_pool_v8(
    data: ArrayLike, output_shape: Any, index_element_type: str = "i64"
) -> tuple[Array, Array]:
    """Maximum over as many windows as asked for, as AdaptiveMaxPool-8.

    Args:
      data, output_shape: as in :func:`adaptive_avg_pool_v8`.
      index_element_type: "i64" or "i32".
    Returns:
      (values, indices); indices are flat over the pooled axes.
    Derivatives: as :func:`jaxpool.adaptive_max_pool`.
    Edge cases: a NaN in the first cell of a window stays, any other is ignored.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 8, AdaptiveMaxPool-8.
    Example:
      >>> x = jnp.array([[[3.0, 1.0, 2.0, 5.0, 4.0]]])
      >>> jaxpool.compat.openvino.adaptive_max_pool_v8(x, [3])[1][0, 0]
      Array([0, 3, 3], dtype=int32)
    """
    op = "AdaptiveMaxPool-8"
    x, sizes = _adaptive(op, data, output_shape)
    dtype = _index_type(op, index_element_type)
    return adaptive.adaptive_max_with_argmax_by(op, "from_first_cell", x, sizes, index_dtype=dtype)


# --- layers of a model ----------------------------------------------------------------------------

LAYERS: dict[str, dict[int, Any]] = {
    "MaxPool": {1: max_pool_v1, 8: max_pool_v8, 14: max_pool_v14},
    "AvgPool": {1: avg_pool_v1, 14: avg_pool_v14, 16: avg_pool_v16},
    "AdaptiveAvgPool": {8: adaptive_avg_pool_v8},
    "AdaptiveMaxPool": {8: adaptive_max_pool_v8},
}
"""The types of layers of :func:`run_layer`, and the versions of each."""

_LISTS = ("kernel_shape", "strides", "dilations", "pads_begin", "pads_end")
_RENAMED = {"kernel": "kernel_shape", "exclude-pad": "exclude_pad"}
_WINDOW_WORDS = ("strides", "dilations", "pads_begin", "pads_end", "kernel_shape", "rounding_type",
                 "auto_pad")  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A pooling layer of a model.

    Attributes:
      name: the layer's own.
      type: such as "MaxPool".
      version: of the operation, such as 14.
      words: its attributes, as keyword arguments of the function for it.
      input_shapes, output_shapes: as the file states them; -1 is a length that it leaves open.
      precision: of the first input, such as "FP32"; empty if the file does not say.
    """

    name: str
    type: str
    version: int
    words: Mapping[str, Any]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...] = ()
    precision: str = ""

    @property
    def function(self) -> Any:
        """The function of this module for the layer."""
        return LAYERS[self.type][self.version]

    def windows_over(self, sizes: Sequence[int]) -> Windows:
        """Window, strides, padding, dilations and rounding over pooled axes of these lengths."""
        words = {"rounding_type": "floor", "auto_pad": "explicit", **self.words}
        roundings = _OLD_ROUNDINGS if self.version < 14 else _NEW_ROUNDINGS
        in_order = tuple(words.get(word) for word in _WINDOW_WORDS)
        return windows_over(f"{self.type}-{self.version}", sizes, in_order, roundings)


def run_layer(layer: Any, *inputs: Any) -> tuple[Array, ...]:
    """Run a pooling layer of an OpenVINO model.

    Args:
      layer: a ``<layer>`` element of :mod:`xml.etree.ElementTree`, its text, or a :class:`Layer`.
      inputs: arrays, in the order of the layer; that of an adaptive pool's output shape is static.
    Returns:
      One array for each output of the operation.
    Derivatives: those of the operation.
    Raises:
      NotImplementedError: the layer is no pooling. ValueError: the text is no layer, or has a
        document type.
      TypeError, ValueError: as the operation.
    References: OpenVINO IR, version 11; the operations' own pages for ``<data>``.
    Example:
      >>> layer = '''<layer name="p" type="MaxPool" version="opset1"><data kernel="2" strides="2"
      ...   pads_begin="0" pads_end="0" rounding_type="ceil" auto_pad="explicit"/></layer>'''
      >>> jaxpool.compat.openvino.run_layer(layer, jnp.array([[[1.0, 3.0, 2.0]]]))[0][0, 0]
      Array([3., 2.], dtype=float32)
    """
    if not isinstance(layer, Layer):
        element = layer if isinstance(layer, ElementTree.Element) else _parse("run_layer", layer)
        layer = layer_of("run_layer", element)
    result = layer.function(*inputs, **layer.words)
    return result if isinstance(result, tuple) else (result,)


def model_layers(path: str | os.PathLike[str]) -> list[Layer]:
    """Return the pooling layers of an OpenVINO IR file, in the order of the file.

    Args:
      path: of the ``.xml`` file; the ``.bin`` file is not read.
    Raises:
      OSError: the file cannot be read.
      ValueError: it is no IR of version 10 or 11, is cut short, or has a document type.
      NotImplementedError: a pooling layer has a version or an attribute that is not known.
    Example:
      >>> for layer in model_layers("model.xml"):  # doctest: +SKIP
      ...     print(layer.name, layer.type, layer.version, dict(layer.words))
    """
    elements = layer_elements("model_layers", path)
    return [layer_of("model_layers", e) for e in elements if e.get("type") in LAYERS]


def layer_elements(op: str, path: str | os.PathLike[str]) -> list[ElementTree.Element]:
    """Every ``<layer>`` of an OpenVINO IR file, in its order."""
    with open(path, "rb") as file:
        root = _parse(op, file.read())
    if root.tag != "net" or root.get("version") not in ("10", "11"):
        raise ValueError(
            message(
                op,
                f"{os.fspath(path)!r} is no OpenVINO model of version 10 or 11.",
                f"Its root is <{root.tag}>, of version {root.get('version')!r}.",
                "Convert an older model, or one of another framework, with OpenVINO first.",
            )
        )
    return list(root.iter("layer"))


def _parse(op: str, text: Any) -> ElementTree.Element:
    """Return the root of XML without a document type, and so without entities of its own."""
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, TypeError, AssertionError) as error:
        raise ValueError(
            message(
                op,
                "this is not XML, or it is cut short.",
                f"The parser says: {error}.",
                "Give the text of a <layer>, or the path of an .xml file that OpenVINO wrote.",
            )
        ) from None


def _refuse_document_type(name: str, *rest: Any) -> None:
    raise ValueError(
        message(
            "openvino",
            f"the XML declares a document type, {shown(name)}.",
            "It could define entities that grow without bound or read other files; OpenVINO "
            "writes none.",
            "Remove the <!DOCTYPE> declaration, if you trust the file.",
        )
    )


def layer_of(op: str, element: ElementTree.Element) -> Layer:
    """Read a ``<layer>`` element."""
    kind, opset = element.get("type"), element.get("version", "opset1")
    known = LAYERS.get(kind or "", {})
    number = int(opset[5:]) if opset.startswith("opset") and opset[5:].isdecimal() else 0
    versions = [version for version in known if version <= number]
    if element.tag != "layer" or not versions:
        raise NotImplementedError(
            message(
                op,
                f"<{element.tag}> of type {kind!r} in {opset!r} is no pooling layer.",
                f"The types are {', '.join(LAYERS)}.",
                "Run the other layers of a model with another library.",
            )
        )
    name, version = element.get("name", ""), max(versions)
    words = _attributes(op, name, known[version], element.find("data"))
    first = element.find("input/port")
    precision = "" if first is None else first.get("precision", "")
    inputs, outputs = (_port_shapes(op, name, element, side) for side in ("input", "output"))
    return Layer(name, kind or "", version, words, inputs, outputs, precision)


def _port_shapes(
    op: str, name: str, element: ElementTree.Element, side: str
) -> tuple[tuple[int, ...], ...]:
    """Lengths of the axes of each port; OpenVINO writes -1 for one that is open."""
    ports = element.findall(f"{side}/port")
    return tuple(
        tuple(_value(op, name, "dim", dim.text or "-1", "axis") for dim in port.findall("dim"))
        for port in ports
    )


def _attributes(
    op: str, name: str, function: Any, data: ElementTree.Element | None
) -> dict[str, Any]:
    """The attributes of a layer as keyword arguments."""
    parameters = inspect.signature(function).parameters
    words: dict[str, Any] = {}
    for key, text in ({} if data is None else data.attrib).items():
        word = _RENAMED.get(key, key)
        if word not in parameters:
            raise NotImplementedError(
                message(
                    op,
                    f"layer {name!r} has an attribute `{key}`, which is not known.",
                    f"The arguments of its operation are {', '.join(parameters)}.",
                    "Check the version of the layer's operation.",
                )
            )
        words[word] = _value(op, name, key, text, word)
    arrays = ("data", "output_shape")
    required = [p.name for p in parameters.values() if p.default is p.empty]
    missing = [word for word in required if word not in words and word not in arrays]
    if missing:
        raise ValueError(
            message(
                op,
                f"layer {name!r} has no attribute `{missing[0]}`.",
                f"Its attributes are {', '.join(words) or 'none'}.",
                "Check that the file is complete.",
            )
        )
    return words


def _value(op: str, name: str, key: str, text: str, word: str) -> Any:
    try:
        if word in _LISTS:
            return tuple(int(number) for number in text.split(",") if number.strip())
        if word == "exclude_pad":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return int(text) if word == "axis" else text.lower()
    except (ValueError, KeyError):
        raise ValueError(
            message(
                op,
                f"attribute `{key}` = {shown(text)} of layer {name!r} cannot be read.",
                'OpenVINO writes lists as "2,2" and truth as "true" or "false".',
                "Check that the file is complete.",
            )
        ) from None


# --- what the caller wrote ------------------------------------------------------------------------


def _array(op: str, data: Any, first: int) -> Array:
    """The array; its axes from ``first`` on may not be empty."""
    x = _checks.array(op, "data", data)
    _checks.check_rank(op, "data", x.shape, (3, 4, 5), "batch, channels and the pooled axes")
    why = "No axis may be empty." if not first else "Only the batch axis may be empty."
    _checks.check_not_empty(op, "data", x.shape, first, why)
    return x


def _adaptive(op: str, data: Any, output_shape: Any) -> tuple[Array, tuple[int, ...]]:
    x = _array(op, data, 1)
    given = np.asarray(output_shape)
    sizes = _checks.ints(op, "output_shape", given.tolist(), x.ndim - 2, -1, spread=False)
    return x, tuple(max(size, 0) for size in sizes)


def _index_type(op: str, index_element_type: Any) -> np.dtype:
    word = _checks.word(op, "index_element_type", index_element_type, tuple(_INDEX_TYPES))
    return _checks.index_dtype(_INDEX_TYPES[word])


def _axis(op: str, axis: Any, rank: int) -> int:
    number = integer(op, "axis", axis, -rank)
    if number >= rank:
        raise ValueError(
            message(
                op,
                f"`axis` = {number} is not an axis of the array.",
                f"The array has {rank} axes, {-rank} to {rank - 1}.",
                "Give the first axis that the indices count.",
            )
        )
    return number


def _windows(
    op: str, data: Any, words: tuple[Any, ...], roundings: Sequence[str]
) -> tuple[Array, Windows]:
    """The array and its windows; ``words`` are in the order of ``_WINDOW_WORDS``."""
    x = _array(op, data, 0)
    return x, windows_over(op, x.shape[2:], words, roundings)


def windows_over(
    op: str, sizes: Sequence[int], words: tuple[Any, ...], roundings: Sequence[str]
) -> Windows:
    """Window, strides, padding, dilations and rounding in the core's words, checked."""
    strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad = words
    count = len(sizes)
    each = lambda name, value, least=1: _checks.ints(op, name, value, count, least, spread=False)  # noqa: E731
    kernel, steps = each("kernel_shape", kernel_shape), each("strides", strides)
    spacing = (1,) * count if dilations is None else each("dilations", dilations)
    begin, end = each("pads_begin", pads_begin, 0), each("pads_end", pads_end, 0)
    rounding = _checks.word(op, "rounding_type", rounding_type, roundings)
    word = _checks.word(op, "auto_pad", auto_pad or "explicit", _AUTO_PADS)
    ends = tuple(zip(begin, end, strict=True)) if word == "explicit" else ((0, 0),) * count
    if not word.startswith("same"):
        rows = zip(sizes, kernel, spacing, ends, strict=True)
        for axis, (size, k, d, pads) in enumerate(rows):
            if _checks.missing(k, d, size, pads) > 0:
                raise ValueError(_checks.does_not_fit(op, "kernel_shape", axis, k, d, size, pads))
    padding = ends if word == "explicit" else word
    return kernel, steps, padding, spacing, rounding
