"""Hostile arguments: a result, or an error of three lines, without delay."""

import inspect
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxpool
from jaxpool import compat

pytestmark = pytest.mark.grid(4)

SLOWEST = 10.0
"""Seconds for one call; a fraction of one is enough on an idle machine."""

X = np.arange(84, dtype=np.float32).reshape(1, 7, 6, 2)
KEY = jax.random.key(0)
W: dict[str, Any] = {"window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 1))}
BOXED: dict[str, Any] = {"boxes": np.array([[0, 0, 0, 3, 4.5]], np.float32), "output_size": (2, 2)}
GOOD: dict[str, dict[str, Any]] = {
    "pool": W | {"reduction": jaxpool.reductions.SUM},
    "rank_pool": W | {"rank": 1},
    "adaptive_avg_pool": {"output_size": (3, 4)},
    "adaptive_max_pool": {"output_size": (3, 4)},
    "adaptive_max_pool_with_argmax": {"output_size": (3, 4)},
    "global_max_pool": {},
    "global_avg_pool": {},
    "global_lp_pool": {},
    "global_min_pool": {},
    "global_max_pool_with_argmax": {},
    "global_std_pool": {},
    "global_logsumexp_pool": {},
    "quantile_pool": W | {"q": 0.25},
    "fractional_max_pool": {"key": KEY, "window_shape": (2, 2), "output_size": (3, 4)},
    "fractional_max_pool_with_argmax": {
        "key": None,
        "window_shape": (2, 2),
        "output_size": (3, 4),
        "samples": np.array([0.5, 0.25], np.float32),
    },
    "stochastic_pool": W | {"key": KEY},
    "roi_align": BOXED,
    "roi_pool": BOXED,
    "ps_roi_align": BOXED | {"output_size": (1, 2)},
    "ps_roi_pool": BOXED | {"output_size": (1, 2)},
    "max_unpool": {
        "y": X[:, :3, :2],
        "indices": np.arange(12).reshape(1, 3, 2, 2),
        "output_shape": (7, 6),
    },
    "output_shape": W | {"input_shape": X.shape},
    "geometry": W | {"spatial_shape": (7, 6)},
    "explain": W | {"x_or_shape": X.shape},
    "receptive_field": {"spatial_shape": (7, 6), "layers": [jaxpool.Window((2, 2), 1)]},
    "Window": {"kernel": (2, 2), "strides": 1},
}
"""Arguments that are right; ops that are not here take an array and the window."""

NO_POOLS = {"patch", "unpatch"}
FUNCTIONS = sorted(
    {n for n in jaxpool.__all__ if inspect.isfunction(getattr(jaxpool, n))} - NO_POOLS
)
CALLS = [*FUNCTIONS, "Window"]


class Ten:
    """An object that converts to an integer."""

    def __index__(self) -> int:
        return 10


class Broken:
    """An object whose methods all raise."""

    def __index__(self) -> int:
        raise RuntimeError("broken")

    __len__ = __bool__ = __array__ = __iter__ = __index__

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("broken")


SMALL: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 1.0, 1.5, math.nan, math.inf, -math.inf, 1e300, 10**30,
    -(10**30), 2**31 - 1, 2**31, 2**63, "", "SAME", "same_lower", "x", "NHWC", "HW", "WW", "ceil",
    "window", "spatial", b"ab", {}, {1: 2}, {1, 2}, object, object(), Ten(), Broken(), range(2),
    range(2**70), slice(2), ..., 1j, np.int8(3), np.uint64(2**63), np.float32(2), np.bool_(True),
    np.datetime64("2020-01-01"), np.array(2), np.array([2, 2]), np.array([2.0, 2.0]),
    np.array([[1, 1], [0, 1]]), np.array(["a"]), np.array([None, 2]), np.array([], int),
    jnp.array(2), jnp.array([2, 2]), jnp.int32, int, float, "int16", ">i4", np.uint64, len, KEY,
    jax.random.split(KEY, 2), jax.random.PRNGKey(0), jax.ShapeDtypeStruct((2,), jnp.int32),
    jaxpool.reductions.MAX, jaxpool.Window((2, 2), 1),
]  # fmt: skip
ARRAYS: list[Any] = [
    None, 3, "abc", [], [[1, 2], [3]], [1.0, "a"], [[[10**30]]], object(), np.array([None]),
    np.array([1j] * 4), np.zeros(()), np.zeros((0, 7, 6, 2)), np.zeros((1, 0, 6, 2)), (1, (2, 3)),
    np.zeros((1, 7, 6, 0), np.float32), np.zeros((7, 6)), np.zeros((1,) * 12), range(5), Broken(),
    np.zeros(3, dtype=[("a", int)]), np.array([np.datetime64("2020-01-01")]), KEY,
    np.zeros(X.shape, jax.dtypes.float0), jnp.zeros(X.shape, jnp.int4), np.zeros(X.shape, ">f4"),
    jnp.zeros(X.shape, jnp.float8_e4m3fn), np.zeros(X.shape, np.longdouble),
    np.zeros(X.shape, bool), np.zeros(X.shape, np.uint64), np.ma.masked_less(np.arange(2), 1),
    np.ones((7, 6, 1), bool),
    jax.ShapeDtypeStruct(X.shape, jnp.float32),
]  # fmt: skip
ARRAY_NAMES = ("x", "y", "indices", "where", "samples", "boxes", "batch_index")

entries = st.sampled_from(SMALL)
odd = entries | st.lists(entries, max_size=4) | st.lists(entries, max_size=3).map(tuple)
odd |= st.tuples(st.tuples(entries, entries), st.tuples(entries, entries))


class Call(NamedTuple):
    """A call with some arguments replaced."""

    name: str
    arguments: dict[str, Any]


@st.composite
def calls(draw: st.DrawFn, name: str) -> Call:
    parameters = list(inspect.signature(getattr(jaxpool, name)).parameters)
    arguments = dict(GOOD.get(name, W))
    if "x" in parameters:
        arguments["x"] = X
    for parameter in draw(st.lists(st.sampled_from(parameters), min_size=1, max_size=3)):
        arrays = [st.sampled_from(ARRAYS)] * 3 if parameter in ARRAY_NAMES else []
        arguments[parameter] = draw(st.one_of(odd, *arrays))
    return Call(name, arguments)


def check(call: Callable[[], Any], name: str) -> None:
    """Fail unless ``call`` soon returns or raises an error of this library."""
    begin = time.perf_counter()
    try:
        jax.eval_shape(lambda: jax.tree.leaves(call()) and None)
    except (TypeError, ValueError, NotImplementedError) as error:
        lines = str(error).split("\n")
        if len(lines) != 3 or not lines[0].startswith(f"{name}: "):
            raise AssertionError(f"{name} raised {error!r}") from error
    assert time.perf_counter() - begin < SLOWEST


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.grid(16)
@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_give_a_result_or_an_error(name: str) -> None:
    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(calls(name))
    def fuzz(call: Call) -> None:
        check(lambda: getattr(jaxpool, call.name)(**call.arguments), call.name)

    fuzz()


# --- endless sequences ----------------------------------------------------------------------------


class ReadOn(BaseException):
    """Raised by a sequence after more reads than any caller needs."""


class Endless:
    """A sequence whose length is two, but whose iteration never ends."""

    def __init__(self, length: int = 2) -> None:
        self.length, self.reads = length, 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: Any) -> int:
        self.reads += 1
        if self.reads > 1000:
            raise ReadOn
        return 2


class Streamed(Endless):
    def __iter__(self) -> Any:
        while True:
            yield self[0]


ENDLESS: dict[str, Callable[[], Any]] = {
    "items": Endless,
    "stream": Streamed,
    "long": lambda: Endless(2**40),
    "pairs": lambda: [Endless(), Streamed()],
    "beside a number": lambda: (1, Endless()),
    "range": lambda: range(2**33),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("max_pool", "x"), ("max_pool", "window_shape"), ("max_pool", "strides"),
        ("max_pool", "padding"), ("max_pool", "dilations"), ("max_pool", "where"),
        ("max_unpool", "indices"), ("max_unpool", "output_shape"),
        ("adaptive_avg_pool", "output_size"), ("output_shape", "input_shape"),
        ("Window", "padding"), ("geometry", "spatial_shape"), ("gem_pool", "p"),
    ],
)  # fmt: skip
def test_what_never_ends_is_refused_at_once(name: str, argument: str, kind: str) -> None:
    arguments = {**GOOD.get(name, W), argument: ENDLESS[kind]()}
    if "x" in inspect.signature(getattr(jaxpool, name)).parameters:
        arguments.setdefault("x", X)
    begin = time.perf_counter()
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(jaxpool, name)(**arguments)
    assert time.perf_counter() - begin < SLOWEST
    lines = str(caught.value).split("\n")
    assert len(lines) == 3 and lines[0].startswith(f"{name}: "), lines


@pytest.mark.parametrize("kind", ENDLESS)
def test_front_ends_refuse_what_never_ends(kind: str) -> None:
    x = np.zeros((1, 2, 7, 6), np.float32)
    for words in ({"kernel_size": ENDLESS[kind]()}, {"input": ENDLESS[kind]()}):
        with pytest.raises((TypeError, ValueError), match="^max_pool2d: "):
            jaxpool.compat.torch.max_pool2d(**{"input": x, "kernel_size": 2, **words})


# --- sizes ----------------------------------------------------------------------------------------

LONGEST = 2**31 - 1


def shape_of(op: Callable[..., Any], shape: tuple[int, ...], *window: Any, **words: Any) -> Any:
    spec = jax.ShapeDtypeStruct(shape, jnp.int8)
    return jax.tree.map(lambda a: a.shape, jax.eval_shape(lambda x: op(x, *window, **words), spec))


@pytest.mark.parametrize("op", [jaxpool.max_pool, jaxpool.sum_pool])
def test_an_axis_of_the_longest_size(op: Callable[..., Any]) -> None:
    line = {"data_format": "W"}
    assert shape_of(op, (LONGEST,), 2, 2, **line) == (2**30 - 1,)
    assert shape_of(op, (LONGEST,), LONGEST, 1, **line) == (1,)
    assert shape_of(op, (LONGEST - 2,), 3, 1, 1, **line) == (LONGEST - 2,)
    with pytest.raises(ValueError, match="has 2147483649 elements with its padding"):
        shape_of(op, (LONGEST,), 3, 1, 1, **line)
    with pytest.raises(ValueError, match=r"the limit is 2147483647\.\n  Split the axis\."):
        shape_of(op, (LONGEST + 1,), 3, 1, **line)
    with pytest.raises(ValueError, match="`padding` = .*|has .* elements with its padding"):
        shape_of(op, (8,), 3, 1, 2**31, **line)


def test_averages_over_the_longest_axes() -> None:
    """Counts are not materialized per window, and integers do not overflow."""
    line = {"data_format": "W"}
    assert shape_of(jaxpool.avg_pool, (LONGEST - 2,), 3, 1, 1, **line, count_include_pad=False)
    assert shape_of(jaxpool.avg_pool, (LONGEST,), 2**28, 1, **line)
    for op, words in (
        (jaxpool.avg_pool, {"window_shape": 2**28 + 1, "strides": 1}),
        (jaxpool.adaptive_avg_pool, {"output_size": 3}),
        (jaxpool.global_avg_pool, {}),
    ):
        with pytest.raises(ValueError, match="exact, over at most 268435456 elements"):
            shape_of(op, (LONGEST,), **words, **line)


HUGE = (1, 2**16, 2**15, 1)  # 2**31 elements
WINDOWS_OF_ALL: dict[str, Callable[[Any], Any]] = {
    "max_pool": lambda x: jaxpool.max_pool(x, HUGE[1:3], 1),
    "median_pool": lambda x: jaxpool.median_pool(x, HUGE[1:3], 1),
    "sum_pool, padded": lambda x: jaxpool.sum_pool(x[:, :2, :2], HUGE[1:3], 1, HUGE[1]),
    "global_max_pool": jaxpool.global_max_pool,
    "global_avg_pool": jaxpool.global_avg_pool,
    "adaptive_max_pool": lambda x: jaxpool.adaptive_max_pool(x, (1, 1)),
    "adaptive_avg_pool": lambda x: jaxpool.adaptive_avg_pool(x, (1, 1)),
}


@pytest.mark.parametrize("op", WINDOWS_OF_ALL.values(), ids=WINDOWS_OF_ALL)
def test_windows_of_more_elements_than_int32_can_count_are_refused(op: Any) -> None:
    """The number of elements, a divisor of averages, would wrap, and so would offsets."""
    with pytest.raises(ValueError, match="a window has 65536 x 32768 = 2147483648 elements"):
        jax.eval_shape(op, jax.ShapeDtypeStruct(HUGE, np.float32))


def test_indices_that_would_wrap_are_refused() -> None:
    pool = jaxpool.max_pool_with_argmax
    whole = (1, 2**16, 2**15, 1)  # 2**31 elements, of which the last has the index 2**31 - 1
    assert shape_of(pool, whole, (2, 2), 2) == ((1, 2**15, 2**14, 1),) * 2
    with pytest.raises(ValueError, match="do not fit int32"):
        shape_of(pool, (1, 2**16, 2**15 + 1, 1), (2, 2), 2)
    with pytest.raises(ValueError, match="do not fit int32"):
        shape_of(pool, whole[:-1] + (2,), (2, 2), 2, index_space=1)
    assert shape_of(pool, (4, *whole[1:]), (2, 2), 2, index_space="window")[1] == (
        4,
        2**15,
        2**14,
        1,
    )


SETTINGS = {"strides": (2, 2), "pads_begin": (), "pads_end": (), "kernel_shape": (2, 2)}
WITH_INDICES: dict[str, Callable[[Any], Any]] = {
    "max_pool2d": lambda x: compat.torch.max_pool2d(x, 2, return_indices=True),
    "adaptive_max_pool2d": lambda x: compat.torch.adaptive_max_pool2d(x, 2, return_indices=True),
    "fractional_max_pool2d": lambda x: compat.torch.fractional_max_pool2d(
        x, 2, 2, return_indices=True, key=KEY
    ),
    "max_pool": lambda x: compat.onnx.max_pool(x, (2, 2)),
    "max_pool_v14": lambda x: compat.openvino.max_pool_v14(x, dilations=(1, 1), **SETTINGS),
    "adaptive_max_pool_v8": lambda x: compat.openvino.adaptive_max_pool_v8(x, (2, 2)),
    "max_pool_with_argmax": lambda x: compat.tensorflow.max_pool_with_argmax(x, 2, 2, "VALID"),
}


@pytest.mark.parametrize("name", WITH_INDICES)
def test_front_ends_advise_64_bits_for_indices_that_would_wrap(name: str) -> None:
    pool, size = WITH_INDICES[name], (2**16, 2**16)
    shape = (1, *size, 1) if name == "max_pool_with_argmax" else (1, 1, *size)
    with pytest.raises(ValueError, match=f"^{name}: indices do not fit int32.*\n.*4294967295;.*\n"
                       r'  Call jax.config.update\("jax_enable_x64", True\) first'):  # fmt: skip
        shape_of(pool, shape)
    with jax.enable_x64(True):
        shape_of(pool, shape)


def test_fractional_maxima_without_indices_have_no_limit() -> None:
    big = jax.ShapeDtypeStruct((1, 1, 2**16, 2**16), jnp.int8)
    for pool in (
        lambda x: jaxpool.fractional_max_pool(KEY, x, (2, 2), 3, data_format="NCHW"),
        lambda x: compat.torch.fractional_max_pool2d(x, 2, 3, key=KEY),
    ):
        assert jax.eval_shape(pool, big).shape == (1, 1, 3, 3)


def test_adaptive_sizes_are_bounded() -> None:
    for size in (2**22 + 1, 2**31, 10**30):
        with pytest.raises(ValueError, match="`output_size` contains"):
            shape_of(jaxpool.adaptive_avg_pool, (8, 8, 1), (size, 1))


@pytest.mark.deep
def test_a_window_over_a_million_elements() -> None:
    size = 10**6
    x = np.zeros(size, np.float32)
    x[3], x[-2] = 5, 7
    line: dict[str, Any] = {"window_shape": size, "data_format": "W"}
    values, index = jaxpool.max_pool_with_argmax(x, strides=1, **line)
    assert (values.item(), index.item()) == (7, size - 2)
    assert jaxpool.avg_pool(x, strides=1, **line).item() == pytest.approx(12 / size)
    padded = jaxpool.sum_pool(x, strides=size // 2, padding=size // 2, **line)
    np.testing.assert_array_equal(padded, [5, 12, 7])
