"""OpenVINO's front end at the lowest number of each dtype, against the CPU plugin."""

import importlib
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same
from peers import require

from jaxpool.compat import openvino as front

openvino: Any = require("openvino")

TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8",
         "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32"}  # fmt: skip


def run(x: np.ndarray, version: int, kernel: int, pad: int) -> list[np.ndarray]:
    """Return MaxPool of one axis by the CPU plugin."""
    opset = importlib.import_module(f"openvino.opset{version}")
    kind = getattr(openvino.Type, TYPES[x.dtype.name])
    array = opset.parameter(list(x.shape), kind)
    window = ([1], [pad], [0], [kernel]) if version == 1 else ([1], [1], [pad], [0], [kernel])
    rest = () if version == 1 else ("i32", 2)
    operation = opset.max_pool(array, *window, "floor", "explicit", *rest)
    model = openvino.Model(operation.outputs(), [array], "pool")
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    tensor = openvino.Tensor(kind, list(x.shape))
    tensor.data[:] = x
    found = [np.array(value) for value in compiled([tensor]).values()]
    return [found[0].astype(x.dtype), *found[1:]]


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", [name for name in TYPES if "int" in name])
def test_elements_equal_to_the_lowest_integer(name: str) -> None:
    low = np.iinfo(name).min
    x = np.array([low, low, low, low + 1, low], name).reshape(1, 1, -1)
    for kernel, pad in ((1, 0), (2, 0), (2, 1), (3, 2)):
        want = run(x, 14, kernel, pad)
        settings = ((1,), (1,), (pad,), (0,), (kernel,), "floor", "explicit", "i32", 2)
        got = front.max_pool_v14(x, *settings)
        assert_same(got[0], want[0], (name, kernel, pad))
        assert_same(got[1], want[1].astype(np.int32), (name, kernel, pad))


@pytest.mark.grid(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_windows_of_minus_infinity_alone(dtype: Any) -> None:
    x = np.array([-np.inf, -np.inf, 1, -np.inf, -np.inf], dtype).reshape(1, 1, -1)
    for kernel, pad in ((1, 0), (2, 0), (2, 1)):
        (want,) = run(x, 1, kernel, pad)
        got = front.max_pool_v1(x, (1,), (pad,), (0,), (kernel,))
        assert_same(got, want, (dtype, kernel, pad))
        got = front.max_pool_v14(x, (1,), (1,), (pad,), (0,), (kernel,))[0]
        assert_same(got, want, (dtype, kernel, pad))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_windows_of_nan_alone(dtype: Any) -> None:
    """The start value, as in OpenVINO, whose NaN of bfloat16 depends on the processor."""
    x = jnp.asarray([jnp.nan, jnp.nan, 1], dtype).reshape(1, 1, -1)
    got = front.max_pool_v14(x, (1,), (1,), (0,), (0,), (2,))
    start = jnp.finfo(dtype).min if dtype == jnp.float32 else -jnp.inf
    assert got[0].tolist() == [[[float(jnp.asarray(start, dtype)), 1.0]]]
    assert got[1].tolist() == [[[0, 2]]]
    assert "a NaN of bf16 is ignored" in (front.__doc__ or "")
