"""Max and average pooling against the installed PyTorch: values, indices and gradients.

The draws are limited to cases in which PyTorch and jaxpool have the same rule:

* padding is symmetric and at most half the window (PyTorch refuses more);
* the dilated window fits the padded axis (PyTorch's ceil_mode also accepts some that do not fit,
  jaxpool raises);
* every window of a max has a real element (only dilation can violate this): otherwise PyTorch
  returns an index outside the data, and its backward writes to it;
* ``ceil_mode`` is ``rounding="ceil_torch"``, or plain "ceil" if both have the same windows;
* averages are of floats: PyTorch's int64 average truncates, jaxpool's rounds half to even;
* ``avg_pool3d`` refuses a window longer than the unpadded axis; 1-D has no ``divisor_override``;
* no NaN: PyTorch's index and gradient go to the last NaN of a window, jaxpool's to the first.
"""

from typing import Any

import numpy as np
import pytest
from compat_cases import generator
from live_configurations import (
    BATCH,
    Answer,
    Axis,
    Configuration,
    check_batch,
    draw_axes,
    draw_lead,
    draw_lowering,
    draw_max_op,
    draw_rounding,
)
from peers import require

pytestmark = pytest.mark.grid(8)

torch: Any = require("torch")

FLOATS = {"float32", "float64"}


def torch_pads(axis: Axis) -> bool:
    """Return whether PyTorch accepts the padding and the window fits."""
    return axis.low == axis.high <= axis.kernel // 2 and axis.slack >= 0


def draw_max(seed: int, dtype: str) -> Configuration:
    rng = generator("torch max", seed)
    axes = draw_axes(
        rng,
        lambda axis: torch_pads(axis) and not axis.has_hollow_window,
        dilated=rng.random() < 0.7,
        symmetric=True,
        padded=rng.random() < 0.8,
    )
    return _configuration(rng, draw_max_op(rng), axes, dtype, {})


def draw_average(seed: int, dtype: str) -> Configuration:
    rng = generator("torch average", seed)
    axes = draw_axes(
        rng,
        lambda axis: torch_pads(axis) and axis.kernel <= axis.size,
        dilated=False,
        symmetric=True,
        padded=rng.random() < 0.8,
    )
    settings: dict[str, Any] = {"count_include_pad": bool(rng.random() < 0.5)}
    if len(axes) > 1 and rng.random() < 0.3:
        settings["divisor_override"] = int(rng.choice([-3, -1, 1, 2, 5, 7]))
    return _configuration(rng, "avg_pool", axes, dtype, settings)


def _configuration(
    rng: np.random.Generator, op: str, axes: tuple[Axis, ...], dtype: str, settings: dict[str, Any]
) -> Configuration:
    return Configuration(
        op=op,
        axes=axes,
        lead=draw_lead(rng, unbatched=True),
        padding=tuple((axis.low, axis.high) for axis in axes),
        rounding=draw_rounding(rng, axes),
        dtype=dtype,
        ties=bool(rng.random() < 0.5),
        seed=int(rng.integers(1_000_000)),
        data_format=str(rng.choice(["channels_first", "channels_last"])),
        settings=settings | draw_lowering(rng),
    )


def run_torch(c: Configuration) -> Answer:
    """Run the call in PyTorch, with the gradient if PyTorch has one."""
    pooled = len(c.axes)
    x = torch.tensor(c.data(), requires_grad=c.dtype in FLOATS)
    settings = {"padding": c.per_axis("low"), "ceil_mode": c.rounding != "floor"}
    if c.op == "avg_pool":
        pool = f"avg_pool{pooled}d"
        settings |= {name: c.settings[name] for name in c.settings if name != "implementation"}
    else:
        pool = f"max_pool{pooled}d"
        settings |= {"dilation": c.per_axis("dilation"), "return_indices": True}
    result = getattr(torch.nn.functional, pool)(
        x, c.per_axis("kernel"), c.per_axis("stride"), **settings
    )
    values, indices = result if isinstance(result, tuple) else (result, None)
    if c.op != "max_pool_with_argmax":
        indices = None
    gradient = None
    if c.dtype in FLOATS:
        cotangent = torch.tensor(c.cotangent(values.shape))
        gradient = torch.autograd.grad(values, x, cotangent)[0].numpy()
    return Answer(values.detach().numpy(), None if indices is None else indices.numpy(), gradient)


# Float32 mostly; the other dtypes that both sides pool. PyTorch has max kernels for integers.
MAX_DTYPES = ["float32"] * 3 + ["float64"] + ["int8", "uint8", "int32"]
AVERAGE_DTYPES = ["float32"] * 3 + ["float64"]


@pytest.mark.grid(14)
@pytest.mark.parametrize(("number", "dtype"), [*enumerate(np.repeat(MAX_DTYPES, 2).tolist())])
def test_max_values_indices_and_gradients_are_those_of_torch(number: int, dtype: str) -> None:
    half = BATCH // 2
    check_batch([draw_max(number * half + i, dtype) for i in range(half)], run_torch)


@pytest.mark.parametrize(("number", "dtype"), list(enumerate(AVERAGE_DTYPES)))
def test_average_values_and_gradients_are_those_of_torch(number: int, dtype: str) -> None:
    batch = [draw_average(number * BATCH + i, dtype) for i in range(BATCH)]
    check_batch(batch, run_torch, ulps=4)  # sums may have any order
