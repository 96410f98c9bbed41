"""Pooling of ``torch.nn.functional``, with its arguments and its results.

The functions replace ``F.max_pool2d`` and the other pools in a model for JAX. Arrays are channels
first, with or without a batch axis. The rules are those of PyTorch 2.13 on CPU:

* ``stride=None`` means the window (documentation of ``MaxPool2d`` and ``AvgPool2d``);
* ``ceil_mode`` keeps a last window that starts in the array or its left padding;
* NaN in a window gives NaN, and index and gradient go to the last NaN;
* indices are flat over the pooled axes, int64 (int32 while JAX's 64-bit types are off);
* averages of integers are truncated towards zero; low-precision floats are added in float32;
* ``lp_pool`` takes no absolute value, and scales partial windows up.

Deliberate differences:

* errors are ValueError and TypeError; dtypes for which PyTorch has no kernel are pooled by the same
  rules;
* the number of axes is that of the function, and pooled axes are not empty; an adaptive average
  with ``output_size=1`` of PyTorch takes the last axes of any array;
* kernels are positive and pads are not negative, also where PyTorch accepts others (unpooling and
  fractional pooling); ``divisor_override`` has at most 32 bits;
* an empty window, which is possible in a dilated maximum, has index -1 instead of an index at which
  PyTorch's backward would write outside the array;
* ``lp_pool`` rejects integers and booleans, some of which PyTorch accepts;
* ``max_unpool`` with a repeated index keeps the last value; PyTorch on several threads keeps any of
  them;
* the gradient of ``max_unpool`` with a repeated index goes to the value that was written; PyTorch
  gives it to all of them;
* bfloat16 samples of fractional pooling place windows exactly; PyTorch rounds their positions to
  bfloat16;
* averages of int64 are exact; PyTorch's sums wrap at 64 bits;
* XLA treats subnormal numbers as zero, also on CPU; PyTorch keeps them. This affects values, and
  indices and gradients of windows whose largest numbers are subnormal.
"""

from typing import TYPE_CHECKING

from ..._errors.missing_names import getter as _getter
from ..._errors.missing_names import of_front_end as _of_front_end
from .adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from .adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from .adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from .adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from .adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from .adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from .fractional import fractional_max_pool2d as fractional_max_pool2d
from .fractional import fractional_max_pool3d as fractional_max_pool3d
from .sliding import avg_pool1d as avg_pool1d
from .sliding import avg_pool2d as avg_pool2d
from .sliding import avg_pool3d as avg_pool3d
from .sliding import lp_pool1d as lp_pool1d
from .sliding import lp_pool2d as lp_pool2d
from .sliding import lp_pool3d as lp_pool3d
from .sliding import max_pool1d as max_pool1d
from .sliding import max_pool2d as max_pool2d
from .sliding import max_pool3d as max_pool3d
from .unpool import max_unpool1d as max_unpool1d
from .unpool import max_unpool2d as max_unpool2d
from .unpool import max_unpool3d as max_unpool3d

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = _getter(__name__, _of_front_end, __all__)
