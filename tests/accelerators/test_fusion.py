"""Bounds on the programs of the compilers of TPU and GPU, which detect a broken fusion.

A program must at least read its arguments and write its results; ``moved`` bounds its main-memory
traffic as a multiple of these bytes. The figures are those of benchmarks/accelerators.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import compilers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import filters


class Bound(NamedTuple):
    """A program and its maximum costs.

    Attributes:
      chip: a key of :data:`compilers.CHIPS`.
      f: the function.
      shape, dtype: its argument.
      kernels: the maximum number of kernels.
      moved: the maximum main-memory traffic, in bytes of arguments and results.
    """

    chip: str
    f: Callable[..., Any]
    shape: tuple[int, ...]
    dtype: str
    kernels: int
    moved: float


def step(pool: Callable[..., Any], *settings: Any, **options: Any) -> Callable[..., Any]:
    """Return a function: values, and the gradient of half the sum of their squares."""

    def run(x: jax.Array) -> Any:
        y, pull = jax.vjp(lambda x: pool(x, *settings, **options), x)
        return y, pull(y)[0]

    return run


def values(pool: Callable[..., Any], *settings: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: pool(x, *settings, **options)


max_pool, avg_pool = jaxpool.max_pool, jaxpool.avg_pool
STEM = step(max_pool, (3, 3), 2, "SAME")
TILED = step(max_pool, (2, 2), 2)
OVERLAPPING = step(max_pool, (3, 3), 1, "SAME")
ARGMAX = values(jaxpool.max_pool_with_argmax, (2, 2), 2)
AVERAGE = step(avg_pool, (3, 3), 1, "SAME")
LARGE_AVERAGE = step(avg_pool, (5, 5), 1, "SAME")
LONG = values(max_pool, (31, 31), 1, "SAME")
LONG_ARGMAX = values(jaxpool.max_pool_with_argmax, (31, 31), 1, "SAME")
LONG_STEP = step(max_pool, (31, 31), 1, "SAME")
ONE_AXIS = values(jaxpool.max_pool_with_argmax, (101,), 1, "SAME")
ODD_ARGMAX = values(jaxpool.max_pool_with_argmax, (3, 3), 2, index_space="window")
WIDE_ARGMAX = values(jaxpool.max_pool_with_argmax, (5, 5), 2, "SAME", index_space="window")
PADDED_ARGMAX = values(jaxpool.max_pool_with_argmax, (3, 3), 1, "SAME", index_space="window")
APART = step(max_pool, (2, 3), 6, dilations=2)
ROLLING = step(avg_pool, 101, 1, "SAME", data_format="W")
TILED_3D = step(max_pool, (2, 2, 2), 2)
TILED_AVERAGE = step(avg_pool, (2, 2), 2)
SOFT = step(jaxpool.soft_pool, (3, 3), 1, "SAME")
SOFT_STRIDED = step(jaxpool.soft_pool, (3, 3), 2, "SAME")
LOGSUMEXP = step(jaxpool.logsumexp_pool, (3, 3), 2, "SAME")
SOFT_VALUES = values(jaxpool.soft_pool, (3, 3), 2, "SAME")
MEDIAN = step(jaxpool.median_pool, (3, 3), 2)
MEDIAN_VALUES = values(jaxpool.median_pool, (3, 3), 2, "SAME")
BLUR = values(jaxpool.blur_pool, (3, 3), 2, 1)
VARIANCE = step(jaxpool.var_pool, (3, 3), 2, "SAME")
VARIANCE_VALUES = values(jaxpool.var_pool, (3, 3), 2, "SAME")
FOOTPRINT = np.hypot(*np.mgrid[-7:8, -7:8]) < 7.5
DISC = values(jaxpool.filters.median_filter, footprint=FOOTPRINT)
STRUCTURE = step(jaxpool.filters.grey_erosion, structure=np.arange(225.0).reshape(15, 15))
GENERALIZED_MEAN = step(jaxpool.gem_pool, (2, 2), 2)
ADAPTIVE = {"output_size": (5, 5), "data_format": "NCHW"}
ADAPTIVE_VALUES = values(jaxpool.adaptive_avg_pool, **ADAPTIVE)
ADAPTIVE_MAXIMUM = step(jaxpool.adaptive_max_pool, **ADAPTIVE)
PLANES = (64, 64, 56, 56)
BLURRED = jax.ShapeDtypeStruct((64, 112, 112, 128), jnp.float32)
BLUR_GRADIENT = lambda g: jax.linear_transpose(BLUR, BLURRED)(g)[0]  # noqa: E731
WINDOWS = values(jaxpool.windows, (4, 4), 4)
IN_WINDOWS = jax.ShapeDtypeStruct((32, 56, 56, 64), jnp.float32)
WINDOWS_GRADIENT = lambda g: jax.linear_transpose(WINDOWS, IN_WINDOWS)(g)[0]  # noqa: E731
PATCHES = values(jaxpool.windows, (16, 16), 16)
OVERLAPPING_WINDOWS = values(jaxpool.windows, (3, 3), 2)
MAXIMUM_OF_WINDOWS = lambda x: OVERLAPPING_WINDOWS(x).max(-1)  # noqa: E731
LOGSUMEXP_OF_WINDOWS = jax.grad(lambda x: jax.nn.logsumexp(OVERLAPPING_WINDOWS(x), -1).sum())
LARGE, HALF, SMALL = (32, 112, 112, 128), (64, 56, 56, 128), (32, 28, 28, 192)
ODD = (64, 55, 55, 128)
FEW = (12, 56, 56, 128)
PLANE = (512, 512)
BOUNDS = {
    "ResNet's stem on GPU": Bound("H100", STEM, LARGE, "float32", 2, 1.2),
    "tiled on GPU": Bound("H100", TILED, LARGE, "bfloat16", 2, 1.25),
    "overlapping on GPU": Bound("H100", OVERLAPPING, SMALL, "bfloat16", 2, 1.7),
    "argmax on GPU": Bound("H100", ARGMAX, LARGE, "float32", 1, 1.02),
    "average on GPU": Bound("H100", AVERAGE, SMALL, "float32", 2, 1.36),
    "argmax of 3x3 beside padding on GPU": Bound("H100", PADDED_ARGMAX, SMALL, "float32", 1, 1.01),
    "argmax of 31x31 on GPU": Bound("H100", LONG_ARGMAX, SMALL, "float32", 4, 3.2),
    "31x31 on GPU": Bound("H100", LONG_STEP, SMALL, "float32", 8, 10.6),
    "argmax of 101 on GPU": Bound("H100", ONE_AXIS, (32, 16000, 16), "float32", 2, 1.86),
    "dilated and apart on GPU": Bound("H100", APART, (32, 56, 56, 128), "float32", 2, 1.2),
    "tiled in 3-D on GPU": Bound("H100", TILED_3D, (2, 16, 56, 56, 128), "float32", 2, 1.2),
    "tiled average on GPU": Bound("H100", TILED_AVERAGE, LARGE, "bfloat16", 2, 1.23),
    "tiled average on TPU": Bound("v5e", TILED_AVERAGE, LARGE, "bfloat16", 3, 1.2),
    "adaptive average on GPU": Bound("H100", ADAPTIVE_VALUES, PLANES, "float32", 2, 1.19),
    "adaptive maximum on GPU": Bound("H100", ADAPTIVE_MAXIMUM, PLANES, "float32", 5, 1.25),
    "median over a disc on GPU": Bound("H100", DISC, PLANE, "float32", 140, 143),
    "structure of 15x15 on GPU": Bound("H100", STRUCTURE, PLANE, "float32", 5, 3.5),
    "argmax of 3x3 without strides on TPU": Bound("v5e", PADDED_ARGMAX, SMALL, "float32", 3, 1.34),
    "ResNet's stem on TPU": Bound("v6e", STEM, LARGE, "float32", 2, 1.01),
    "tiled on TPU": Bound("v5e", TILED, LARGE, "bfloat16", 2, 1.01),
    "average on TPU": Bound("v5e", AVERAGE, SMALL, "float32", 3, 1.36),
    "average of few images on TPU": Bound("v5e", AVERAGE, FEW, "float32", 2, 1.01),
    "5x5 average of few images on TPU": Bound("v5e", LARGE_AVERAGE, FEW, "float32", 2, 1.01),
    "argmax on TPU": Bound("v5e", ARGMAX, LARGE, "float32", 3, 1.01),
    "argmax of 5x5 on TPU": Bound("v5e", WIDE_ARGMAX, LARGE, "float32", 2, 1.01),
    "argmax of 5x5 in bfloat16 on TPU": Bound("v5e", WIDE_ARGMAX, LARGE, "bfloat16", 2, 1.01),
    "argmax of odd lengths on v5e": Bound("v5e", ODD_ARGMAX, ODD, "bfloat16", 1, 1.01),
    "argmax of odd lengths on v6e": Bound("v6e", ODD_ARGMAX, ODD, "float32", 1, 1.01),
    "soft on GPU": Bound("H100", SOFT, HALF, "bfloat16", 3, 9.1),
    "soft on TPU": Bound("v5e", SOFT, HALF, "bfloat16", 5, 15.1),
    "strided soft on TPU": Bound("v5e", SOFT_STRIDED, LARGE, "float32", 7, 4.95),
    "strided logsumexp on TPU": Bound("v5e", LOGSUMEXP, LARGE, "float32", 4, 3.6),
    "values of soft on TPU": Bound("v6e", SOFT_VALUES, HALF, "bfloat16", 2, 1.1),
    "generalized mean on TPU": Bound("v5e", GENERALIZED_MEAN, HALF, "bfloat16", 5, 5.1),
    "median on TPU": Bound("v5e", MEDIAN, LARGE, "float32", 6, 3.02),
    "values of a median on TPU": Bound("v6e", MEDIAN_VALUES, LARGE, "float32", 1, 1.01),
    "blur on GPU": Bound("H100", BLUR, LARGE, "float32", 1, 1.01),
    "blur on TPU": Bound("v6e", BLUR, LARGE, "float32", 1, 1.01),
    "blur of bfloat16 on TPU": Bound("v5e", BLUR, HALF, "bfloat16", 1, 1.01),
    "variance of bfloat16 on TPU": Bound("v5e", VARIANCE_VALUES, HALF, "bfloat16", 4, 1.01),
    "gradient of a blur on GPU": Bound("H100", BLUR_GRADIENT, HALF, "float32", 1, 1.01),
    "gradient of a blur on TPU": Bound("v5e", BLUR_GRADIENT, HALF, "float32", 2, 1.01),
    "gradient of windows on TPU": Bound(
        "v6e", WINDOWS_GRADIENT, (32, 14, 14, 64, 16), "float32", 1, 2.01
    ),
    "windows on TPU": Bound("v6e", WINDOWS, IN_WINDOWS.shape, "float32", 1, 2.01),
    "patches on TPU": Bound("v6e", PATCHES, (16, 224, 224, 3), "bfloat16", 3, 1.08),
    "maximum of windows on TPU": Bound("v6e", MAXIMUM_OF_WINDOWS, LARGE, "float32", 1, 1.01),
    "function of windows on GPU": Bound("H100", LOGSUMEXP_OF_WINDOWS, HALF, "float32", 3, 2.71),
    "variance on GPU": Bound("H100", VARIANCE, LARGE, "float32", 3, 2.15),
    "variance on TPU": Bound("v5e", VARIANCE, LARGE, "float32", 7, 2.6),
    "values of variance on TPU": Bound("v6e", VARIANCE_VALUES, LARGE, "float32", 3, 1.01),
    "rolling mean on TPU": Bound("v5e", ROLLING, (10**6,), "float32", 18, 2.05),
    "31x31 on TPU": Bound("v5e", LONG, SMALL, "float32", 10, 1.36),
}


@pytest.mark.parametrize(("name", "chip"), [(name, bound.chip) for name, bound in BOUNDS.items()])
def test_a_program_stays_fused(name: str, chip: str) -> None:
    bound = BOUNDS[name]
    x = jax.ShapeDtypeStruct(bound.shape, jnp.dtype(bound.dtype))
    arrays = jax.tree.leaves((x, jax.eval_shape(bound.f, x)))
    least = sum(array.size * array.dtype.itemsize for array in arrays) / 1e6
    figures = compilers.costs(chip, bound.f, *compilers.specs([(bound.shape, bound.dtype)]))
    assert figures["kernels"] <= bound.kernels
    assert figures["megabytes"] <= bound.moved * least


@pytest.mark.parametrize(("chip", "dtype"), [("v5e", "float32"), ("v6e", "bfloat16")])
def test_the_argmax_of_a_masked_array_is_one_kernel(chip: str, dtype: str) -> None:
    """No masked copy is stored: the kernel reads array and mask, and writes values and offsets."""

    def argmax(x: jax.Array, mask: jax.Array) -> Any:
        settings: dict[str, Any] = {"where": mask, "index_space": "window"}
        return jaxpool.max_pool_with_argmax(x, (3, 3), 2, "SAME", **settings)

    arguments = compilers.specs([(LARGE, dtype), (LARGE, "bool")])
    results = jax.eval_shape(argmax, *arguments)
    least = sum(array.size * array.dtype.itemsize for array in (*arguments, *results)) / 1e6
    figures = compilers.costs(chip, argmax, *arguments)
    assert figures["kernels"] == 1
    assert figures["megabytes"] <= 1.01 * least


@pytest.mark.parametrize("chip", ["H100"])
def test_sums_of_adaptive_windows_keep_rows_contiguous(chip: str) -> None:
    """XLA:GPU would store a gather along rows with the gathered axis as the slowest one.

    It would also fuse the sums along both axes into one kernel with distant reads.
    """
    arguments = compilers.specs([((64, 64, 56, 56), "float32")])
    gradient = step(jaxpool.adaptive_avg_pool, **ADAPTIVE)
    entry = compilers.compiled(chip, gradient, *arguments).as_text().partition("ENTRY")[2]
    assert entry.count("= f32[64,64,5,56]{3,2,1,0} fusion(") == 2
    assert " = f32[56," not in entry


@pytest.mark.parametrize("chip", ["v6e"])
def test_the_gradient_of_a_relu_crops_the_gradient_of_the_maximum_after_it(chip: str) -> None:
    """The gradient of 55 elements at stride 2 is computed for 56; no kernel only crops it."""

    def maximum(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")

    arguments = compilers.specs([(ODD, "float32")])
    ours, jax_s = (
        compilers.costs(chip, step(lambda x: pool(jax.nn.relu(x))), *arguments)  # noqa: B023
        for pool in (lambda x: max_pool(x, (3, 3), 2), maximum)
    )
    assert ours["kernels"] <= 4
    assert ours["megabytes"] <= 0.77 * jax_s["megabytes"]


def mixed(x: jax.Array, weights: jax.Array) -> jax.Array:
    """A convolution of 1x1."""
    return jax.lax.conv_general_dilated(
        x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@pytest.mark.parametrize(("chip", "megabytes"), [("v5e", 670), ("v6e", 825)])
def test_the_gradient_of_an_average_between_convolutions_is_one_kernel(
    chip: str, megabytes: float
) -> None:
    """There is a kernel for each of three ops, and no float32 array between them.

    The gradient alone cannot show this: if no other op requires a layout, XLA:TPU puts 56 columns
    along sublanes, and splits the sum into two kernels with float32 between them. These move 668 MB
    on a v5e and 873 MB on a v6e, as JAX's gradient does, although 257 MB would suffice.
    """

    def gradient(x: jax.Array, weights: jax.Array, g: jax.Array) -> jax.Array:
        pooled = lambda x: avg_pool(mixed(x, weights), (3, 3), 2, "SAME")  # noqa: E731
        return jax.vjp(lambda x: mixed(pooled(x), weights), x)[1](g)[0]

    arrays = [((64, 112, 112, 128), "bfloat16"), ((1, 1, 128, 128), "bfloat16")]
    arguments = compilers.specs([*arrays, ((64, 56, 56, 128), "bfloat16")])
    figures = compilers.costs(chip, gradient, *arguments)
    assert figures["kernels"] == 3
    assert figures["megabytes"] <= megabytes


TAPS = np.add.outer(np.arange(13), np.arange(12)) % 3 > 0
TAP_WEIGHTS = np.multiply.outer(np.arange(13.0), np.arange(12.0)) % 5
MANY_TAPS = {
    "median": step(jaxpool.median_pool, (13, 12), 1),
    "median, padded": step(jaxpool.median_pool, (13, 12), 1, "SAME"),
    "footprint": step(filters.median_filter, footprint=TAPS, axes=(1, 2)),
    "structure": step(filters.grey_dilation, structure=TAP_WEIGHTS, axes=(1, 2)),
}


@pytest.mark.parametrize("chip", ["H100"])
@pytest.mark.parametrize("case", MANY_TAPS)
def test_gradients_of_windows_with_many_taps_store_no_tap(case: str, chip: str) -> None:
    """XLA:GPU would store what a reduction reads of two arrays at every tap: 84 to 250 arrays."""
    (x,) = compilers.specs([((8, 64, 64, 8), "float32")])
    program = compilers.compiled(chip, MANY_TAPS[case], x)
    assert program.memory_analysis().temp_size_in_bytes <= 8 * 4 * x.size
