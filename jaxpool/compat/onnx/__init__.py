"""Pooling operators of ONNX, with its attributes and by its standard (opset 22).

Arrays are channels first: (N, C, D1, ..., Dn). Where the standard's text is silent, the rules are
those of ONNX Runtime 1.32 on CPU:

* a maximum starts from the first element of the window inside the array; a NaN in this element is
  the result, other NaN are ignored;
* an empty window gives the lowest finite number (0 as an average), and its index is that of the
  element before the first element of its plane, on every axis;
* pads are smaller than the kernel, a pooled or channel axis is not empty, ranks are 3 to 5;
* indices are int64 (int32 while JAX's 64-bit types are off).

Where ONNX Runtime and the standard differ, this module follows the standard:

* SAME_UPPER and SAME_LOWER give ``ceil(size / stride)`` windows, with pads for the dilated kernel,
  never negative; ONNX Runtime pads for the undilated kernel, and its pads are negative where the
  stride exceeds that kernel;
* with ``ceil_mode=0`` a kernel that exceeds the padded axis is an error; ONNX Runtime divides with
  truncation, and runs one window if the kernel exceeds the axis by less than a stride;
* ``pads`` together with another ``auto_pad`` are an error, unless all are 0; ONNX Runtime ignores
  them;
* a maximum is the same with and without indices; without indices, ONNX Runtime's MaxPool and
  GlobalMaxPool of float32 give the lowest finite number for -inf alone, and propagate or ignore a
  NaN depending on its position in SIMD vectors; so do both of float16 with a NaN;
* integers of more than 8 bits are pooled by the same rules; ONNX Runtime has no kernel for them;
* a kernel that exceeds the padded axis by exactly a stride is an error; ONNX Runtime returns an
  empty axis, also with ``ceil_mode=1``;
* indices of MaxUnpool count in the shape that its window implies, also if ``output_shape`` is
  larger; ONNX Runtime interprets them in ``output_shape`` (``index_shape="output"``).

With VALID, the standard's text rounds down for any ``ceil_mode``; ONNX's own shape inference and
ONNX Runtime both follow ``ceil_mode``, and so does this module.
"""

from typing import TYPE_CHECKING

from ..._errors.missing_names import getter as _getter
from ..._errors.missing_names import of_front_end as _of_front_end
from .arguments import AUTO_PADS as AUTO_PADS
from .nodes import OPERATORS as OPERATORS
from .nodes import run_node as run_node
from .pools import average_pool as average_pool
from .pools import global_average_pool as global_average_pool
from .pools import global_lp_pool as global_lp_pool
from .pools import global_max_pool as global_max_pool
from .pools import lp_pool as lp_pool
from .pools import max_pool as max_pool
from .quantised import qlinear_average_pool as qlinear_average_pool
from .quantised import qlinear_global_average_pool as qlinear_global_average_pool
from .unpool import max_unpool as max_unpool

__all__ = [
    "AUTO_PADS",
    "OPERATORS",
    "average_pool",
    "global_average_pool",
    "global_lp_pool",
    "global_max_pool",
    "lp_pool",
    "max_pool",
    "max_unpool",
    "qlinear_average_pool",
    "qlinear_global_average_pool",
    "run_node",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = _getter(__name__, _of_front_end, __all__)
