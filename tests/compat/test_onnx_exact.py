"""ONNX's front end if the order of operations, refusals and kernels of ONNX Runtime matter."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same
from peers import require

from jaxpool.compat import onnx as front

onnx: Any = require("onnx")
onnxruntime: Any = require("onnxruntime")

make = getattr(onnx, "helper")  # noqa: B009


def run(
    operator: str, arrays: list[Any], constants: list[Any] = [], outputs: int = 1, **attributes: Any  # noqa: B006
) -> Any:  # fmt: skip
    """Return the outputs of ONNX Runtime, or None if it refuses."""
    onnxruntime.set_default_logger_severity(4)
    names = [f"x{n}" for n in range(len(arrays) + len(constants))]
    kinds = [make.np_dtype_to_tensor_dtype(np.asarray(a).dtype) for a in (*arrays, *constants)]
    domain = "com.microsoft" if operator.startswith("QLinear") else ""
    node = make.make_node(operator, names, ["y", "i"][:outputs], domain=domain, **attributes)
    given = [
        make.make_tensor_value_info(name, kind, array.shape)
        for name, kind, array in zip(names, kinds, arrays, strict=False)
    ]
    held = [
        make.make_tensor(name, kind, np.shape(c), np.ravel(c))
        for name, kind, c in zip(names[len(arrays) :], kinds[len(arrays) :], constants, strict=True)
    ]
    made = [
        make.make_tensor_value_info(name, kind, None)
        for name, kind in zip(node.output, (kinds[0], onnx.TensorProto.INT64), strict=False)
    ]
    graph = make.make_graph([node], "g", given, made, held)
    opsets = [make.make_opsetid("", 22), make.make_opsetid("com.microsoft", 1)]
    model = make.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        return session.run(None, dict(zip(names, arrays, strict=False)))
    except Exception:  # the runtime has its own exception types
        return None


@pytest.mark.grid(5)
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_quantised_averages_are_those_of_onnxruntime_to_the_last_bit(
    seed: int, jitted: bool
) -> None:
    """Scales that are no powers of two, large windows, and results near a tie."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype([np.int8, np.uint8][seed % 2])
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max + 1, (2, 3, 13, 11)).astype(dtype)
    scales = rng.choice([0.1, 0.3, 0.05, 1 / 3, 0.7], 2).astype(np.float32)
    zeros = rng.integers(limits.min, limits.max + 1, 2).astype(dtype)
    kernel = [int(n) for n in rng.integers(1, 9, 2)]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [int(n) for n in rng.integers(1, 4, 2)],
        "pads": [int(rng.integers(0, k)) for k in kernel * 2],
        "count_include_pad": int(rng.integers(0, 2)),
    }
    quantised = [scales[0], zeros[0], scales[1], zeros[1]]
    (want,) = run("QLinearAveragePool", [x], quantised, **attributes)

    def pool(x: Any) -> Any:
        return front.qlinear_average_pool(x, *quantised, **attributes)

    assert_same(jax.jit(pool)(x) if jitted else pool(x), want, attributes)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [(2, 2, (2, 0)), (2, 2, (1, 1)), (2, 2, (3, 1)), (1, 1, (1, 1)), (1, 1, (0, 0)), (3, 1, (2, 2)),
     (2, 1, (1, 1))],
)  # fmt: skip
def test_max_unpool_takes_and_refuses_pads_as_onnxruntime(
    kernel: int, stride: int, pads: tuple[int, int]
) -> None:
    y, i = np.array([[[5.0, 7.0]]], np.float32), np.array([[[0, 1]]])
    attributes: Any = {"kernel_shape": [kernel], "strides": [stride], "pads": list(pads)}
    want = run("MaxUnpool", [y, i], **attributes)
    if want is None or want[0].size < 1 or (i >= want[0].size).any():
        with pytest.raises(ValueError, match="^max_unpool: "):
            front.max_unpool(y, i, **attributes)
    else:
        assert_same(front.max_unpool(y, i, **attributes), want[0], attributes)


def test_differences_on_purpose() -> None:
    text = " ".join((front.__doc__ or "").split())
    low = np.full((1, 1, 3), -np.inf, np.float32)
    assert "of float32 give the lowest finite number for -inf alone" in text
    (theirs,) = run("MaxPool", [low], kernel_shape=[2])
    assert (theirs == np.finfo(np.float32).min).all()
    values, _ = run("MaxPool", [low], outputs=2, kernel_shape=[2])
    assert (values == -np.inf).all() and (front.max_pool(low, (2,))[0] == -jnp.inf).all()
    assert (front.global_max_pool(low) == -jnp.inf).all()

    assert "integers of more than 8 bits" in text
    many = np.arange(4).reshape(1, 1, 4)
    assert run("MaxPool", [many], outputs=2, kernel_shape=[2]) is None
    assert front.max_pool(many, (2,))[0].tolist() == [[[1, 2, 3]]]

    assert "exceeds the padded axis by exactly a stride" in text
    for ceil in (0, 1):
        settings = {"kernel_shape": (6,), "strides": (3,), "ceil_mode": ceil}
        values, _ = run("MaxPool", [low], outputs=2, **settings)
        assert values.shape == (1, 1, 0)
        with pytest.raises(ValueError, match="does not fit"):
            front.max_pool(low, **settings)
