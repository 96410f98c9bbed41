"""Adaptive pooling: its partition in exact fractions, against loops, fixed windows and PyTorch."""

import functools
import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, check_derivatives, error_lines, lowered, permutation
from peers import require

import jaxpool
from jaxpool._geometry.ragged import adaptive_windows

pytestmark = pytest.mark.grid(8)

# --- the partition -------------------------------------------------------------------------------


def partition(size: int, windows: int) -> list[range]:
    """Return the partition by the definition, in fractions."""
    edges = [Fraction(i * size, windows) for i in range(windows + 1)]
    return [range(math.floor(a), math.ceil(b)) for a, b in itertools.pairwise(edges)]


def test_the_partition_is_exact() -> None:
    pairs = [*itertools.product(range(1, 31), range(1, 31)), (224, 7), (16000, 2000), (44100, 999)]
    for size, windows in pairs:
        runs = adaptive_windows(size, windows)
        found = [range(s, s + n) for s, n in zip(runs.starts, runs.lengths, strict=True)]
        assert found == partition(size, windows), (size, windows)


@pytest.mark.parametrize(("size", "windows"), [(224, 7), (16000, 2000)])
def test_sizes_that_float32_gets_wrong(size: int, windows: int) -> None:
    y = jaxpool.adaptive_avg_pool(np.arange(size, dtype=np.float32), windows, data_format="W")
    np.testing.assert_array_equal(y, [np.mean(elements) for elements in partition(size, windows)])


@pytest.mark.parametrize("windows", [1, 2, 3, 5, 8, 30, 61])
def test_every_element_is_held_by_the_windows_that_hold_it(windows: int) -> None:
    runs = adaptive_windows(30, windows)
    holders = runs.holders()
    for element, (first, count) in enumerate(zip(holders.starts, holders.lengths, strict=True)):
        held = [i for i, elements in enumerate(partition(30, windows)) if element in elements]
        assert held == list(range(first, first + count))


# --- against loops -------------------------------------------------------------------------------

# name -> shape (channels last) and output size; uneven on some axes, even on others
CASES: dict[str, tuple[tuple[int, ...], tuple[int | None, ...]]] = {
    "1-D": ((2, 13, 3), (5,)),
    "1-D long": ((1, 150, 2), (4,)),
    "1-D upsampled": ((2, 5, 2), (12,)),
    "1-D upsampled far": ((1, 3, 1), (100,)),
    "2-D": ((2, 11, 7, 3), (4, 6)),
    "2-D one even": ((1, 12, 10, 2), (4, 7)),
    "2-D both even": ((2, 12, 8, 3), (6, 4)),
    "2-D sliding": ((2, 13, 10, 3), (6, 3)),
    "2-D one sliding": ((2, 13, 14, 3), (6, 6)),
    "2-D sliding far": ((1, 25, 9, 2), (2, 4)),
    "2-D irregular": ((2, 32, 17, 3), (7, 7)),
    "2-D alike but for a step": ((1, 10, 15, 2), (4, 6)),
    "1-D blocks": ((2, 600, 2), (2,)),
    "2-D stride below length": ((1, 7, 9, 2), (3, 4)),
    "2-D up and down": ((1, 4, 9, 2), (7, 2)),
    "2-D one kept": ((1, 7, 6, 2), (None, 4)),
    "3-D": ((1, 5, 6, 7, 2), (3, 4, 2)),
}


def expected(
    x: np.ndarray, sizes: tuple[int | None, ...], where: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return averages, maxima and spatial indices, by loops; an empty window has 0, -inf and -1."""
    first = x.ndim - 1 - len(sizes)
    spatial = x.shape[first:-1]
    lines = [partition(n, n if k is None else k) for n, k in zip(spatial, sizes, strict=True)]
    shape = (*x.shape[:first], *map(len, lines), x.shape[-1])
    average, largest, index = np.zeros(shape), np.full(shape, -np.inf), np.full(shape, -1)
    for out in np.ndindex(*shape):
        ranges = [line[o] for line, o in zip(lines, out[first:-1], strict=True)]
        places = [(*out[:first], *q, out[-1]) for q in itertools.product(*ranges)]
        places = [q for q in places if where is None or where[q]]
        if places:
            best = max(places, key=lambda q: x[q])  # the first of the largest
            average[out] = sum(float(x[q]) for q in places) / len(places)
            largest[out] = x[best]
            index[out] = np.ravel_multi_index(best[first:-1], spatial)
    return average, largest, index


def data(case: str, masked: bool, rng: np.random.Generator) -> tuple[np.ndarray, Any, Any]:
    """Return data with many ties, the output size, and a mask that empties some windows."""
    shape, sizes = CASES[case]
    x = rng.integers(-4, 5, shape).astype(np.float32)
    return x, sizes, rng.random(shape) < 0.3 if masked else None


@pytest.mark.parametrize(
    ("case", "masked"),
    [
        ("1-D", False), ("1-D long", True), ("1-D upsampled far", False), ("2-D", True),
        ("2-D one even", False), ("2-D both even", False), ("1-D blocks", True),
        ("2-D sliding", True), ("2-D one sliding", False), ("2-D sliding far", False),
        ("2-D irregular", True), ("2-D alike but for a step", False),
        ("2-D stride below length", False), ("2-D up and down", True), ("2-D one kept", True),
        ("3-D", False),
    ],
)  # fmt: skip
def test_values_and_indices_are_those_of_the_definition(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, sizes, where = data(case, masked, rng)
    average, largest, index = expected(x, sizes, where)
    got = jaxpool.adaptive_avg_pool(x, sizes, where=where)
    assert_same(got, average.astype(np.float32), case, ulps=2)
    values, indices = jaxpool.adaptive_max_pool_with_argmax(x, sizes, where=where)
    assert_same(values, largest.astype(np.float32), case)
    assert_same(indices, index.astype(np.int32), case)
    if masked:
        assert_same(jaxpool.adaptive_max_pool(x, sizes, where=where), values, case)


def check_gradient(
    x: np.ndarray, sizes: Any, where: Any, layout: str, rng: np.random.Generator
) -> None:
    """Compare the gradient with a loop over windows, and forward mode with the gradient."""
    _, largest, index = expected(x, sizes, where)
    g = rng.integers(1, 9, largest.shape).astype(np.float32)
    want = np.zeros_like(x)
    spatial = x.shape[-1 - len(sizes) : -1]
    first = x.ndim - 1 - len(sizes)
    for out in np.ndindex(*g.shape):
        if index[out] >= 0:
            want[(*out[:first], *np.unravel_index(index[out], spatial), out[-1])] += g[out]
    tangent = rng.integers(-9, 9, x.shape).astype(np.float32)
    if layout == "channels_first":
        x, g, want, tangent = (np.moveaxis(a, -1, 1) for a in (x, g, want, tangent))
        where = None if where is None else np.moveaxis(where, -1, 1)
    pool = functools.partial(
        jaxpool.adaptive_max_pool, output_size=sizes, where=where, data_format=layout
    )
    assert_same(jax.vjp(pool, jnp.asarray(x))[1](g)[0], want, (x.shape, layout))
    forward = jax.jvp(pool, (x,), (tangent,))[1]
    assert np.vdot(forward, g) == np.vdot(tangent, want)


LAYOUTS = ["channels_last", "channels_first"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "case",
    ["1-D", "1-D long", "2-D", "1-D blocks", "2-D up and down", "2-D sliding", "2-D one sliding"],
)
def test_gradients_go_to_the_first_maximum(
    case: str, layout: str, rng: np.random.Generator
) -> None:
    x, sizes, where = data(case, True, rng)
    check_gradient(x, sizes, where, layout, rng)


@pytest.mark.deep
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("spatial", "sizes"),
    [((509,), (2,)), ((511,), (2,)), ((600,), (7,)), ((31, 31), (2, 2)), ((9, 35), (2, 17))],
)
def test_the_last_element_of_a_long_window_wins(
    spatial: tuple[int, ...], sizes: tuple[int, ...], layout: str, rng: np.random.Generator
) -> None:
    """Codes need more than a byte from windows of 256 elements on.

    Also tested: positions beyond a byte with codes of a byte, and more windows than elements.
    """
    x = np.arange(np.prod(spatial), dtype=np.float32).reshape(1, *spatial, 1)
    where = np.ones_like(x, bool)
    where[0, -1] = False
    _, largest, index = expected(x, sizes, where)
    values, indices = jaxpool.adaptive_max_pool_with_argmax(x, sizes, where=where)
    assert_same(values, largest.astype(np.float32), spatial)
    assert_same(indices, index.astype(np.int32), spatial)
    for mask in (None, where):
        check_gradient(x, sizes, mask, layout, rng)


# --- against fixed windows -----------------------------------------------------------------------

EVEN = [((7, 10), (3, 5))]


@pytest.mark.parametrize(("sizes", "windows"), EVEN)
def test_even_windows_are_fixed_windows(
    sizes: tuple[int, ...], windows: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = permutation((2, 3, *sizes), np.float32, rng)
    parts = [partition(n, k) for n, k in zip(sizes, windows, strict=True)]
    kernel = tuple(len(part[0]) for part in parts)
    strides = tuple(part[1].start if len(part) > 1 else 1 for part in parts)
    layout: dict[str, Any] = {"data_format": "channels_first"}
    for name in ("avg_pool", "max_pool"):
        got = getattr(jaxpool, f"adaptive_{name}")(x, windows, **layout)
        assert_same(got, getattr(jaxpool, name)(x, kernel, strides, **layout), name, ulps=2)
    spaces: list[dict[str, Any]] = [
        {},
        {"index_space": 0},
        {"index_space": 1, "index_dtype": np.int16},
    ]
    for settings in spaces:
        got = jaxpool.adaptive_max_pool_with_argmax(x, windows, **layout, **settings)
        want = jaxpool.max_pool_with_argmax(x, kernel, strides, **layout, **settings)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b, settings)


def instructions(pool: Callable[..., Any], *shape: int) -> int:
    """Return the length of the program of a forward and backward pass, before XLA compiles it."""
    g = jax.eval_shape(pool, jax.ShapeDtypeStruct(shape, jnp.float32))
    both = jax.jit(lambda x, g: jax.vjp(pool, x)[1](g))
    text = both.lower(jax.ShapeDtypeStruct(shape, jnp.float32), g).as_text()
    return sum(" = " in line for line in text.splitlines())


@pytest.mark.parametrize("op", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_the_program_does_not_grow_with_the_number_of_windows(op: str) -> None:
    pool = getattr(jaxpool, op)
    few, many = (instructions(lambda x, n=n: pool(x, (n,)), 1, 8 * n, 3) for n in (20, 2000))
    assert few == many
    few, many = (
        instructions(lambda x, n=n: pool(x, (3 * n + 1,)), 1, 10 * n, 3) for n in (20, 2000)
    )
    assert many <= few + 10


@pytest.mark.parametrize("op", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_the_program_grows_with_the_root_of_a_window(op: str) -> None:
    pool = getattr(jaxpool, op)
    short, long = (instructions(lambda x: pool(x, (3,)), 1, n, 2) for n in (100, 2000))
    assert long < 6 * short


@pytest.mark.parametrize("case", ["2-D", "1-D blocks"])
@pytest.mark.parametrize("op", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_no_derivative_has_a_scatter(op: str, case: str) -> None:
    shape, sizes = CASES[case]
    pool = functools.partial(getattr(jaxpool, op), output_size=sizes)
    gradient = jax.jit(jax.grad(lambda x: (pool(x) ** 2).sum()))
    lowered = gradient.lower(jnp.zeros(shape))
    for text in (lowered.as_text(), lowered.compile().as_text()):
        assert text and not re.search(r"stablehlo\.scatter|\bscatter\(", text)


# --- against PyTorch -----------------------------------------------------------------------------


def draw(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axes = int(rng.integers(1, 4))
    sizes = rng.integers(1, {1: 40, 2: 12, 3: 7}[axes], axes)
    return tuple(map(int, sizes)), tuple(int(n) for n in rng.integers(1, sizes + 4))


@pytest.mark.parametrize("number", range(2))
def test_values_indices_and_gradients_are_those_of_torch(
    number: int, rng: np.random.Generator
) -> None:
    torch: Any = require("torch")
    sizes, windows = draw(rng)
    case = (sizes, windows)
    x = rng.integers(-6, 7, (2, 3, *sizes)).astype(np.float32)
    layout: dict[str, Any] = {"data_format": "channels_first"}
    y, indices = jaxpool.adaptive_max_pool_with_argmax(x, windows, **layout)
    g = rng.integers(-9, 10, y.shape).astype(np.float32)
    for op in ("avg", "max"):
        pool = functools.partial(
            getattr(jaxpool, f"adaptive_{op}_pool"), output_size=windows, **layout
        )
        got, back = jax.jit(lambda x, g, pool=pool: (pool(x), jax.vjp(pool, x)[1](g)[0]))(x, g)
        there = torch.tensor(x, requires_grad=True)
        function = getattr(torch.nn.functional, f"adaptive_{op}_pool{len(sizes)}d")
        if op == "max":
            want, places = function(there, windows, return_indices=True)
            assert_same(indices, places.numpy().astype(np.int32), case)
        else:
            want = function(there, windows)
        assert_same(got, want.detach().numpy(), case, ulps=4)
        gradient = torch.autograd.grad(want, there, torch.tensor(g))[0].numpy()
        assert_same(back, gradient, case, ulps=8)


# --- derivatives ---------------------------------------------------------------------------------


def separated(rng: np.random.Generator, shape: tuple[int, ...]) -> jax.Array:
    """Return elements whose distances are so large that small steps change no argmax."""
    return jnp.asarray(permutation(shape, np.float64, rng))


@pytest.mark.parametrize("case", ["2-D", "1-D blocks"])
@pytest.mark.parametrize("op", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_both_modes_agree_with_finite_differences_to_order_two(
    op: str, case: str, rng: np.random.Generator
) -> None:
    shape, sizes = CASES[case]
    with jax.enable_x64(True):
        x = separated(rng, (1, *shape[1:]))
        pool = lambda x: getattr(jaxpool, op)(x, sizes) ** 2  # noqa: E731
        check_derivatives(pool, x, rng=rng, eps=1e-3)


def test_reverse_mode_keeps_a_byte_for_each_output() -> None:
    shape, sizes = CASES["2-D"]
    x = jnp.zeros((8, *shape[1:]))
    y, back = jax.vjp(lambda x: jaxpool.adaptive_max_pool(x, sizes), x)
    kept = [leaf for leaf in jax.tree.leaves(back) if hasattr(leaf, "nbytes") and leaf.nbytes > 64]
    assert [(leaf.dtype, leaf.shape) for leaf in kept] == [(np.uint8, y.shape)]


@pytest.mark.parametrize(("size", "windows"), [(7, 4), (6, 1), (18, 1)])
def test_nan_gives_nan_and_takes_the_gradient(size: int, windows: int) -> None:
    x = jnp.arange(float(size)).at[jnp.array([1, 2])].set(jnp.nan)
    pool = functools.partial(jaxpool.adaptive_max_pool, output_size=windows, data_format="W")
    values, indices = jaxpool.adaptive_max_pool_with_argmax(x, windows, data_format="W")
    assert np.isnan(values[0]) and indices[0] == 1
    assert np.isnan(jaxpool.adaptive_avg_pool(x, windows, data_format="W")[0])
    gradient = jax.grad(lambda x: pool(x)[0])(x)
    np.testing.assert_array_equal(gradient, np.eye(size)[1])


@pytest.mark.parametrize(("size", "windows"), [(7, 4), (18, 1)])
def test_a_masked_element_never_wins_over_minus_infinity(size: int, windows: int) -> None:
    x = jnp.full(size, -jnp.inf)
    where = np.arange(size) > 0
    values, indices = jaxpool.adaptive_max_pool_with_argmax(
        x, windows, where=where, data_format="W"
    )
    assert np.isneginf(values).all() and indices[0] == 1
    pool = functools.partial(jaxpool.adaptive_max_pool, output_size=windows, data_format="W")
    gradient = jax.grad(lambda x: pool(x, where=where)[0])(x)
    np.testing.assert_array_equal(gradient, np.eye(size)[1])


# --- dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "windows"), [("int8", 3), ("uint8", 4), ("int32", 1)])
def test_integer_averages_are_exact(dtype: str, windows: int, rng: np.random.Generator) -> None:
    limits = np.iinfo(dtype)
    x = rng.integers(limits.max - 9, limits.max, 70, dtype, endpoint=True)
    y = jaxpool.adaptive_avg_pool(x, windows, data_format="W")
    elements = [x[part.start : part.stop].tolist() for part in partition(70, windows)]
    want = [round(Fraction(sum(part), len(part))) for part in elements]
    assert_same(y, np.array(want, dtype), windows)


def test_narrow_floats_are_added_wide() -> None:
    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        top = lambda x: jaxpool.adaptive_max_pool(x, 7, data_format="W").sum()  # noqa: E731
        return jaxpool.adaptive_avg_pool(x, 7, data_format="W"), jax.grad(top)(x)

    ones = jnp.ones(3000, jnp.bfloat16)
    y, back = jax.jit(both, compiler_options=QUICK)(ones)
    assert y.dtype == ones.dtype and (y == 1).all()
    assert back.dtype == ones.dtype and back.sum() == 7


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float8_e5m2"])
def test_maxima_of_other_dtypes(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2 if dtype == "bool" else 50, (11, 40)).astype(np.dtype(dtype))
    want = expected(x[..., None].astype(np.float32), (4, 3), None)
    for sizes, shape in (((4, 3), (4, 3)),):
        values, indices = jaxpool.adaptive_max_pool_with_argmax(x, sizes, data_format="HW")
        assert_same(values, want[1][..., 0].astype(np.dtype(dtype)), dtype)
        assert_same(indices, want[2][..., 0].astype(np.int32), dtype)
        assert values.shape == shape


# --- sizes, layouts, transformations -------------------------------------------------------------


def test_layouts_and_kept_axes(rng: np.random.Generator) -> None:
    x = permutation((2, 5, 7, 3), np.float32, rng)
    want = jaxpool.adaptive_avg_pool(x, (3, 4))
    for layout, axes in {"NHWC": (0, 1, 2, 3), "NCHW": (0, 3, 1, 2), "HNWC": (1, 0, 2, 3)}.items():
        moved = jaxpool.adaptive_avg_pool(x.transpose(axes), [3, 4], data_format=layout)
        assert_same(moved, np.transpose(want, axes), layout)
        top = jaxpool.adaptive_max_pool(x.transpose(axes), (3, 4), data_format=layout)
        assert_same(top, np.transpose(jaxpool.adaptive_max_pool(x, (3, 4)), axes), layout)
    square = jaxpool.adaptive_avg_pool(x, 3, data_format="NHWC")
    assert_same(square, jaxpool.adaptive_avg_pool(x, (3, 3)), "int")
    assert_same(jaxpool.adaptive_avg_pool(x, (None, None)), x, "kept")
    assert_same(jaxpool.adaptive_max_pool(x, (5, 7)), x, "same size")


@pytest.mark.parametrize(
    ("shape", "sizes"), [((0, 5, 3), (2,)), ((2, 5, 3), (0,)), ((0, 18, 1), (1,))]
)
def test_empty_results(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    x = jnp.zeros(shape)
    values, indices = jaxpool.adaptive_max_pool_with_argmax(x, sizes)
    assert values.shape == indices.shape == (shape[0], *sizes, shape[2])
    assert jaxpool.adaptive_avg_pool(x, sizes).shape == values.shape
    for op in (jaxpool.adaptive_avg_pool, jaxpool.adaptive_max_pool):
        assert jax.grad(lambda x, op=op: op(x, sizes).sum())(x).shape == shape


def test_vmap_and_ranks_that_may_not_be_promoted(rng: np.random.Generator) -> None:
    x = permutation((2, 3, 7, 30, 2), np.float32, rng)
    where = x[0, 0] > -500
    pool = functools.partial(jaxpool.adaptive_max_pool, output_size=(3, 4), where=where)
    gradient = jax.grad(lambda x: (pool(x) ** 2).sum())
    with jax.numpy_rank_promotion("raise"):
        mapped, plain = (
            jax.jit(f, compiler_options=QUICK)(x)
            for f in (
                lambda x: (jax.vmap(pool, 1, 1)(x), jax.vmap(gradient)(x)),
                lambda x: (pool(x), gradient(x)),
            )
        )
    assert_same(mapped[0], plain[0], "values", ulps=2)
    assert_same(mapped[1], plain[1], "gradient", ulps=4)


@pytest.mark.deep
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize(
    "case", ["2-D irregular", "2-D one sliding", "2-D sliding", "2-D up and down", "1-D long"]
)
def test_platforms_agree(case: str, layout: str, platform: str, rng: np.random.Generator) -> None:
    shape, sizes = CASES[case]
    shape = shape if layout == "channels_last" else (shape[0], shape[-1], *shape[1:-1])
    x = jnp.asarray(permutation(shape, np.float32, rng))

    def both(x: jax.Array) -> list[jax.Array]:
        found = []
        for op in (jaxpool.adaptive_max_pool, jaxpool.adaptive_avg_pool):
            pool = lambda x, op=op: op(x, sizes, data_format=layout)  # noqa: E731
            y, pull = jax.vjp(pool, x)
            found += [y, pull(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))[0]]
        return found

    run = lowered(both, platform, x)
    for image in (x, x.reshape(-1).at[5].set(jnp.nan).at[-9].set(-jnp.inf).reshape(shape)):
        for got, want in zip(run(image), jax.jit(both)(image), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


# --- errors --------------------------------------------------------------------------------------

X = np.zeros((2, 5, 7, 3), np.float32)
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"output_size": 3}, TypeError, "does not say how many axes are pooled"),
    ({"output_size": (3, 1.5)}, TypeError, "`output_size` contains 1.5, which is not an integer"),
    ({"output_size": (3, -1)}, ValueError, "`output_size` contains -1"),
    ({"output_size": ()}, ValueError, r"`output_size` = \(\) has 0 entries"),
    ({"output_size": (1, 2, 3, 4)}, ValueError, "too few for 4 pooled axes"),
    ({"output_size": (3,), "data_format": "NHWC"}, ValueError, "has 1 entry"),
    ({"output_size": (3, 3), "data_format": "HW"}, ValueError, "the array has 4 axes"),
    ({"output_size": (3, 3), "data_format": "NHWX"}, ValueError, "is not a layout"),
    ({"output_size": [[3], 3]}, TypeError, r"contains \[3\], which is not an integer"),
    ({"output_size": (3, 3), "where": X}, TypeError, "`where` has dtype float32"),
    ({"output_size": (3, 3), "x": X[:, :0]}, ValueError, "pooled axis 0 has size 0"),
    ({"output_size": (3, 3), "x": X.astype(complex)}, TypeError, "dtype complex"),
]
INDEX_ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"index_space": "window"}, ValueError, '"window" has no meaning here'),
    ({"index_space": "plane"}, ValueError, "is not an index space"),
    ({"index_space": 4}, ValueError, "is not an axis"),
    ({"index_dtype": np.float32}, TypeError, "is not a native integer dtype"),
    ({"index_dtype": np.int8, "index_space": 0}, ValueError, "do not fit int8"),
]


def check_error(op: str, settings: dict[str, Any], error: type[Exception], pattern: str) -> None:
    lines = error_lines(op, error, lambda: getattr(jaxpool, op)(**({"x": X} | settings)))
    assert re.search(pattern, lines[0]), lines


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case[2])
@pytest.mark.parametrize(
    "op", ["adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_with_argmax"]
)
def test_bad_calls(op: str, case: tuple[dict[str, Any], type[Exception], str]) -> None:
    check_error(op, *case)


@pytest.mark.parametrize("case", INDEX_ERRORS, ids=lambda case: case[2])
@pytest.mark.parametrize("size", [(3, 3), (5, 1)])
def test_bad_index_settings(size: Any, case: tuple[dict[str, Any], type[Exception], str]) -> None:
    settings, error, pattern = case
    settings = {"output_size": size} | settings
    check_error("adaptive_max_pool_with_argmax", settings, error, pattern)


def test_booleans_have_no_average() -> None:
    check_error("adaptive_avg_pool", {"x": X > 0, "output_size": (2, 2)}, TypeError, "is boolean")


def test_windows_whose_argmax_does_not_fit_its_code() -> None:
    """Eight axes of nine elements: a small array, but each axis needs four bits."""
    sizes = (2, 1, 1, 1, 1, 1, 1, 1)
    x = jax.ShapeDtypeStruct((1, 17, *[9] * 7, 1), jnp.float32)
    values = functools.partial(jaxpool.adaptive_max_pool, output_size=sizes)
    assert jax.eval_shape(values, x).shape == (1, *sizes, 1)
    both = functools.partial(jaxpool.adaptive_max_pool_with_argmax, output_size=sizes)
    for derived in (both, jax.grad(lambda x: values(x).sum())):
        with pytest.raises(ValueError, match=r"windows of 9 x 9 x .* cannot be encoded"):
            jax.eval_shape(derived, x)
