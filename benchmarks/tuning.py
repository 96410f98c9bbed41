"""Measures the cost of other values of every tuned constant in ``jaxpool/_lowerings/tuning.py``.

    python benchmarks/tuning.py [NAME..] [--rounds N] [--out results/tuning.json]

A constant has cases, which are calls of the public functions around its threshold, and values to
try in addition to the committed one. Each case is compiled once for each value that results in a
distinct program, and the programs are timed alternately. The cost of a value is the geometric mean,
over the cases, of its time relative to the fastest value of the case. The table proposes the value
of least cost and marks a committed value that costs over 20 % more. If no value changes a program,
the constant cannot be derived, and the table says so.
"""

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from measuring import interleaved, keep_memory, milliseconds, parser, versions, write

import jaxpool
from jaxpool._lowerings import plan, tuning
from jaxpool.filters import _sums

NOTABLE = 1.2
"""A committed value that costs more than this times the best one is marked."""

Call = Callable[[Any], Any]


class Case(NamedTuple):
    """A call of a public function on an array of a shape."""

    name: str
    shape: tuple[int, ...]
    call: Call
    dtype: str = "float32"


LAST, FIRST = (4, 56, 56, 64), (4, 64, 56, 56)


def max_pool(window: tuple[int, ...], stride: Any, *, first: bool = False, **settings: Any) -> Case:
    """Return a case: a maximum."""
    return _pooled("max_pool", window, stride, first, settings)


def argmax(window: tuple[int, ...], stride: Any, *, first: bool = False, **settings: Any) -> Case:
    """Return a case: a maximum with its indices."""
    return _pooled("max_pool_with_argmax", window, stride, first, settings)


def gradient(window: tuple[int, ...], stride: Any, *, first: bool = False, **settings: Any) -> Case:
    """Return a case: a maximum with its gradient."""
    return _with_gradient(_pooled("max_pool", window, stride, first, settings))


def average(window: tuple[int, ...], stride: Any, *, first: bool = False, **settings: Any) -> Case:
    """Return a case: an average."""
    return _pooled("avg_pool", window, stride, first, settings)


def padded_maximum(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: a maximum with the same number of outputs as elements."""
    return max_pool(window, stride, first=first, padding="SAME")


def padded_average(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: an average with the same number of outputs as elements."""
    return average(window, stride, first=first, padding="SAME")


def average_gradient(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: an average with its gradient."""
    return _with_gradient(_pooled("avg_pool", window, stride, first, {}))


def before(name: str, op: Call, window: tuple[int, ...], stride: Any) -> Case:
    """Averages before another op, and their gradient."""
    case = _pooled("avg_pool", window, stride, False, {"shape": (8, 56, 56, 128)})
    return _with_gradient(
        case._replace(name=f"{name} {case.name}", call=lambda x: op(case.call(x)))
    )


def directional(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: a maximum with its directional derivative."""
    case = _pooled("max_pool", window, stride, first, {})
    return case._replace(name=f"jvp of {case.name}", call=lambda x: jax.jvp(case.call, (x,), (x,)))


def stacked(window: tuple[int, ...], stride: Any, **settings: Any) -> Case:
    """Return a case: the sum of every window, which is fused with a stack of slices."""
    case = _pooled("windows", window, stride, False, settings)
    return case._replace(name=f"sum, {case.name}", call=lambda x: case.call(x).sum(-1))


def variance(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: a variance."""
    return _pooled("var_pool", window, stride, first, {})


def softened(window: tuple[int, ...], stride: Any, *, first: bool = False) -> Case:
    """Return a case: a soft average."""
    return _pooled("soft_pool", window, stride, first, {})


def median(window: tuple[int, ...], stride: Any, shape: tuple[int, ...] = (2, 56, 56, 16)) -> Case:
    """Return a case: a median."""
    return _pooled("median_pool", window, stride, False, {"shape": shape})


PLANE = (512, 512)


def averaged(size: Any, shape: tuple[int, ...] = (1024, 1024)) -> Case:
    """Return a case: the means of a plane."""
    call = lambda x: jaxpool.filters.uniform_filter(x, size)  # noqa: E731
    return Case(f"uniform_filter {size} {shape}", shape, call)


def dilated(length: int) -> Case:
    """Return a case: a dilation of a plane by a dome."""
    across = np.arange(length) - length // 2
    structure = np.asarray(-np.hypot(across[:, None], across), np.float32)
    call = lambda x: jaxpool.filters.grey_dilation(x, structure=structure)  # noqa: E731
    return Case(f"grey_dilation {length}", PLANE, call)


def varied(length: int) -> Case:
    """Return a case: the variance of every window of a plane, by a generic filter."""
    call = lambda x: jaxpool.filters.generic_filter(x, jnp.var, length)  # noqa: E731
    return Case(f"generic_filter {length}", PLANE, call)


def adaptive(kind: str, size: tuple[int, ...], *, first: int = False) -> Case:
    """Return a case: an adaptive maximum or average whose windows do not divide the axis."""
    layout, shape = ("channels_first", FIRST) if first else ("channels_last", LAST)
    shape = (64, 448, 16) if len(size) == 1 else shape
    op = functools.partial(getattr(jaxpool, f"adaptive_{kind}_pool"), output_size=size)
    return Case(f"adaptive {kind} {size} {layout}", shape, lambda x: op(x, data_format=layout))


def unpool(length: int) -> Case:
    """Return a case: an unpooling of square blocks; values and indices are from one pooling."""

    def both(x: Any) -> Any:
        y, indices = jaxpool.max_pool_with_argmax(x, (length, length), length)
        return jaxpool.max_unpool(y, indices, x.shape[1:3])

    return Case(f"unpool {length}", (4, 120, 120, 16), both)


def _pooled(op: str, window: Any, stride: Any, first: bool, settings: dict[str, Any]) -> Case:
    dtype, shape = settings.pop("dtype", "float32"), settings.pop("shape", FIRST if first else LAST)
    layout = "channels_first" if first else "channels_last"
    call = lambda x: getattr(jaxpool, op)(x, window, stride, data_format=layout, **settings)  # noqa: E731
    return Case(f"{op} {window} / {stride} {layout} {dtype} {shape}", shape, call, dtype)


def _with_gradient(case: Case) -> Case:
    def both(x: Any) -> Any:
        y, pullback = jax.vjp(case.call, x)
        return y, pullback(y)

    return case._replace(name=f"gradient of {case.name}", call=both)


def both_layouts(make: Callable[..., Case], *windows: tuple[Any, Any], **words: Any) -> list[Case]:
    """Return a case for each window and layout."""
    return [make(*window, first=first, **words) for window in windows for first in (False, True)]


def squares(*lengths: int, stride: int | None = None) -> list[tuple[Any, Any]]:
    """Return square windows, tiled or with the same stride."""
    return [((k, k), k if stride is None else stride) for k in lengths]


LARGE = (8, 112, 112, 64)
TUNED: dict[str, tuple[tuple[int, ...], list[Case]]] = {
    "LONGEST_SLICED": (
        (3, 4, 5, 6, 7, 8),
        both_layouts(max_pool, *squares(4, 5, 6, 7, 8, stride=1))
        + both_layouts(argmax, *squares(4, 5, 6, 7, 8, stride=2)),
    ),
    "LONGEST_SLICED_STRIDED": (
        (6, 8, 12, 16, 32),
        both_layouts(max_pool, *(((k,), k // n) for k in (9, 14, 16, 32) for n in (2, 4)),
                     shape=(8, 1024, 64))
        + both_layouts(average, ((8, 8), 4), ((9, 9), 3), ((16, 16), 4)),
    ),
    "LONGEST_SLICED_SUM": (
        (6, 7, 8, 9),
        [average(w, 1) for w in ((7, 1), (7, 7), (8, 1), (8, 8), (9, 9))],
    ),
    "MIN_SHORT_ROW": (
        (1, 2, 3, 4, 16),
        [average((k,), s, shape=(4, 8192, row))
         for k, s in ((3, 2), (5, 3), (9, 6)) for row in (1, 2, 3, 5)],
    ),
    "MAX_SHORT_ROW": (
        (2, 8, 15, 16, 32),
        [average((k,), s, shape=(4, 8192, row))
         for k, s in ((3, 2), (5, 3), (9, 6)) for row in (5, 8, 15, 16, 32)],
    ),
    "SHORTEST_PADDED_ROW": (
        (2, 3, 4, 5, 6, 8),
        [make((k, k), 1, first=True) for k in (2, 3, 4, 5, 6)
         for make in (padded_maximum, padded_average, average_gradient)],
    ),
    "MIN_ROW_REDUCED": (
        (32, 64, 80, 128, 256),
        [make((k,), s, first=True, shape=(16, 4, 65541)) for k in (48, 72, 96, 160)
         for s in (k, k // 3 + 1) for make in (max_pool, average)],
    ),
    "MAX_WINDOWS_OF_ELEMENT": (
        (1, 2, 4, 8, 16),
        [make((101,), s, first=True, shape=(16, 4, 65541)) for s in (51, 34, 17, 9)
         for make in (max_pool, average)],
    ),
    "MIN_BLOCK": (
        (4, 8, 16, 32, 64),
        [average((2 * g,), g, first=shape[1] == 64, shape=shape) for g in (6, 12, 20, 40)
         for shape in ((8, 4096, 64), (8, 64, 4096))]
        + [max_pool((2 * g,), g, shape=(8, 16384, 32), dtype=dtype) for g in (12, 20, 40)
           for dtype in ("float32", "bfloat16")],
    ),
    "MIN_BLOCK_TRANSPOSED": (
        (2, 4, 8, 16, 32),
        both_layouts(average_gradient, *(((2 * g, 2 * g), g) for g in (2, 3, 6, 12, 24))),
    ),
    "MAX_BLOCKS_OF_WINDOW": (
        (4, 8, 16, 32, 64),
        [average((24 * n,), 24, first=shape[1] == 64, shape=shape) for n in (6, 12, 24, 48)
         for shape in ((8, 4096, 64), (8, 64, 4096))],
    ),
    "MAX_COPIED": (
        (0, 2**24),
        [average((3, 3), 1, padding=1, shape=shape)
         for shape in ((2, 7, 7, 768), (2, 15, 15, 288), (2, 28, 28, 256), LARGE)],
    ),
    "MAX_BYTES_COPIED": (
        (0, 2**30),
        [gradient((3, 3), 1, padding="SAME", first=shape[1] == 192, shape=shape, dtype=dtype)
         for shape in ((8, 28, 28, 192), (8, 192, 28, 28), LARGE)
         for dtype in ("float32", "bfloat16")],
    ),
    "LONGEST_SLICED_APART": (
        (6, 16, 32, 64),
        [argmax((k, k), k) for k in (7, 14, 28)] + [argmax((k,), k, shape=(64, 4096, 16))
         for k in (16, 24, 32, 48, 64)],
    ),
    "LONGEST_SLICED_ROWS": (
        (8, 16, 32, 64, 128),
        [argmax((k,), k, first=True, shape=(64, 16, 4096)) for k in (8, 14, 24, 32, 64, 128)],
    ),
    "MIN_ROWS": (
        (2, 3, 4, 6, 8),
        [argmax((h, 8), (h, 8), first=True) for h in (2, 3, 4, 5, 7)],
    ),
    "MAX_JOINT": (
        (4, 6, 9, 12, 16, 25),
        [max_pool(w, s) for w, s in (((2, 3), 1), *squares(3, 4, 5, stride=1), ((3, 3), 2))]
        + [argmax(w, s) for w, s in squares(3, 4, 5, stride=2)],
    ),
    "FEW_ELEMENTS": (
        (1, 2, 4, 6, 9),
        both_layouts(argmax, ((2, 2), 2), ((2, 3), 2), ((3, 3), 2))
        + both_layouts(argmax, ((2, 2), 2), ((3, 3), 2), dtype="bfloat16"),
    ),
    "MAX_FUSED": (
        (4, 9, 16, 25, 36),
        both_layouts(argmax, *squares(3, 4, 5, 6)),
    ),
    "MIN_BYTES_OF_SEGMENTS": (
        (2**20, 2**22, 2**24, 2**26),
        [argmax((3, 3), 2, padding=1, shape=shape)
         for shape in ((1, 56, 56, 64), (4, 56, 56, 64), (8, 112, 112, 32), LARGE)],
    ),
    "MAX_COLLAPSED_ROW": (
        (0, 7, 12, 15, 23),
        [make(window, 1, shape=shape)
         for make in (max_pool, argmax, gradient)
         for channels in (3, 6, 12, 16)
         for window in ((3,), (50,), (3, 3), (9, 9))
         for shape in [(8, 6000, channels) if len(window) == 1 else (4, 112, 112, channels)]],
    ),
    "ARGREDUCE_RADIX": (
        (2, 3, 4, 5, 6),
        both_layouts(argmax, *squares(7, 9, 13, 19, 31, stride=1)),
    ),
    "LONGEST_PASS": (
        (16, 32, 64, 128, 256),
        [max_pool((k,), k, shape=(16, 4096, 16)) for k in (16, 32, 64, 128, 256)]
        + [make((k, k), k) for make in (max_pool, average) for k in (14, 28, 56)]
        + [average((k,), k, shape=(16, 4099, c)) for k in (24, 48, 96, 160) for c in (4, 64)],
    ),
    "LONGEST_PASS_ROWS": (
        (4, 8, 12, 16, 24, 32),
        [make((k, k), k, first=True) for make in (max_pool, average) for k in (7, 8, 14, 28)]
        + [make((k,), k, first=True, shape=(16, 16, n)) for k in (8, 16, 32)
           for make, n in ((max_pool, 4096), (average, 4096), (average, 4099))],
    ),
    "MAX_ADDED_IN_LOOP": (
        (7, 10, 14, 28, 128),
        [average((k, k), k, shape=shape, dtype=dtype) for dtype in ("float32", "bfloat16")
         for k, shape in ((28, (32, 28, 28, 512)), (56, (8, 56, 56, 64)), (112, LARGE))],
    ),
    "MAX_SLICED_OFFSETS": (
        (16, 32, 64, 100, 144),
        [directional((k, k), 2) for k in (4, 5, 6, 7, 8, 10, 12)],
    ),
    "MAX_PADDED_WINDOWS": (
        (0, 2**24),
        [gradient((3, 3), 2, shape=shape)
         for shape in ((2, 7, 7, 768), (2, 15, 15, 288), (2, 31, 31, 192), (2, 67, 67, 64))],
    ),
    "OFFSETS_AT_ONCE": (
        (1, 4, 8, 16),
        [median((k, k), 2) for k in (13, 31)],
    ),
    "MAX_SCATTERED": (
        (4, 6, 9, 16, 25),
        both_layouts(gradient, *squares(2, 3, stride=1), *squares(3, 4, 5, stride=2)),
    ),
    "MAX_FUSED_COTANGENTS": (
        (1, 4, 9),
        [gradient((k, k), s) for k, s in ((2, 2), (2, 1), (3, 3), (3, 2))],
    ),
    "MAX_PADDED_SHIFTS": (
        (0, 2, 3, 4),
        [gradient((k, k), s, first=True) for k, s in ((3, 2), (4, 2), (5, 3), (5, 2), (7, 2))]
        + [average_gradient((k, k), 2, first=True) for k in (3, 5, 7)],
    ),
    "LONGEST_SCATTERED": (
        (3, 5, 7, 9, 12),
        both_layouts(gradient, *squares(5, 7, 9, 11, stride=1))
        + both_layouts(average_gradient, *squares(5, 7, 9, 11, stride=1)),
    ),
    "SCATTER_RADIX": (
        (2, 3, 4, 6, 8),
        both_layouts(gradient, *squares(9, 13, 19, 31, stride=1)),
    ),
    "MAX_STACKED": (
        (16, 25, 64, 100),
        [stacked((k, k), 1) for k in (5, 6, 8, 10)],
    ),
    "LONGEST_STACKED": (
        (16, 32, 64, 128),
        [stacked((k,), 1, shape=(64, 448, 16)) for k in (33, 65, 100)],
    ),
    "LONGEST_RAGGED": (
        (16, 32, 64, 128, 256),
        [adaptive("max", size) for size in ((3,), (5,), (9,))]
        + [adaptive("avg", size) for size in ((3,), (5,), (9,))],
    ),
    "MAX_RAGGED_JOINT": (
        (8, 16, 32, 64),
        [adaptive("max", size) for size in ((5, 5), (9, 9), (13, 13))]
        + [adaptive("avg", size) for size in ((5, 5), (9, 9), (13, 13))],
    ),
    "MAX_RAGGED_GROUPS": (
        (1, 4, 8, 16, 32),
        [adaptive("avg", size, first=f) for size in ((5, 5), (9, 9), (25, 25)) for f in (0, 1)],
    ),
    "MAX_RAGGED_COMPARED": (
        (4, 8, 16, 32),
        [_with_gradient(adaptive("max", (k, k), first=True)) for k in (5, 9, 13, 25)],
    ),
    "MAX_COMPARED_IN_BLOCK": (
        (9, 16, 36, 64, 100),
        [unpool(k) for k in (2, 3, 4, 5, 6, 8, 10)],
    ),
    "LONGEST_TERMS_SLICED": (
        (4, 8, 16, 32),
        [_with_gradient(case) for case in both_layouts(softened, *squares(5, 9, 17, stride=2))],
    ),
    "JOIN_RADIX": (
        (2, 4, 6, 8),
        both_layouts(softened, *squares(5, 9, 17, 31, stride=1)),
    ),
    "LONGEST_JOINED": (
        (1, 3, 5, 7, 9),
        both_layouts(variance, *squares(3, 5, 7, 9, stride=1), *squares(3, 6, 7, 9, stride=2)),
    ),
    "MIN_STORED_SUMS": (
        (1, 3, 4, 5, 1000),
        [before(name, op, w, w) for w in ((1, 2), (2, 2), (4, 4)) for name, op in (
            ("relu", jax.nn.relu), ("sigmoid", jax.nn.sigmoid),
            ("batch statistics", lambda x: jax.nn.standardize(x, (0, 1, 2))))],
    ),
    "MAX_IN_NETWORK": (
        (16, 32, 64, 100, 128),
        [median((k, k), 2) for k in (5, 7, 9, 11)],
    ),
    "LONGEST_ORDERED": (
        (2**12, 2**13, 2**14, 2**15, 2**16),
        [median((k,), 1, shape=shape)
         for k, shape in ((201, (2**18, 1)), (1001, (2**18, 1)), (301, (2**16, 4)))],
    ),
    "MIN_BLOCK_OF_ORDERED": (
        (1, 2, 4, 8),
        [median((k,), 1, shape=(2**16, 1)) for k in (5001, 8001)],
    ),
    "MAX_ADDED_AT_ONCE": (
        (4, 5, 6, 7, 8, 9),
        [averaged(size) for size in (7, 14, 15, 31, 49, (1, 31), (1, 101))],
    ),
    "COST_OF_LEVEL": (
        (0, 1, 2, 4),
        [averaged((1, k)) for k in (15, 31, 49, 101, 301)],
    ),
    "ROWS_OF_BLOCK": (
        (2, 3, 4, 6, 8),
        [averaged((k, 1)) for k in (15, 31, 101)],
    ),
    "SHORTEST_IN_BLOCKS": (
        (8, 11, 16, 32, 1000),
        [averaged((k, 1)) for k in (8, 9, 11, 15, 31)],
    ),
    "MIN_ROW_OF_BLOCKS": (
        (1, 8, 16, 32, 64),
        [averaged((31, 1), (32768, row)) for row in (3, 8, 16, 32, 64)],
    ),
    "MAX_TAPS_UNROLLED": (
        (9, 16, 32, 64),
        [dilated(k) for k in (3, 5, 7)],
    ),
    "MAX_TAPS_AT_ONCE": (
        (2**18, 2**19, 2**20, 2**21, 2**22),
        [varied(k) for k in (3, 5, 9, 15)],
    ),
    "LONGEST_CONSTANT_RUN": (
        (1, 16, 64, 256),
        [average((3, 3), 1, padding=1, count_include_pad=False)],
    ),
    "MAX_CONSTANT_COUNTS": (
        (1, 2**12, 2**14),
        [average((3, 3), 1, padding=1, count_include_pad=False)],
    ),
}  # fmt: skip


def main() -> int:
    options = parser(__doc__ or "", rounds=15)
    options.add_argument("names", nargs="*", help="constants; all of them if none is given")
    arguments = options.parse_args()
    keep_memory()
    rows = []
    for name in arguments.names or TUNED:
        rows.append(_measured(name, arguments.rounds))
        print(_line(rows[-1]), flush=True)
    write(arguments.out, {"versions": versions(), "rows": rows})
    return 0


def _measured(name: str, rounds: int) -> dict[str, Any]:
    values, cases = TUNED[name]
    committed = getattr(tuning, name)
    values = tuple(sorted({*values, committed}))
    times = {case.name: _times(name, values, case, rounds) for case in cases}
    costs = {value: _cost([case[value] for case in times.values()], times) for value in values}
    best = min(costs, key=costs.__getitem__)
    differ = any(len(set(case.values())) > 1 for case in times.values())
    return {
        "constant": name,
        "committed": committed,
        "proposed": best if differ else None,
        "excess": costs[committed] / costs[best],
        "costs": costs,
        "milliseconds": times,
    }


def _cost(times_of_value: list[float], times: dict[str, dict[int, float]]) -> float:
    """Return the geometric mean of the times of a value, relative to the fastest of each case."""
    fastest = [min(case.values()) for case in times.values()]
    return math.exp(
        sum(math.log(t / best) for t, best in zip(times_of_value, fastest, strict=True))
        / len(times_of_value)
    )


def _times(name: str, values: tuple[int, ...], case: Case, rounds: int) -> dict[int, float]:
    """Return the milliseconds of a case at each value; values with equal programs share a time."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=case.shape), case.dtype)
    programs: dict[str, Any] = {}
    program_of = {}
    for value in values:
        with _constant_set_to(name, value):
            lowered = jax.jit(case.call).lower(x)
            program_of[value] = lowered.as_text()
            if program_of[value] not in programs:
                programs[program_of[value]] = lowered.compile()
    calls = {text: lambda run=run: jax.block_until_ready(run(x)) for text, run in programs.items()}
    times = (
        milliseconds(interleaved(calls, rounds)) if len(calls) > 1 else dict.fromkeys(calls, 1.0)
    )
    return {value: times[text] for value, text in program_of.items()}


@contextlib.contextmanager
def _constant_set_to(name: str, value: int) -> Iterator[None]:
    """Set the constant to a value for the programs that are traced inside the block."""
    committed = getattr(tuning, name)
    setattr(tuning, name, value)
    _clear_caches()
    try:
        yield
    finally:
        setattr(tuning, name, committed)
        _clear_caches()


def _clear_caches() -> None:
    """Clear the caches of plans, which reductions keep, and of programs, which JAX keeps."""
    for name in jaxpool.reductions.__all__:
        reduction = getattr(jaxpool.reductions, name)
        if isinstance(reduction, jaxpool.Reduction):
            reduction.cached_results.clear()
    plan.plan_for.shared.cache_clear()
    plan.choice_of.shared.cache_clear()
    _sums.copies_of.cache_clear()
    _sums.cost_of.cache_clear()
    jax.clear_caches()


def _line(row: dict[str, Any]) -> str:
    costs = "  ".join(f"{value}: {cost:.2f}" for value, cost in row["costs"].items())
    if row["proposed"] is None:
        verdict = "makes no difference"
    elif row["excess"] > NOTABLE:
        verdict = f"PROPOSED {row['proposed']}, the committed one costs {row['excess']:.2f} times"
    else:
        verdict = f"best {row['proposed']}, within {row['excess'] - 1:.0%}"
    return f"{row['constant']:24} = {row['committed']:<9} {verdict}\n    {costs}"


if __name__ == "__main__":
    sys.exit(main())
