"""Pooling operations of OpenVINO, with its attributes and its results, and layers of an IR file.

Arrays are channels first: (N, C, D1, ..., Dn). A function is named after the operation and its
version, as in "MaxPool-14". The rules are those of OpenVINO 2026.4 on CPU with the precision f32:

* a maximum starts from the lowest finite number (for f16 and bf16 from -inf), and only a greater
  element replaces it: a window of -inf gives the lowest number, and NaN is ignored. If no element
  is selected, the index is that of the first element of the plane. AdaptiveMaxPool starts from the
  first element of the window instead, and a NaN in this element is the result;
* i16, u16, u32 and 64 bits are pooled in a wider dtype: an element that equals the lowest number of
  its dtype keeps its index, whereas such an element of i8, u8 or i32 has index 0;
* indices are flat over the axes from ``axis`` on;
* if any axis has padding (SAME included), the divisor of an average with ``exclude_pad=False`` is
  the number of taps, including overhang of rounding up; otherwise it is the number of elements in
  the window;
* an average of floats whose divisor, a count of elements, is zero is NaN; it is 0 if the window
  starts beyond the first coordinate after the array;
* averages of integers are rounded half to even and saturate.

Deliberate differences:

* f64 and integers are pooled in their dtype; the CPU plugin converts 64 bits to 32, wraps sums of
  32 bits, averages integers in float32, and returns 0 for a maximum of i16 without an element;
* an average of integers without an element is 0; the CPU plugin may return the lowest i32;
* a NaN of bf16 is ignored, as for other floats; on some processors OpenVINO returns it;
* a window of bf16 without an element is -inf; on some processors OpenVINO returns the lowest finite
  number;
* an average of int8 or uint8 over a full plane is computed from the exact sum and rounded;
  AdaptiveAvgPool-8 saturates the sum to the dtype, and truncates the quotient;
* negative pads are an error; OpenVINO's size arithmetic wraps;
* an empty pooled axis is an error; AvgPool returns uninitialised memory;
* 64-bit indices are int32 while JAX's 64-bit types are off.
"""

from typing import TYPE_CHECKING

from ..._errors.missing_names import getter as _getter
from ..._errors.missing_names import of_front_end as _of_front_end
from .ir import model_layers as model_layers
from .ir import run_layer as run_layer
from .layers import LAYERS as LAYERS
from .layers import Layer as Layer
from .pools import adaptive_avg_pool_v8 as adaptive_avg_pool_v8
from .pools import adaptive_max_pool_v8 as adaptive_max_pool_v8
from .pools import avg_pool_v1 as avg_pool_v1
from .pools import avg_pool_v14 as avg_pool_v14
from .pools import avg_pool_v16 as avg_pool_v16
from .pools import max_pool_v1 as max_pool_v1
from .pools import max_pool_v8 as max_pool_v8
from .pools import max_pool_v14 as max_pool_v14

__all__ = [
    "LAYERS",
    "Layer",
    "adaptive_avg_pool_v8",
    "adaptive_max_pool_v8",
    "avg_pool_v1",
    "avg_pool_v14",
    "avg_pool_v16",
    "max_pool_v1",
    "max_pool_v14",
    "max_pool_v8",
    "model_layers",
    "run_layer",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = _getter(__name__, _of_front_end, __all__)
