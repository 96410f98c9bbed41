"""Contestants of the benchmark: one builder per framework, each with its preferred layout.

A builder accepts a job and returns two functions without arguments: one runs the job once and waits
for the result, the other returns this result as a NumPy array with channels last. Inputs are
already in the memory and layout of the framework: the timed call copies and transposes nothing.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from measuring import DATA_FORMATS, THREADS
from pools import geometry_of, reduce_window_settings, with_gradient

import jaxpool
from jaxpool.testing import NamedCase

Contestant = tuple[Callable[[], Any], Callable[[], np.ndarray]]


@dataclass(frozen=True)
class Job:
    """A case in a layout and dtype, and the task to time: forward, backward or argmax.

    Backward is a forward pass and its gradient.
    """

    case: NamedCase
    layout: str
    dtype: str
    task: str

    @property
    def geometry(self) -> jaxpool.Geometry:
        return geometry_of(self.case)

    @functools.cached_property
    def data(self) -> np.ndarray:
        """The array, channels last: multiples of 1/16, so that sums are exact in every dtype."""
        elements = np.random.default_rng(0).integers(-64, 64, self.case.shape)
        kind = np.int8 if self.dtype == "int8" else np.float32
        return (elements if kind is np.int8 else elements / 16).astype(kind)

    @functools.cached_property
    def cotangent(self) -> np.ndarray:
        shape = self.geometry.out_shape
        shape = (self.case.shape[0], *shape, self.case.shape[-1])
        return np.random.default_rng(1).integers(-8, 8, shape).astype(np.float32)

    def channels_first(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(array, -1, 1))


def contestants(job: Job) -> dict[str, Contestant]:
    """Return the contestants of every framework that supports this job, by name."""
    by_name = {}
    for name, build in BUILDERS.items():
        contestant = build(job)
        if contestant is not None:
            by_name[name] = contestant
    return by_name


# --- JAX: one memory pass, lax.reduce_window, and jaxpool -----------------------------------------


def _jax_array(job: Job, array: np.ndarray, dtype: str | None = None) -> jax.Array:
    array = array if job.layout == "NHWC" else job.channels_first(array)
    return jnp.asarray(array, dtype or job.dtype)


def _jax_contestant(job: Job, function: Callable, *arrays: jax.Array) -> Contestant:
    compiled = jax.jit(function)

    def once():
        return jax.block_until_ready(compiled(*arrays))

    def result() -> np.ndarray:
        out = np.asarray(jax.tree.leaves(once())[-1])
        out = out.astype(np.float32) if out.dtype == ml_dtypes.bfloat16 else out
        return out if job.layout == "NHWC" else np.moveaxis(out, 1, -1)

    return once, result


def _jax_task(job: Job, pool: Callable, argmax: Callable | None) -> Contestant | None:
    x = _jax_array(job, job.data)
    if job.task == "backward":
        return _jax_contestant(job, with_gradient(pool), x, _jax_array(job, job.cotangent))
    if job.task == "argmax":
        return None if argmax is None else _jax_contestant(job, argmax, x)
    return _jax_contestant(job, pool, x)


def one_pass(job: Job) -> Contestant:
    """Return x + 1, which reads and writes the input once: the yardstick of every table.

    Its result is not compared.
    """
    return _jax_contestant(job, lambda x: x + 1, _jax_array(job, job.data))


def ours(job: Job) -> Contestant | None:
    settings = {**job.case.settings, "data_format": DATA_FORMATS[job.layout]}
    pool = functools.partial(getattr(jaxpool, job.case.op), **settings)
    argmax = None
    if job.case.op == "max_pool":
        argmax = functools.partial(jaxpool.max_pool_with_argmax, **settings)
    return _jax_task(job, pool, argmax)


def reduce_window(job: Job) -> Contestant | None:
    """Return ``lax.reduce_window`` as Flax calls it; for argmax with two operands, as users do."""
    config = reduce_window_settings(job.case, job.layout)
    op = job.case.op
    if job.task == "backward" and any(axis.dilation > 1 for axis in job.geometry.axes):
        return None  # JAX has no reverse mode for a dilated max
    if op == "avg_pool":
        pool = functools.partial(_flax_average, job=job, config=config)
    else:
        extreme = lax.max if op == "max_pool" else lax.min
        pool = lambda x: lax.reduce_window(x, _init_value(op, x.dtype), extreme, **config)  # noqa: E731
    argmax = functools.partial(_two_operand_argmax, job=job, config=config)
    return _jax_task(job, pool, argmax if op == "max_pool" else None)


def _init_value(op: str, dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return np.asarray(limits.min if op == "max_pool" else limits.max, dtype)
    return np.asarray(-np.inf if op == "max_pool" else np.inf, dtype)


def _flax_average(x: jax.Array, job: Job, config: dict[str, Any]) -> jax.Array:
    zero = np.zeros((), x.dtype)
    total = lax.reduce_window(x, zero, lax.add, **config)
    if job.case.count_include_pad:
        return total / np.prod(job.case.window)
    channels = -1 if job.layout == "NHWC" else 1
    shape = [1 if axis in (0, channels % x.ndim) else n for axis, n in enumerate(x.shape)]
    return total / lax.reduce_window(jnp.ones(shape, x.dtype), zero, lax.add, **config)


def _two_operand_argmax(
    x: jax.Array, job: Job, config: dict[str, Any]
) -> tuple[jax.Array, jax.Array]:
    spatial = x.shape[1:-1] if job.layout == "NHWC" else x.shape[2:]
    shape = (1, *spatial, 1) if job.layout == "NHWC" else (1, 1, *spatial)
    positions = jnp.arange(np.prod(spatial), dtype=jnp.int32).reshape(shape)

    def combine(a, b):
        takes_b = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return jnp.where(takes_b, b[0], a[0]), jnp.where(takes_b, b[1], a[1])

    init_values = (_init_value("max_pool", x.dtype), np.int32(np.iinfo(np.int32).max))
    return lax.reduce_window(
        (x, jnp.broadcast_to(positions, x.shape)), init_values, combine, **config
    )


# --- torch ----------------------------------------------------------------------------------------


def torch_cpu(job: Job) -> Contestant | None:
    import torch

    torch.set_num_threads(THREADS)
    call = _torch_call(job)
    if call is None:
        return None
    x = _torch_tensor(job, job.data, job.dtype)
    if job.task == "backward":
        x.requires_grad_(True)
        cotangent = _torch_tensor(job, job.cotangent, job.dtype)
        once = lambda: torch.autograd.grad(call(x), x, cotangent)[0]  # noqa: E731
    else:
        once = functools.partial(call, x)

    def result() -> np.ndarray:
        out = once()
        out = out[-1] if isinstance(out, tuple) else out
        out = out.float() if out.dtype == torch.bfloat16 else out
        return np.moveaxis(out.detach().numpy(), 1, -1)

    return once, result


def _torch_call(job: Job) -> Callable | None:
    import torch.nn.functional as F

    case, axes = job.case, job.geometry.axes
    symmetric = all(axis.pad_low == axis.pad_high for axis in axes)
    if case.op == "min_pool" or not symmetric or case.rounding == "ceil":
        return None
    if job.dtype == "int8" and (len(axes) == 1 or case.op != "max_pool"):
        return None
    if job.dtype == "int8" and job.layout == "NHWC":
        return None  # indices are then int8 as well, so a plane has at most 127 elements
    settings: dict[str, Any] = {
        "kernel_size": case.window,
        "stride": case.strides,
        "padding": tuple(axis.pad_low for axis in axes),
        "ceil_mode": case.rounding == "ceil_torch",
    }
    if case.op == "avg_pool":
        settings["count_include_pad"] = case.count_include_pad
    else:
        settings["dilation"] = tuple(axis.dilation for axis in axes)
        settings["return_indices"] = job.task == "argmax"
    return functools.partial(getattr(F, f"{case.op}{len(axes)}d"), **settings)


def _torch_tensor(job: Job, array: np.ndarray, dtype: str) -> Any:
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    tensor = torch.from_numpy(job.channels_first(array)).to(getattr(torch, dtype))
    if job.layout == "NHWC" and tensor.ndim in formats:
        return tensor.contiguous(memory_format=formats[tensor.ndim])
    return tensor.contiguous()


# --- ONNX Runtime ---------------------------------------------------------------------------------

_ONNX_TYPES = {"float32": 1, "int8": 3}


def onnxruntime_cpu(job: Job) -> Contestant | None:
    if job.task == "backward" or job.dtype not in _ONNX_TYPES or job.case.op == "min_pool":
        return None
    if job.case.op == "avg_pool" and job.dtype != "float32":
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    model = _onnx_model(job)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(job.channels_first(job.data))
    binding.bind_ortvalue_input("x", value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    once = lambda: session.run_with_iobinding(binding)  # noqa: E731

    def result() -> np.ndarray:
        once()
        out = np.moveaxis(binding.copy_outputs_to_cpu()[-1], 1, -1)
        return _plane_indices(job, out) if job.task == "argmax" else out

    return once, result


def _onnx_model(job: Job) -> bytes:
    from onnx import helper

    case, axes = job.case, job.geometry.axes
    attributes: dict[str, Any] = {
        "kernel_shape": case.window,
        "strides": case.strides,
        "pads": [axis.pad_low for axis in axes] + [axis.pad_high for axis in axes],
        "dilations": [axis.dilation for axis in axes],
        "ceil_mode": int(case.rounding == "ceil_torch"),
    }
    if case.op == "avg_pool":
        attributes["count_include_pad"] = int(case.count_include_pad)
    outputs = ["y", "indices"] if job.task == "argmax" else ["y"]
    kind = "MaxPool" if case.op == "max_pool" else "AveragePool"
    element_type = _ONNX_TYPES[job.dtype]
    types = {"y": element_type, "indices": 7}
    shape = [case.shape[0], case.shape[-1], *case.shape[1:-1]]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], outputs, **attributes)],
        "pool",
        [helper.make_tensor_value_info("x", element_type, shape)],
        [helper.make_tensor_value_info(name, types[name], None) for name in outputs],
    )
    opset = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def _plane_indices(job: Job, indices: np.ndarray) -> np.ndarray:
    """Return indices within each plane, jaxpool's default, from indices over the whole array."""
    return indices % np.prod(job.case.shape[1:-1])


# --- OpenVINO -------------------------------------------------------------------------------------


def openvino_cpu(job: Job) -> Contestant | None:
    if job.task == "backward" or job.case.op == "min_pool":
        return None
    if job.dtype == "bfloat16" or (job.task == "argmax" and job.dtype != "float32"):
        return None
    if job.task == "argmax" and job.geometry.taps > 256:
        return None  # each call takes minutes
    import openvino as ov

    compiled = ov.Core().compile_model(
        _openvino_model(job),
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": THREADS,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    request = compiled.create_infer_request()
    data = job.channels_first(job.data)  # shared, so it must outlive this function
    request.set_input_tensor(ov.Tensor(data, shared_memory=True))
    last = len(compiled.outputs) - 1

    def result(_shared: np.ndarray = data) -> np.ndarray:
        request.infer()
        out = np.moveaxis(request.get_output_tensor(last).data, 1, -1).copy()
        return _plane_indices(job, out) if job.task == "argmax" else out

    return request.infer, result


def _openvino_model(job: Job) -> Any:
    import openvino as ov
    from openvino import opset14, opset15

    case, axes = job.case, job.geometry.axes
    shape = [case.shape[0], case.shape[-1], *case.shape[1:-1]]
    x = opset15.parameter(shape, np.int8 if job.dtype == "int8" else np.float32)
    low, high = ([getattr(axis, f"pad_{end}") for axis in axes] for end in ("low", "high"))
    strides, window = list(case.strides), list(case.window)
    if case.op == "avg_pool":
        node = opset14.avg_pool(
            x, strides, low, high, window, not case.count_include_pad, case.rounding, "explicit"
        )
        return ov.Model([node.output(0)], [x])
    dilations = [axis.dilation for axis in axes]
    node = opset14.max_pool(
        x, strides, dilations, low, high, window, case.rounding, "explicit", "i32", 2
    )
    outputs = node.outputs() if job.task == "argmax" else [node.output(0)]
    return ov.Model(outputs, [x])


BUILDERS: dict[str, Callable[[Job], Contestant | None]] = {
    "x + 1": one_pass,
    "jaxpool": ours,
    "reduce_window": reduce_window,
    "torch": torch_cpu,
    "onnxruntime": onnxruntime_cpu,
    "openvino": openvino_cpu,
}
