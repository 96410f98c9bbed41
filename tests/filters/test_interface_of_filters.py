"""The public interface of the filters: scipy's arguments, docstrings, named errors."""

import dataclasses
import doctest
import functools
import importlib
import inspect
import re
import sys
import traceback
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same
from scipy import ndimage, signal

from jaxpool import filters

pytestmark = pytest.mark.grid(4)

SECTIONS = ("Args", "Returns", "Derivatives", "Edge cases", "Raises", "References", "Example")
WITHOUT = {"output", "brute_force"}
"""What scipy takes and a pure function has no use for."""


@pytest.mark.parametrize("name", filters.__all__)
def test_arguments_are_those_of_scipy(name: str) -> None:
    ours = inspect.signature(getattr(filters, name)).parameters
    theirs = inspect.signature(getattr(ndimage, name)).parameters
    expected = ["x" if key == "input" else key for key in theirs if key not in WITHOUT]
    assert list(ours) == expected
    for key in expected[1:]:
        assert ours[key].default == theirs[key].default, key


@pytest.mark.parametrize("name", filters.__all__)
def test_docstrings_have_the_template(name: str) -> None:
    text = inspect.cleandoc(getattr(filters, name).__doc__)
    found = re.findall(r"^([A-Z][\w ]+):(?=\s)", text[text.index("Args:") :], re.MULTILINE)
    assert found == list(SECTIONS)
    arguments = text.split("Args:\n")[1].split("Returns:")[0]
    entries = re.findall(r"^  (\w+(?:, \w+)*): \S", arguments, re.MULTILINE)
    described = [key for entry in entries for key in entry.split(", ")]
    assert sorted(described) == sorted(inspect.signature(getattr(filters, name)).parameters)
    assert "``" in text.split("Args:")[0], "a formula says what the result is"


@pytest.mark.parametrize("name", filters.__all__)
def test_examples_are_true(name: str) -> None:
    function = getattr(filters, name)
    module = vars(sys.modules[function.__module__])
    names = {**module, **vars(filters), "jax": jax, "jnp": jnp}
    (example,) = doctest.DocTestFinder().find(function, name, globs=names)
    assert any(name + "(" in line.source for line in example.examples)
    lines: list[str] = []
    assert doctest.DocTestRunner().run(example, out=lines.append).failed == 0, "".join(lines)


def test_names_are_sorted_and_all_there() -> None:
    functions = {name for name, value in vars(filters).items() if inspect.isfunction(value)}
    public = {name for name in functions if not name.startswith("_")}
    assert list(filters.__all__) == sorted(public)


OTHERS = sorted({*ndimage.__all__} - {*filters.__all__})


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_scipy_that_are_none_here_say_what_serves(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'jaxpool.filters' has no attribute '{name}': ") as e:
        getattr(filters, name)
    for path in re.findall(r"jax(?:pool)?(?:\.\w+)+", str(e.value).partition(": ")[2]):
        first, *rest = path.split(".")
        assert functools.reduce(getattr, rest, importlib.import_module(first)), path


@pytest.mark.parametrize("name", ["medfilt", "medfilt2d", "order_filter"])
def test_filters_of_scipy_signal_are_filters_with_zeros_around(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': write ") as e:
        getattr(filters, name)
    x = np.array([[5, 1, 2, 7], [4, 9, 3, 0], [7, 6, 8, 2]], np.float32)
    names = {**vars(filters), "x": x, "size": (3, 1), "rank": 2, "domain": np.eye(3)}
    settings = (np.eye(3), 2) if name == "order_filter" else ((3, 1),)
    expected = getattr(signal, name)(x, *settings)
    assert (eval(str(e.value).partition(": write ")[2], names) == expected).all()


def test_other_names_are_plain_errors_and_no_part_of_dir() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'median_filer'$"):
        filters.median_filer  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    assert dir(filters) == filters.__all__


WRITTEN: dict[str, dict[str, Any]] = {
    "binary_fill_holes": {},
    "binary_hit_or_miss": {"structure1": [[0, 1, 1], [0, 0, 1]], "structure2": [[1, 0, 0]]},
    "binary_propagation": {"mask": np.arange(63).reshape(7, 9) % 5 > 0},
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_serves_for_binary_morphology_is_the_same(name: str, rng: np.random.Generator) -> None:
    x, words = rng.random((7, 9)) < 0.7, WRITTEN[name]
    names = {"x": x, "jnp": jnp, **vars(filters)}
    names |= {"hit": words.get("structure1"), "miss": words.get("structure2"), **words}
    with pytest.raises(AttributeError) as caught:
        getattr(filters, name)
    written = str(caught.value).partition(": write ")[2]
    assert_same(eval(written, names), getattr(ndimage, name)(x, **words), written)


X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
BAD: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "no window": ("maximum_filter", (), {}, ValueError, "`size` and `footprint` .* neither"),
    "no window of a structure": (
        "grey_dilation",
        (),
        {},
        ValueError,
        "`size`, `footprint` and `structure` define .* none.\n.* a footprint or a structure",
    ),
    "two windows": ("median_filter", (3, [[1]]), {}, ValueError, "`size` and `footprint`"),
    "two windows of a structure": (
        "grey_erosion",
        (2,),
        {"structure": [[1, 2]]},
        ValueError,
        "`size` and `structure` define the window.\n.*`size` and `structure`.\n.* a structure",
    ),
    "size of zero": ("minimum_filter", (0,), {}, ValueError, "`size` contains 0"),
    "size of a float": ("uniform_filter", (2.5,), {}, TypeError, "`size` contains 2.5"),
    "sizes": ("maximum_filter", ((3, 3, 3),), {}, ValueError, "`size` = .* has 3 entries"),
    "mode": ("maximum_filter", (3,), {"mode": "same"}, ValueError, "`mode` = 'same'"),
    "modes": ("maximum_filter", (3,), {"mode": ["wrap"]}, ValueError, "`mode` = "),
    "origin": ("maximum_filter", (3,), {"origin": 2}, ValueError, "`origin` contains 2"),
    "axes": ("maximum_filter", (3,), {"axes": 2}, ValueError, "`axes` contains 2"),
    "axis": ("maximum_filter1d", (3, 5), {}, ValueError, "`axis` contains 5"),
    "axis of a minimum": ("minimum_filter1d", (3, -3), {}, ValueError, "`axis` contains -3"),
    "axis of a mean": ("uniform_filter1d", (3, 2), {}, ValueError, "`axis` contains 2"),
    "axes of a filter of one": ("maximum_filter1d", (3, (0, 1)), {}, TypeError, "`axis` contains"),
    "no axis": ("uniform_filter1d", (3, None), {}, TypeError, "`axis` contains None, which"),
    "axis twice": ("maximum_filter", (3,), {"axes": (1, -1)}, ValueError, "names an axis twice"),
    "cval": ("maximum_filter", (3,), {"cval": "0"}, TypeError, "`cval` = '0'"),
    "no True": ("maximum_filter", (None, [[0]]), {}, ValueError, "`footprint` contains no True"),
    "flat footprint": ("maximum_filter", (None, [1]), {}, ValueError, "`footprint` has 1 axis"),
    "a list": (
        "generic_filter",
        (jnp.max, 3),
        {"extra_arguments": ([1],)},
        TypeError,
        "contains .1., which",
    ),
    "one argument": (
        "generic_filter",
        (jnp.max, 3),
        {"extra_arguments": 3},
        TypeError,
        "`extra_arguments` = 3 is not a sequence.\n.*\n  Give .3,. for one",
    ),
    "keywords": (
        "generic_filter",
        (jnp.max, 3),
        {"extra_keywords": {1: 2, "p": 3}},
        TypeError,
        "`extra_keywords` = .1: 2, 'p': 3. does not map names",
    ),
    "empty": ("grey_erosion", (None, None, [[]]), {}, ValueError, "`structure` is empty"),
    "complex": (
        "grey_erosion",
        (None, None, [[1j]]),
        {},
        TypeError,
        "`structure` has dtype complex",
    ),
    "keys": (
        "grey_erosion",
        (None, None, jax.random.split(jax.random.key(0), (2, 2))),
        {},
        TypeError,
        "`structure` has dtype key",
    ),
    "structure": ("grey_erosion", (None, None, [1]), {}, ValueError, "`structure` has 1 axis"),
    "a structure of too many axes": (
        "binary_dilation",
        ([[[1]]],),
        {"axes": (0,)},
        ValueError,
        "`structure` has 3 axes.\n.* slides along 1 axis.\n  Give `structure` one axis for each",
    ),
    "both": ("grey_erosion", (None, [[1, 1]], [[1]]), {}, ValueError, "has shape .1, 2."),
    "rank": ("rank_filter", (9, 3), {}, ValueError, "`rank` = 9 is out of range"),
    "percentile": ("percentile_filter", (101, 3), {}, ValueError, "`percentile` = 101"),
    "function": ("generic_filter", (3, 3), {}, TypeError, "`function` = 3 cannot be called"),
    "nothing": ("generic_filter", (lambda _: None, 3), {}, TypeError, "`function` returned None"),
    "numpy": ("generic_filter", (np.ptp, 3), {}, TypeError, "`function` needs concrete .* jnp.ptp"),
    "a branch": ("generic_filter", (max, 3), {}, TypeError, "`function` needs concrete values"),
    "a float": ("generic_filter", (lambda t: float(t[0]), 3), {}, TypeError, "`function` needs"),
    "a position": (
        "generic_filter",
        (lambda taps: [1, 2, 3][taps.argmax()], (1, 3)),
        {},
        TypeError,
        "`function` needs concrete values",
    ),
    "a choice": (
        "generic_filter",
        (lambda taps: taps[taps > 2].sum(), 3),
        {},
        TypeError,
        "`function` needs concrete values",
    ),
    "several": ("generic_filter", (lambda t: (t[0], 1), 3), {}, TypeError, "`function` returned"),
    "key": (
        "generic_filter",
        (lambda _: jax.random.key(0), 3),
        {},
        TypeError,
        r"`function` returned an array of shape \(\)",
    ),
    "vector": ("generic_filter", (jnp.sort, 3), {}, TypeError, "`function` returned an array"),
    "mask": ("binary_erosion", (None, 1, [1]), {}, ValueError, "`mask` has shape"),
    "keys as mask": (
        "binary_erosion",
        (None, 1, jax.random.split(jax.random.key(0), X.shape)),
        {},
        TypeError,
        "`mask` has dtype key",
    ),
    "binary": ("binary_erosion", ([1, 1],), {}, ValueError, "`structure` has 1 axis"),
    "iterations": ("binary_dilation", (None, 1.5), {}, TypeError, "`iterations` contains 1.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_function_and_the_argument(case: str) -> None:
    name, arguments, words, kind, pattern = BAD[case]
    with pytest.raises(kind, match=f"(?s)^{name}: .*{pattern}"):
        getattr(filters, name)(X, *arguments, **words)


def test_a_traced_footprint_is_an_error_of_whole_words() -> None:
    """The reason is JAX's first line, or its start with an ellipsis."""
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda mask: filters.grey_dilation(X, footprint=mask))(jnp.ones((3, 3)))
    what, facts, advice = str(caught.value).split("\n")
    assert what.startswith("grey_dilation: `footprint` = ")
    assert re.search(r"static: (.{77}\.\.\.|.{,80}[^.])\.$", facts), facts
    assert "Settings are static" in advice


def own_function(taps: jax.Array) -> Any:
    return np.median(taps)


def test_an_error_of_a_function_shows_its_line() -> None:
    with pytest.raises(TypeError) as caught:
        filters.generic_filter(X, own_function, 3)
    cause = caught.value.__cause__
    assert isinstance(cause, jax.errors.TracerArrayConversionError)
    assert "own_function" in [frame.name for frame in traceback.extract_tb(cause.__traceback__)]


def test_complex_arrays_and_differences_of_booleans_are_errors() -> None:
    with pytest.raises(TypeError, match="^maximum_filter: the array has dtype complex64"):
        filters.maximum_filter(X.astype(np.complex64), 3)
    with pytest.raises(TypeError, match="^morphological_gradient: the array is boolean"):
        filters.morphological_gradient(X > 3, 3)
    with pytest.raises(ValueError, match="^minimum_filter: `cval` = nan is not an integer"):
        filters.minimum_filter(X.astype(np.int32), 3, mode="constant", cval=np.nan)


def test_taps_of_a_function_are_in_the_order_of_the_array_with_holes_and_without() -> None:
    x = np.arange(20.0, dtype=np.float32).reshape(4, 5) ** 2 % 37
    full = np.ones((2, 3), bool)
    hole = full.copy()
    hole[1, 2] = False  # the last tap in either order
    for axes in ((0, 1), (1, 0)):
        words = {"axes": axes, "mode": "wrap"}
        for n in range(5):
            tap = lambda taps, n=n: taps[n]  # noqa: E731
            want = filters.generic_filter(x, tap, footprint=full, **words)
            assert_same(filters.generic_filter(x, tap, footprint=hole, **words), want, (axes, n))


def test_arguments_of_a_function_differ_by_type_and_sign() -> None:
    """In Python, 1, 1.0 and True are equal, and so are the zeros."""
    x = jnp.array([1.0, 5.0, 2.0])
    scaled = lambda taps, n: taps[n] if type(n) is int else taps.mean() * n  # noqa: E731
    over = lambda taps, n: taps.sum() / n  # noqa: E731
    means = jnp.array([7 / 3, 8 / 3, 3])
    for _ in range(2):
        assert_same(filters.generic_filter(x, scaled, 3, extra_arguments=(1,)), x, "int")
        got = filters.generic_filter(x, scaled, 3, extra_arguments=(1.0,))
        assert_same(got, means, "float", ulps=1)
        assert_same(filters.generic_filter(x, scaled, 3, extra_keywords={"n": 1}), x, "int")
        got = filters.generic_filter(x, scaled, 3, extra_keywords={"n": 1.0})
        assert_same(got, means, "float", ulps=1)
        kind = lambda taps, s: taps[0] * (2 if {type(v) for v in s} == {int} else 3)  # noqa: E731
        for inside in (1, 1.0):
            got = filters.generic_filter(x, kind, 1, extra_arguments=(frozenset({inside}),))
            assert_same(got, x * (2 if type(inside) is int else 3), inside)
        for zero in (0.0, -0.0):
            got = filters.generic_filter(x, over, 3, extra_arguments=(zero,))
            assert_same(got, jnp.full(3, np.copysign(np.inf, zero)), zero)


def test_results_of_a_function_fit_every_integer_dtype() -> None:
    """Some unsigned integers are larger than the largest int32."""
    x = np.array([3_000_000_000, 2_147_483_648, 7], np.uint32)
    assert_same(filters.generic_filter(x, jnp.max, 1), x, "uint32")
    negative = filters.generic_filter(np.array([1, 2, 3], np.uint8), lambda t: -t[0] - 0.5, 1)
    assert_same(negative, np.array([255, 254, 253], np.uint8), "wrapped")
    truths = filters.generic_filter(np.array([1, 1, 1, 0], bool), lambda t: t.sum() / 2, 3)
    assert_same(truths, np.array([True, True, True, False]), "1.5, 1.5, 1 and 0.5 as booleans")


def test_numbers_past_all_floats_are_infinite() -> None:
    words = {"mode": "constant", "cval": 10**400}
    assert np.isinf(filters.maximum_filter(X, 3, **words)[0, 0])
    assert_same(filters.maximum_filter(X, 3, **words)[1, 1], X[2, 2], "inside")
    whole = filters.minimum_filter(X.astype(np.int32), 3, mode="constant", cval=-(10**400))
    assert whole[0, 0] == np.iinfo(np.int32).min


@pytest.mark.parametrize(
    ("dtype", "name", "structure"),
    [
        ("uint32", "grey_dilation", [0.0, 3e9, 0.0]),
        ("uint32", "grey_erosion", [0.0, -2.5, 3.7]),
        ("int32", "grey_erosion", [0.0, -2.9, 3.7]),
        ("int16", "grey_dilation", [1.2, 200.9, -100.2]),
    ],
)
def test_a_structure_of_floats_is_cut_to_integers(
    dtype: str, name: str, structure: list[float]
) -> None:
    x = np.array([1, 5, 100], dtype)
    want = getattr(ndimage, name)(x, structure=np.array(structure))
    assert_same(getattr(filters, name)(jnp.asarray(x), structure=np.array(structure)), want, name)


CALLS = {
    "maximum_filter": lambda x: filters.maximum_filter(x, 3, axes=(-2, -1)),
    "minimum_filter": lambda x: filters.minimum_filter(x, footprint=[[1, 0, 1]], axes=(-2, -1)),
    "uniform_filter": lambda x: filters.uniform_filter(x, (2, 3), axes=(-2, -1)),
    "median_filter": lambda x: filters.median_filter(x, 3, axes=(-2, -1)),
    "white_tophat": lambda x: filters.white_tophat(x, structure=np.ones((2, 2)), axes=(-2, -1)),
    "generic_filter": lambda x: filters.generic_filter(x, jnp.max, 2, axes=(-2, -1)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_those_of_float32_rounded_once(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    x = jnp.asarray(rng.integers(-99, 99, (6, 7)), dtype)
    wide = CALLS[name](x.astype(jnp.float32))
    assert_same(CALLS[name](x), wide.astype(dtype), (name, dtype))


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4"])
@pytest.mark.parametrize("mode", ["reflect", "nearest", "mirror", "wrap"])
def test_integers_of_two_and_four_bits_are_those_of_int32(
    dtype: str, mode: Any, rng: np.random.Generator
) -> None:
    limits = jnp.iinfo(dtype)
    x = jnp.asarray(rng.integers(int(limits.min), int(limits.max) + 1, (6, 7)), dtype)
    for filtered in (filters.minimum_filter, filters.median_filter, filters.uniform_filter):
        y = filtered(x, (2, 3), mode=mode)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.astype(int), filtered(x.astype(int), (2, 3), mode=mode))


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e3m4", "float8_e4m3fn"])
@pytest.mark.parametrize("name", ["minimum_filter", "maximum_filter"])
def test_footprints_over_floats_of_eight_bits_are_those_of_float32(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    """XLA:CPU (jaxlib 0.12) compiles maxima in some of these formats for minutes."""
    x = jnp.asarray(rng.permutation(20).reshape(4, 5) / 4 - 2, dtype)
    settings = {"footprint": np.array([[1, 0], [0, 1], [1, 0]]), "origin": (1, 0)}
    for mode, cval in (("nearest", 0.0), ("constant", 0.3)):
        filtered = functools.partial(getattr(filters, name), mode=mode, cval=cval, **settings)
        assert_same(filtered(x), filtered(x.astype(np.float32)).astype(dtype), mode)


def test_a_laplacian_of_large_narrow_floats_is_finite() -> None:
    x = np.array([40000, 40000, 64000, 40000], np.float16)
    want = np.array([0, 24000, -24000, 24000], np.float16)
    assert_same(filters.morphological_laplace(x, 3), want, "the sum of two exceeds float16")


@pytest.mark.parametrize("name", CALLS)
def test_other_axes_are_batch_axes(name: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 6, 5)).astype(np.float32)
    want = np.stack([[CALLS[name](plane) for plane in planes] for planes in x])
    assert_same(CALLS[name](x), want, name)
    assert_same(jax.vmap(jax.vmap(CALLS[name]))(x), want, name)


@pytest.mark.parametrize("name", CALLS)
def test_empty_arrays_and_arrays_without_axes(name: str) -> None:
    assert CALLS[name](np.zeros((0, 4, 5), np.float32)).shape == (0, 4, 5)
    assert CALLS[name](np.zeros((4, 0), np.float32)).shape == (4, 0)
    assert filters.maximum_filter(np.float32(3), 3) == filters.uniform_filter(3.0, 3) == 3


@pytest.mark.parametrize("name", ["maximum_filter", "minimum_filter", "median_filter"])
def test_nan_propagates_within_its_windows(name: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((9, 11)).astype(np.float32)
    x[4, 5] = np.nan
    for words in ({"size": 3}, {"footprint": np.ones((3, 3), bool) & ~np.eye(3, k=2, dtype=bool)}):
        y = np.asarray(getattr(filters, name)(x, **words))
        reach = np.ones((3, 3), bool) if "size" in words else np.flip(words["footprint"])
        hit = np.zeros(x.shape, bool)
        hit[3:6, 4:7] = reach
        assert_same(np.isnan(y), hit, (name, words))


def test_the_mean_of_infinity_is_infinite_and_stays_in_its_windows() -> None:
    x = jnp.array([1.0, 2.0, 3.0, jnp.inf, 5.0, 6.0, 7.0])
    want = np.array([4 / 3, 2, np.inf, np.inf, np.inf, 6, 20 / 3], np.float32)
    assert_same(filters.uniform_filter(x, 3), want, "infinity")


def test_float64_is_computed_in_float64() -> None:
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((9, 8))
        for name in ("uniform_filter", "maximum_filter", "median_filter"):
            got = getattr(filters, name)(x, (3, 4))
            assert_same(got, getattr(ndimage, name)(x, (3, 4)), name, ulps=4)
        structure = np.random.default_rng(1).standard_normal((3, 3))
        got = filters.grey_closing(x, structure=structure)
        assert_same(got, ndimage.grey_closing(x, structure=structure), "closing")


@pytest.mark.parametrize("radius", [4, 12])
def test_no_array_of_all_taps(radius: int) -> None:
    """A disc needs memory for a few arrays, forward and backward, for any number of taps."""
    x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    y, z = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    disc = y * y + z * z <= radius * radius
    calls = {
        "maximum": lambda x: filters.maximum_filter(x, footprint=disc),
        "erosion": lambda x: filters.grey_erosion(x, structure=disc.astype(np.float32)),
        "median": lambda x: filters.median_filter(x, footprint=disc),
    }
    for name, call in calls.items():
        memory = jax.jit(call).lower(x).compile().memory_analysis()
        assert memory is not None
        arrays = memory.temp_size_in_bytes / (256 * 256 * 4)
        assert arrays < 40 < disc.sum(), (name, arrays)


def test_tangents_of_a_structure_hold_extremes_and_taps_once() -> None:
    x, structure = jax.ShapeDtypeStruct((256, 256), jnp.float32), np.ones((7, 9), np.float32)
    erosion = lambda x: filters.grey_erosion(x, structure=structure)  # noqa: E731
    tangents = jax.jit(lambda x: jax.jvp(erosion, (x,), (x,)))
    memory = tangents.lower(x).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 3.5 * x.size * x.dtype.itemsize  # and the extended array


def test_a_structure_of_no_axes_is_one_tap() -> None:
    for name in ("grey_erosion", "grey_dilation"):
        words: Any = {"structure": np.float32(2)}
        got = getattr(filters, name)(jnp.float32(3), **words)
        assert_same(got, np.float32(1 if name == "grey_erosion" else 5), name)


def test_any_function_of_a_window_needs_known_sizes() -> None:
    (rows,) = jax.export.symbolic_shape("rows")
    spec = jax.ShapeDtypeStruct((rows, 9), jnp.float32)
    with pytest.raises(
        ValueError, match="generic_filter: pooled axis 0 has the symbolic size rows"
    ):
        jax.export.export(jax.jit(lambda x: filters.generic_filter(x, jnp.max, 3)))(spec)


def test_a_function_that_has_no_hash_is_refused() -> None:
    @dataclasses.dataclass
    class Power:
        p: int

        def __call__(self, taps: Any) -> Any:
            return (taps**self.p).sum()

    with pytest.raises(TypeError, match="`function` = .* is not hashable(.|\n)*that calls it, or"):
        filters.generic_filter(np.ones(4), Power(2), 3)


def test_modes_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="`mode` = .* has 1 entry(.|\n)*Give one mode for all"):
        filters.maximum_filter(np.ones((3, 4)), 3, mode=("reflect",))


def test_a_value_of_the_border_may_be_any_integer() -> None:
    x = np.ones(3, jax.numpy.bfloat16)
    got = filters.maximum_filter(x, 3, mode="constant", cval=2**63)
    np.testing.assert_array_equal(got.astype(np.float32), [2.0**63, 1, 2.0**63])


@pytest.mark.parametrize("values", [(-0.0, 0.0), (0.0, -0.0)])
def test_the_sign_of_a_zero_in_the_border_depends_on_no_earlier_call(
    values: tuple[float, float],
) -> None:
    jax.clear_caches()
    x = np.full(3, -1, np.float32)
    results = [filters.maximum_filter(x, 3, mode="constant", cval=value) for value in values]
    assert not np.signbit(np.array(results)[:, [0, 2]]).any()
