"""Values, indices and gradients of every op against the brute-force oracle, at random.

The cases are asymmetric by construction: sizes, windows, strides and dilations differ between axes,
padding is drawn separately for every end and may exceed the window. The arrays are tiny, and the
cases of a batch share one compiled program, because compiling costs far more than running. A
failure names its case as code: ``check([Case(..)])`` runs it again.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import assert_same, permutation

import jaxpool
from jaxpool.testing import oracle_argmax, oracle_gradient, oracle_indices, oracle_pool

BATCH = 20
"""Cases that share one compiled program."""

# The oracle's name of each op. Maxima are frequent: most users need them, and they have indices.
ORACLE_OPS = {
    "max_pool": "max",
    "max_pool_with_argmax": "max",
    "min_pool": "min",
    "sum_pool": "sum",
    "avg_pool": "avg",
}

FLOATS = ("float32", "bfloat16", "float16")

LETTERS = {
    1: ("NWC", "NCW", "WC", "CW", "W", "HCN"),
    2: ("NHWC", "NCHW", "HWC", "CHW", "HW", "HNWC", "NWCH"),
    3: ("NDHWC", "NCDHW", "DHWC", "CDHW", "DHW", "DNHCW"),
}


@dataclass(frozen=True)
class Case:
    """A reproducible call of an op on an array.

    Attributes:
      op: name of the public function.
      shape, dtype, data, seed: the array; ``data`` names a recipe of :func:`array`.
      mask: shape of the ``where`` mask, or None.
      differentiated: whether the gradient is computed. The values of such a call come from the
        derivative rule, the values of others from the op; only floats have a gradient.
    """

    op: str
    shape: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Any
    dilations: tuple[int, ...] = (1,)
    rounding: str = "floor"
    data_format: str = "channels_last"
    dtype: str = "float32"
    data: str = "permutation"
    seed: int = 0
    mask: tuple[int, ...] | None = None
    index_space: str | int = "spatial"
    count_include_pad: bool = True
    divisor_override: int | None = None
    implementation: str = "auto"
    differentiated: bool = True

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)
        pairs = [(f.name, getattr(self, f.name), f.default) for f in fields]
        return f"Case({', '.join(f'{n}={v!r}' for n, v, default in pairs if v != default)})"

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The pooled axes, read from the layout without the library."""
        rank, count = len(self.shape), len(self.window)
        if self.data_format == "channels_last":
            return tuple(range(rank - 1 - count, rank - 1))
        if self.data_format == "channels_first":
            return tuple(range(rank - count, rank))
        return tuple(axis for axis, letter in enumerate(self.data_format) if letter in "DHW")

    @property
    def has_gradient(self) -> bool:
        return self.differentiated and self.dtype in FLOATS

    def own_settings(self) -> dict[str, Any]:
        """The settings that only this op has."""
        if self.op == "avg_pool":
            return {
                "count_include_pad": self.count_include_pad,
                "divisor_override": self.divisor_override,
            }
        return {"index_space": self.index_space} if self.op == "max_pool_with_argmax" else {}

    def rng(self, stream: int) -> np.random.Generator:
        """Return a generator of this case, independent of the one that drew it."""
        return np.random.default_rng([self.seed, stream])

    def array(self) -> np.ndarray:
        return array(self.data, self.shape, np.dtype(jnp.dtype(self.dtype)), self.rng(1))

    def where(self) -> np.ndarray | None:
        """Return the mask, which keeps about two elements of three."""
        if self.mask is None:
            return None
        return self.rng(2).random(self.mask) < 0.65

    def cotangent(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return small integers, whose sums are exact in every float dtype."""
        return self.rng(3).integers(-4, 5, shape).astype(jnp.dtype(self.dtype))


def array(
    recipe: str, shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator
) -> np.ndarray:
    """Return data for a case.

    The recipes: permutation has distinct numbers. ties has few values. special has NaN, infinities
    and zeros of both signs among few numbers. lowest and highest have only the identity of max or
    of min. extremes has integers whose sums overflow.
    """
    if recipe == "permutation":
        return permutation(shape, dtype, rng)
    if recipe == "ties":
        low, high = {"b": (0, 2), "u": (0, 5)}.get(dtype.kind, (-2, 3))
        return rng.integers(low, high, shape).astype(dtype)
    if recipe == "special":
        numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 3.0]
        return rng.choice(numbers, shape, p=[0.1, 0.07, 0.13] + [0.7 / 6] * 6).astype(dtype)
    if recipe in ("lowest", "highest"):
        return np.full(shape, -np.inf if recipe == "lowest" else np.inf, dtype)
    limits = np.iinfo(dtype)
    numbers = [limits.min, limits.min + 1, limits.max, limits.max - 1, 1]
    return rng.choice(np.array(numbers, dtype), shape)


# --- drawing --------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    """Return the case of this seed, which is always the same."""
    rng = np.random.default_rng(seed)
    while True:
        case = _draw(rng, seed)
        if case is not None:
            return case


def _draw(rng: np.random.Generator, seed: int) -> Case | None:
    window, strides, dilations, sizes = _draw_axes(rng)
    spans = tuple((k - 1) * d + 1 for k, d in zip(window, dilations, strict=True))
    padding, sizes = _draw_padding(rng, sizes, spans)
    data_format, shape = _draw_layout(rng, sizes)
    large = max(window) > 4
    if math.prod(shape) * math.prod(window) > (1_000_000 if large else 10_000):
        return None  # the oracle loops over every tap, so large windows have few outputs
    op = str(rng.choice(list(ORACLE_OPS), p=[0.12, 0.4, 0.13, 0.15, 0.2]))
    dtype = _draw_dtype(rng, op)
    return Case(
        op=op,
        shape=shape,
        window=window,
        strides=strides,
        padding=padding,
        dilations=dilations,
        rounding=str(rng.choice(["floor", "ceil", "ceil_torch"])),
        data_format=data_format,
        dtype=dtype,
        data=_draw_data(rng, dtype, math.prod(shape)),
        seed=seed,
        mask=_draw_mask(rng, shape) if rng.random() < 0.3 else None,
        implementation="reduce_window" if rng.random() < 0.2 else "auto",
        differentiated=dtype in FLOATS and rng.random() < 0.6,
        **_draw_own_settings(rng, op, len(shape)),
    )


def _draw_axes(rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Return windows, strides, dilations and sizes, each different from axis to axis.

    Most windows are small. Some are large, because these have other implementations and more than
    255 taps need a wider index; some are tiled.
    """
    count = int(rng.choice([1, 2, 3], p=[0.3, 0.5, 0.2]))
    kind = str(rng.choice(["small", "large", "tiled"], p=[0.85, 0.07, 0.08]))
    if kind == "large":
        count = min(count, 2)
        window = _different(rng, 12, 22, count) if count == 2 else _different(rng, 5, 70, 1)
        sizes = tuple(size + int(rng.integers(0, 6)) for size in window)
        return window, _different(rng, 1, 5, count), (1,) * count, sizes
    window, sizes = _different(rng, 1, 5, count), _different(rng, 1, 9, count)
    if kind == "tiled":
        return window, window, (1,) * count, sizes
    dilations = _different(rng, 1, 4, count) if rng.random() < 0.6 else (1,) * count
    return window, _different(rng, 1, 5, count), dilations, sizes


def _different(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(i) for i in rng.permutation(np.arange(low, high))[:count])


def _draw_padding(
    rng: np.random.Generator, sizes: tuple[int, ...], spans: tuple[int, ...]
) -> tuple[Any, tuple[int, ...]]:
    """Return a padding word or pairs, and the sizes, enlarged if the window would not fit."""
    word = str(rng.choice(["VALID", "SAME", "SAME_LOWER", "pairs"], p=[0.1, 0.15, 0.1, 0.65]))
    if word == "VALID":
        return word, tuple(map(max, sizes, spans))
    if word != "pairs":
        return word, sizes
    pairs = []
    for size, span in zip(sizes, spans, strict=True):
        limit = span + 2 if rng.random() < 0.2 else min(span, 3)
        low, high = (int(n) for n in rng.integers(0, limit + 1, 2))
        pairs.append((low, max(high, span - size - low)))
    return tuple(pairs), sizes


def _draw_layout(rng: np.random.Generator, sizes: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Return a layout with 0 to 2 batch axes, and the full shape."""
    lead = _different(rng, 1, 4, 3)
    word = str(rng.choice(["channels_last", "channels_first", "letters"], p=[0.45, 0.25, 0.3]))
    batch = lead[: rng.integers(0, 3)]
    if word == "channels_last":
        return word, (*batch, *sizes, lead[2])
    if word == "channels_first":
        return word, (*batch, lead[2], *sizes)
    letters = str(rng.choice(LETTERS[len(sizes)]))
    pooled = iter(sizes)
    others = {"N": lead[0], "C": lead[2]}
    return letters, tuple(others[a] if a in others else next(pooled) for a in letters)


def _draw_dtype(rng: np.random.Generator, op: str) -> str:
    names = ["float32", "bfloat16", "float16", "int8", "uint8", "int32", "bool"]
    name = str(rng.choice(names, p=[0.6, 0.1, 0.08, 0.06, 0.06, 0.06, 0.04]))
    return "int32" if name == "bool" and op == "avg_pool" else name


def _draw_data(rng: np.random.Generator, dtype: str, elements: int) -> str:
    if dtype == "bool":
        return "ties"
    if dtype in ("int8", "uint8", "int32"):
        return str(rng.choice(["ties", "extremes"]))
    recipes = ["permutation", "ties", "special", "lowest", "highest"]
    recipe = str(rng.choice(recipes, p=[0.5, 0.2, 0.2, 0.05, 0.05]))
    too_many = elements > {"bfloat16": 256, "float16": 4096}.get(dtype, 2**24)
    return "ties" if recipe == "permutation" and too_many else recipe


def _draw_mask(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts: full, with axes of length 1, or without the leading axis."""
    mask = tuple(1 if rng.random() < 0.2 else size for size in shape)
    return mask[rng.integers(0, 2) :]


def _draw_own_settings(rng: np.random.Generator, op: str, rank: int) -> dict[str, Any]:
    if op == "avg_pool":
        override = int(rng.choice([-3, 1, 2, 7])) if rng.random() < 0.2 else None
        return {"count_include_pad": bool(rng.random() < 0.5), "divisor_override": override}
    if op != "max_pool_with_argmax":
        return {}
    if rng.random() < 0.6:
        return {"index_space": str(rng.choice(["spatial", "window"]))}
    return {"index_space": int(rng.integers(-rank, rank))}


# --- running and comparing ------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The result of one side; None for parts that the case does not have."""

    values: Any
    indices: Any = None
    gradient: Any = None


def expected(case: Case) -> Answer:
    """Return the oracle's result."""
    x, where = case.array(), case.where()
    settings: dict[str, Any] = {
        "dilations": case.dilations,
        "rounding": case.rounding,
        "spatial_axes": case.spatial_axes,
        "where": where,
    }
    windows = (case.window, case.strides, case.padding)
    indices = None
    if case.op == "max_pool_with_argmax":
        values, taps, positions = oracle_argmax(x, *windows, **settings)
        indices = oracle_indices(
            taps, positions, case.shape, case.index_space, spatial_axes=case.spatial_axes
        )
        in_byte = case.index_space == "window" and math.prod(case.window) <= 255
        indices = indices.astype(np.int32).astype(np.uint8 if in_byte else np.int32)
    else:
        if case.op == "avg_pool":
            settings |= case.own_settings()
        values = oracle_pool(x, ORACLE_OPS[case.op], *windows, **settings)
    gradient = None
    if case.has_gradient:
        cotangent = case.cotangent(values.shape)
        gradient = oracle_gradient(x, cotangent, ORACLE_OPS[case.op], *windows, **settings)
        gradient = gradient.astype(x.dtype)
    return Answer(values, indices, gradient)


def traced(case: Case, x: Any, where: Any, cotangent: Any) -> tuple[Any, Any, Any]:
    """Return the library's (values, indices, gradient)."""

    def pooled(x: Any) -> tuple[Any, Any]:
        result = getattr(jaxpool, case.op)(
            x,
            case.window,
            case.strides,
            case.padding,
            dilations=case.dilations,
            rounding=case.rounding,
            data_format=case.data_format,
            where=where,
            implementation=case.implementation,
            **case.own_settings(),
        )
        return result if isinstance(result, tuple) else (result, None)

    try:
        if not case.has_gradient:
            return *pooled(x), None
        values, pullback, indices = jax.vjp(pooled, x, has_aux=True)
        return values, indices, pullback(cotangent)[0]
    except Exception as error:
        error.add_note(f"check([{case!r}])")
        raise


def check(cases: Sequence[Case], compiler_options: dict[str, Any] | None = None) -> None:
    """Run the cases in one compiled program and compare each with the oracle."""
    answers = [expected(case) for case in cases]
    arrays = [
        (case.array(), case.where(), case.cotangent(answer.values.shape))
        for case, answer in zip(cases, answers, strict=True)
    ]

    def program(arrays: list[Any]) -> list[Any]:
        return [traced(case, *each) for case, each in zip(cases, arrays, strict=True)]

    results = jax.device_get(jax.jit(program, compiler_options=compiler_options)(arrays))
    for case, result, answer in zip(cases, results, answers, strict=True):
        compare(case, Answer(*result), answer)


def compare(case: Case, got: Answer, want: Answer) -> None:
    """Fail, naming the case, unless both results are the same."""
    code = f"check([{case!r}])"
    ulps = 2 if case.op == "avg_pool" else 0
    assert_same(got.values, want.values, f"values of {code}", ulps=ulps)
    if want.indices is not None:
        assert_same(got.indices, want.indices, f"indices of {code}")
    if want.gradient is not None:
        assert_same(got.gradient, want.gradient, f"gradient of {code}", ulps=ulps)


def batch_of(number: int) -> list[Case]:
    return [draw(number * BATCH + i) for i in range(BATCH)]
