"""Pooling operations of OpenVINO, with its attributes and its results, and layers of an IR file.

Arrays are channels first: (N, C, D1, ..., Dn). A function is named by the operation and its
version, as in "MaxPool-14". The rules are those of OpenVINO 2026.4 on CPU with the precision f32:

* a maximum starts from the lowest finite number (of f16 and bf16 from -inf) and only a greater
  element is taken: a window of -inf gives that number, and NaN is ignored. Where none is taken, the
  index is that of the first element of the plane. AdaptiveMaxPool starts from the first element of
  the window instead, where a NaN stays;
* i16, u16, u32 and 64 bits are pooled in a wider dtype: an element equal to the lowest number of
  its dtype keeps its own index, where one of i8, u8 and i32 has index 0;
* indices are flat over the axes from ``axis`` on;
* the divisor of an average with ``exclude_pad=False`` is the whole window, overhang of rounding up
  included, if any axis has padding (SAME included), else the elements of the window;
* an average of floats whose divisor is zero, a count of elements, is NaN; it is 0 if the window
  starts beyond the first coordinate after the array;
* averages of integers are rounded half to even and saturate.

Differences that remain, on purpose:

* f64 and integers are pooled as they are, where the CPU plugin narrows 64 bits to 32, wraps sums of
  32 bits, averages integers in float32 and lets a maximum of i16 without an element be 0;
* a NaN of bf16 is ignored, as one of other floats; on some processors OpenVINO returns it;
* a window of bf16 without an element is -inf; on some processors OpenVINO returns the lowest finite
  number;
* an average of int8 over a whole plane is that of its sum, where AdaptiveAvgPool-8 saturates the
  sum to int8;
* negative pads are refused, where OpenVINO's size arithmetic wraps;
* an empty pooled axis is refused, where AvgPool returns uninitialised memory;
* 64-bit indices are int32 while JAX's 64-bit types are off.
"""

from .layers import LAYERS as LAYERS
from .layers import Layer as Layer
from .layers import model_layers as model_layers
from .layers import run_layer as run_layer
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
