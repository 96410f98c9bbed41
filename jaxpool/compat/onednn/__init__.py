"""oneDNN's pooling primitive: forward inference, forward training with a workspace, and backward.

Rules of oneDNN 3.13.2 on CPU. Dilation counts the elements that are left out between two taps, so 0
is dense. The output size is ``(L + padding_l + padding_r - Ke) / stride + 1``, truncated; a larger
``padding_r`` stands for ceil rounding.

Max. A window starts from the lowest finite number ``v`` of the dtype (of bf16 from -inf) at window
offset 0 and takes each element that is greater than what it has. So NaN, -inf and ``v`` are never
taken; where nothing is, the result is ``v`` and the workspace 0, also if that offset lies in
padding. The workspace holds the offset of the argmax, row-major in the window; oneDNN calls it
opaque, and what it reads and writes is this. Backward gives each cotangent to its offset and drops
what falls into padding.

Average. The divisor is the whole window (``avg_include_padding``) or the elements in it
(``avg_exclude_padding``). Sums run in float32 and are divided there; integers are then rounded half
to even and saturated.

Source: oneDNN developer guide, pooling primitive; the reference implementation where it is silent.
Measured beyond it: s32 passes through float32 in averages and in ``forward_training``, and loses
what float32 does not hold, its sums in row-major order; ``forward_inference`` of max is exact.
"""

from .call import ALGORITHMS as ALGORITHMS
from .formats import TAGS as TAGS
from .primitive import backward as backward
from .primitive import forward_inference as forward_inference
from .primitive import forward_training as forward_training
from .primitive import reorder as reorder

__all__ = ["ALGORITHMS", "TAGS", "backward", "forward_inference", "forward_training", "reorder"]


def __dir__() -> list[str]:
    return list(__all__)
