"""oneDNN's pooling primitive: forward inference, forward training with a workspace, and backward.

The rules are those of oneDNN 3.13.2 on CPU. Dilation is the number of elements that are skipped
between two taps, so 0 is dense. The output size is
``(L + padding_l + padding_r - Ke) / stride + 1``, truncated; a larger ``padding_r`` replaces ceil
rounding.

Max. A window starts from the lowest finite number ``v`` of the dtype (for bf16 from -inf) at window
offset 0, and each element that is greater than the current value replaces it. NaN, -inf and ``v``
are therefore never selected. If no element is selected, the result is ``v`` and the workspace is 0,
even if offset 0 is in padding. (On some processors, oneDNN starts from ``v`` for bf16, too.) The
workspace contains the offset of the argmax, row-major in the window; oneDNN documents it as opaque,
but reads and writes this offset. Backward adds each cotangent at its offset and drops cotangents
whose offset is in padding.

Average. The divisor is the number of taps (``avg_include_padding``) or the number of elements in
the window (``avg_exclude_padding``). Sums are accumulated and divided in float32; integers are then
rounded half to even and saturated.

Source: oneDNN developer guide, pooling primitive; where the guide is silent, the reference
implementation. Measured in addition: s32 is converted to float32 in averages and in
``forward_training``, which rounds large numbers, and its sums are accumulated in row-major order;
``forward_inference`` of max is exact.
"""

from typing import TYPE_CHECKING

from ..._errors.missing_names import getter as _getter
from ..._errors.missing_names import of_modules as _of_modules
from .call import ALGORITHMS as ALGORITHMS
from .formats import TAGS as TAGS
from .primitive import backward as backward
from .primitive import forward_inference as forward_inference
from .primitive import forward_training as forward_training
from .primitive import reorder as reorder

__all__ = ["ALGORITHMS", "TAGS", "backward", "forward_inference", "forward_training", "reorder"]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = _getter(__name__, _of_modules, __all__)
