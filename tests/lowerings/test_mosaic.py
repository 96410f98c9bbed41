"""The kernels for TPU, interpreted on CPU: against brute force and against the CPU programs.

The tests in tests/accelerators compile them for TPU.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh import printed
from helpers import QUICK, assert_same
from jax import export
from test_lowerings import SETTINGS, check_extremes

import jaxpool
from jaxpool._lowerings.implementations import mosaic
from jaxpool.ops import _dispatch

# spatial shape, window, strides, padding, dilations, rounding
CASES: dict[str, tuple[Any, ...]] = {
    "ResNet's stem": ((9, 7), (3, 3), 2, "SAME", 1, "floor"),
    "VGG": ((6, 9), (2, 2), 2, "VALID", 1, "floor"),
    "stride 1": ((5, 6), (3, 2), 1, "SAME", 1, "floor"),
    "uneven": ((9, 8), (3, 2), (1, 2), ((2, 1), (0, 1)), 1, "ceil"),
    "overhang": ((8, 7), (2, 3), (3, 2), ((1, 0), (1, 1)), 1, "ceil_torch"),
    "elements that no window reads": ((11, 9), (2, 3), (5, 4), ((1, 0), (0, 2)), 1, "ceil"),
    "dilated": ((9, 10), (3, 2), (1, 3), ((2, 1), (0, 0)), (2, 3), "floor"),
    "one row of windows": ((5, 8), (5, 3), 1, "VALID", 1, "floor"),
    "windows on padding alone": ((3, 4), (2, 3), (2, 3), ((4, 0), (0, 7)), 1, "floor"),
    "no column in a window": ((3, 3), (2, 2), (1, 50), ((0, 1), (4, 0)), 1, "floor"),
}
over_cases = pytest.mark.parametrize("case", CASES)
STEM: dict[str, Any] = {"window_shape": (3, 3), "strides": 2, "padding": "SAME"}
NAMED: dict[str, Any] = {"implementation": "mosaic"}

pytestmark = pytest.mark.grid(4)


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Run the kernels on CPU, in separate programs: other traces stay unchanged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mosaic, "interpreted", True)
        for programs in (_dispatch._compiled, _dispatch._program):
            patch.setattr(programs, "shared", programs.cached(programs.function))
        yield


def pool(case: str, op: Callable[..., Any] = jaxpool.max_pool, **more: Any) -> Callable[..., Any]:
    """Return a pooling over the windows of a case."""
    _, window, strides, padding, dilations, rounding = CASES[case]
    settings = {"dilations": dilations, "rounding": rounding} | more
    return functools.partial(op, window_shape=window, strides=strides, padding=padding, **settings)


def hostile(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> jax.Array:
    """Return few numbers, with ties, both infinities and NaN."""
    few = [-np.inf, -np.inf, -1, 0, 1, 2, np.inf, np.nan]
    return jnp.asarray(rng.choice(few, size=shape, p=[0.4, 0.2, *[0.08] * 4, 0.05, 0.03]), dtype)


# --- results --------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
def test_values_and_offsets(interpreted: None, largest: bool, dtype: str) -> None:
    """With ties, NaN, infinities and zeros, and with a mask as well."""
    settings = [name for name in SETTINGS if name.startswith("2-D")]
    masked = (False, True) if dtype == "float32" else (False,)
    assert check_extremes("mosaic", largest, np.dtype(dtype), settings, masked, QUICK) >= 10


def results(f: Callable[..., Any], x: jax.Array, g: jax.Array) -> Any:
    """Return values, offsets and the gradient."""

    def both(x: jax.Array, g: jax.Array) -> Any:
        values, pull, offsets = jax.vjp(f, x, has_aux=True)
        return values, offsets, pull(g)[0]

    return jax.jit(both, compiler_options=QUICK)(x, g)


@pytest.mark.grid(16)
@over_cases
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients(interpreted: None, case: str, dtype: str, rng: np.random.Generator) -> None:
    """Several batch axes; cotangents are small integers, so that any order of sums is exact."""
    x = hostile((2, 1, *CASES[case][0], 3), dtype, rng)
    plain = pool(case, jaxpool.max_pool_with_argmax, index_space="window")
    shape = jax.eval_shape(plain, x)[0].shape
    g = jnp.asarray(rng.integers(-3, 4, shape), dtype)
    want = results(plain, x, g)
    for got, expected in zip(results(functools.partial(plain, **NAMED), x, g), want, strict=True):
        assert_same(got, expected, (case, dtype))


@pytest.mark.grid(20)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("channels", [3, 130])
@pytest.mark.parametrize("images", [1, 8, 12, 16, 17])
def test_batches_and_channels_that_fill_no_block(
    interpreted: None, images: int, channels: int, dtype: str, rng: np.random.Generator
) -> None:
    x = hostile((images, 5, 4, channels), dtype, rng)
    plain = functools.partial(jaxpool.max_pool_with_argmax, **STEM, index_space="window")
    g = jnp.ones((images, 3, 2, channels), dtype)
    got = results(functools.partial(plain, **NAMED), x, g)
    for a, b in zip(got, results(plain, x, g), strict=True):
        assert_same(a, b, (images, channels, dtype))


@pytest.mark.parametrize("data_format", ["NCHW", "HW", "NHWC"])
def test_layouts(interpreted: None, data_format: str, rng: np.random.Generator) -> None:
    lengths = {"N": 2, "C": 3, "H": 7, "W": 6}
    x = hostile(tuple(lengths[letter] for letter in data_format), "float32", rng)
    f = functools.partial(jaxpool.max_pool, **STEM, data_format=data_format)
    assert_same(f(x, **NAMED), f(x), data_format)


def test_empty_batches(interpreted: None) -> None:
    x = jnp.zeros((0, 7, 6, 3))
    f = functools.partial(jaxpool.max_pool, **STEM, **NAMED)
    assert f(x).shape == (0, 4, 3, 3)
    assert jax.grad(lambda x: f(x).sum())(x).shape == x.shape


@pytest.mark.deep
def test_derivatives_of_any_order_and_batching(interpreted: None, rng: np.random.Generator) -> None:
    x, t = (jnp.asarray(rng.permutation(252).reshape(2, 7, 6, 3), "float32") for _ in range(2))

    def derivatives(**more: Any) -> Any:
        f = lambda x: (jaxpool.max_pool(x, **STEM, **more) ** 3).sum()  # noqa: E731
        slope = lambda x: (jax.grad(f)(x) * t).sum()  # noqa: E731
        return (
            jax.jvp(f, (x,), (t,)),
            jax.jvp(jax.grad(f), (x,), (t,)),
            jax.grad(slope)(x),
            jax.vmap(jax.grad(f))(jnp.stack([x, t])),
            jax.grad(jax.checkpoint(f))(x),
        )

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
        derivatives(**NAMED),
        derivatives(),
    )


@pytest.mark.deep
@pytest.mark.parametrize("check_vma", [True, False])
def test_inside_shard_map(interpreted: None, check_vma: bool, rng: np.random.Generator) -> None:
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    x = hostile((2, 7, 6, 3), "float32", rng)

    def gradient(x: jax.Array, **more: Any) -> jax.Array:
        return jax.grad(lambda x: jaxpool.max_pool(x, **STEM, **more).sum())(x)

    spread = jax.shard_map(
        functools.partial(gradient, **NAMED),
        mesh=mesh,
        in_specs=jax.P("batch"),
        out_specs=jax.P("batch"),
        check_vma=check_vma,
    )
    assert_same(jax.jit(spread)(x), gradient(x), check_vma)


# --- refusals -------------------------------------------------------------------------------------

X = jnp.zeros((2, 7, 6, 3))


def test_on_another_platform_a_program_is_refused_in_our_words() -> None:
    f = functools.partial(jaxpool.max_pool, **STEM, **NAMED)
    words = 'implementation="mosaic" runs only on TPU. Use implementation="auto"'
    for run in (f, jax.jit(f), jax.grad(lambda x: f(x).sum())):
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            run(X)


def test_an_export_for_several_platforms_is_refused_by_jax() -> None:
    """JAX lowers every branch for every platform, and tracing cannot know the platforms."""
    f = jax.jit(functools.partial(jaxpool.max_pool, **STEM, **NAMED))
    with pytest.raises(ValueError, match="[Ii]nterpret mode"):
        export.export(f, platforms=["cpu", "tpu"])(X)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sums": (
        lambda: jaxpool.avg_pool(X, 2, 2, data_format="NHWC", **NAMED),
        "the kernels compute only maxima and minima",
    ),
    "dtype": (
        lambda: jaxpool.max_pool(X.astype("float16"), **STEM, **NAMED),
        "float16 elements; the kernels accept float32 and bfloat16",
    ),
    "one axis": (lambda: jaxpool.max_pool(X, (2,), 2, **NAMED), "1 pooled axis; the kernels"),
    "many elements": (
        lambda: jaxpool.max_pool(X, (16, 16), 1, "SAME", **NAMED),
        "windows of 256 elements; a byte can number up to 255",
    ),
    "long rows": (
        lambda: jax.eval_shape(
            functools.partial(jaxpool.max_pool, **STEM, **NAMED), jnp.zeros((1, 4, 900, 1))
        ),
        "rows that need 30 MiB of vector memory; the kernels use up to 12 MiB",
    ),
    "symbolic rows": (
        lambda: exported("1, h, 6, 3"),
        "a pooled axis has a symbolic size; the block sizes of a kernel are static",
    ),
    "symbolic batch": (lambda: exported("b, 7, 6, 3"), r"not accept the symbolic shape \(b, 7"),
    "several devices": (
        lambda: jax.eval_shape(
            functools.partial(jaxpool.max_pool, **STEM, **NAMED),
            jax.ShapeDtypeStruct(
                (4, 7, 6, 3),
                "float32",
                sharding=jax.NamedSharding(
                    jax.sharding.AbstractMesh((4,), ("batch",)), jax.P("batch")
                ),
            ),
        ),
        r"'mosaic' does not accept an array on several devices(.|\n)*jax.shard_map",
    ),
}


def exported(shape: str) -> Any:
    """Return the stem, exported for TPU with an array of a symbolic shape."""
    x = jax.ShapeDtypeStruct(export.symbolic_shape(shape), "float32")
    f = lambda x: jaxpool.max_pool(x, (3, 3), 1, "SAME", **NAMED)  # noqa: E731
    return export.export(jax.jit(f), platforms=["tpu"])(x)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_why(case: str) -> None:
    call, words = REFUSED[case]
    with pytest.raises(NotImplementedError, match=words):
        call()


def test_a_single_row_of_windows_reads_a_row_at_a_time() -> None:
    """Otherwise its blocks contain all rows of a window, more than a kernel may use."""
    x = jax.ShapeDtypeStruct((1, 15, 80, 1), jnp.float32)
    y = jax.eval_shape(lambda x: jaxpool.max_pool(x, (15, 3), 1, **NAMED), x)
    assert y.shape == (1, 1, 78, 1)


def test_the_plan_takes_it_by_its_name_alone() -> None:
    x = jax.ShapeDtypeStruct((2, 7, 6, 3), jnp.float32)
    for op in (jaxpool.max_pool, jaxpool.avg_pool):
        assert "mosaic" not in str(jax.make_jaxpr(lambda x, op=op: op(x, (3, 3), 2))(x))
    text = "import sys, jaxpool; print([m for m in sys.modules if 'pallas' in m])"
    assert printed("-c", text).strip() == "[]"
