"""Times ``jaxpool.filters`` against scipy.ndimage, and rolling statistics against pandas.

    python benchmarks/filters.py [--only NAME ...] [--rounds N] [--out results/filters.json]

Filters run over a float32 image of 1024 x 1024, binary filters over a mask of that shape. Rolling
statistics run over a million samples: in float32 in jaxpool, in float64, its dtype of computation,
in pandas; both sides return an output for every full window. Results are compared before the
timing: those of filters must be equal. Read the ratios: the other's time over jaxpool's.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from measuring import interleaved, keep_memory, milliseconds, parser, versions, write

SIDE, SAMPLES = 1024, 10**6
LONG, SHORT = 1001, 101
"""Lengths of rolling windows, in samples."""

SPREAD = lambda taps: taps.max() - taps.min()  # noqa: E731


class Case(NamedTuple):
    """A function of one array in both libraries, and the group of its row in the table."""

    peer: str
    group: str
    name: str
    x: np.ndarray
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


def main() -> int:
    arguments = parser(__doc__ or "", rounds=25)
    arguments.add_argument("--only", nargs="+", help="some of the cases, by how their names begin")
    options = arguments.parse_args()
    keep_memory()
    rows = []
    for case in cases(SIDE, SAMPLES):
        if case.name.startswith(tuple(options.only or [""])):
            rows.append(measure(case, options.rounds))
            print(line(rows[-1]), flush=True)
    write(options.out, {"versions": versions("scipy", "pandas"), "rows": rows})
    return 0


def cases(side: int, samples: int) -> Iterator[Case]:
    """Yield all cases, for an image with this side and a series of this length."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((side, side)).astype(np.float32)
    yield from _small_filters(image, image > 0)
    yield from _large_filters(image)
    yield from _rolling(rng.standard_normal(samples).astype(np.float32))


# --- scipy.ndimage --------------------------------------------------------------------------------


def _small_filters(image: np.ndarray, mask: np.ndarray) -> Iterator[Case]:
    """Yield every filter with a 3 x 3 window."""
    structure = np.array([[0, 1, 0], [1, 2, 1], [0, 1, 0]], np.float32)
    grey = ("grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "white_tophat",
            "black_tophat", "morphological_gradient", "morphological_laplace")  # fmt: skip
    for name in ("maximum_filter", "minimum_filter"):
        yield _filter("maxima and minima, 3x3", name, image, 3)
    for name in ("maximum_filter1d", "minimum_filter1d", "uniform_filter1d"):
        kind = "means" if "uniform" in name else "maxima and minima"
        for axis in (0, 1):
            yield _filter(f"{kind}, 3 along an axis", name, image, 3, axis=axis)
    yield _filter("means, 3x3", "uniform_filter", image, 3)
    yield _filter("medians and other ranks, 3x3", "median_filter", image, 3)
    yield _filter("medians and other ranks, 3x3", "percentile_filter", image, 25, 3)
    yield _filter("medians and other ranks, 3x3", "rank_filter", image, 2, 3)
    for name in grey:
        yield _filter("flat morphology, 3x3", name, image, 3)
        yield _filter("morphology with a structure, 3x3", name, image, structure=structure)
    for name in ("binary_erosion", "binary_dilation", "binary_opening", "binary_closing"):
        square = np.ones((3, 3), bool)
        yield _filter("binary morphology, 3x3", name, mask, structure=square)
    yield _filter("a function of one's own, 3x3", "generic_filter", image, SPREAD, 3)


def _large_filters(image: np.ndarray) -> Iterator[Case]:
    for name in ("maximum_filter", "minimum_filter"):
        yield _filter("maxima and minima, 31x31", name, image, 31)
    yield _filter("means, 31x31", "uniform_filter", image, 31)
    yield _filter("medians, 7x7", "median_filter", image, 7)
    yield _filter("medians, 31x31", "median_filter", image, 31)
    for name in ("maximum_filter", "minimum_filter"):
        yield _filter("maxima and minima, disc of 149", name, image, footprint=_disc(7))
    yield _filter("medians, disc of 81", "median_filter", image, footprint=_disc(5))


def _disc(radius: int) -> np.ndarray:
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return y * y + x * x <= radius * radius


def _filter(group: str, name: str, x: np.ndarray, *arguments: Any, **keywords: Any) -> Case:
    from scipy import ndimage

    import jaxpool.filters

    def call_in(module: Any) -> Callable[[Any], Any]:
        return lambda x: getattr(module, name)(x, *arguments, **keywords)

    window = f"3 along axis {keywords['axis']}" if "axis" in keywords else group.partition(", ")[2]
    label = f"{name}, {window}{', structure' if 'structure' in group else ''}"
    return Case("scipy", group, label, x, call_in(jaxpool.filters), call_in(ndimage))


# --- pandas ---------------------------------------------------------------------------------------


def _rolling(series: np.ndarray) -> Iterator[Case]:
    import jaxpool

    for name, window, ours, theirs in (
        ("median", LONG, jaxpool.median_pool, lambda rolling: rolling.median()),
        ("quantile 0.9", LONG, _upper_quantile, lambda rolling: rolling.quantile(0.9)),
        ("maximum", SHORT, jaxpool.max_pool, lambda rolling: rolling.max()),
        ("mean", SHORT, jaxpool.avg_pool, lambda rolling: rolling.mean()),
        ("deviation", SHORT, _deviation, lambda rolling: rolling.std()),
    ):
        yield _rolling_case(f"rolling {name} of {window:,}", series, window, ours, theirs)


def _upper_quantile(x: Any, *windows: Any, **settings: Any) -> Any:
    import jaxpool

    return jaxpool.quantile_pool(x, 0.9, *windows, **settings)


def _deviation(x: Any, *windows: Any, **settings: Any) -> Any:
    import jaxpool

    return jaxpool.std_pool(x, *windows, correction=1, **settings)


def _rolling_case(
    name: str, series: np.ndarray, window: int, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> Case:
    import pandas

    float64_series = pandas.Series(series.astype(np.float64))
    pool = lambda x: ours(x, window, 1, data_format="W")  # noqa: E731
    return Case(
        "pandas", name, name, series, pool, lambda x: theirs(float64_series.rolling(window))
    )


# --- both -----------------------------------------------------------------------------------------


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Return a row of the report."""
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(case.x)
    compiled = jax.jit(case.ours).lower(x).compile()
    calls = {
        "jaxpool": lambda: compiled(x).block_until_ready(),
        case.peer: lambda: case.theirs(case.x),
    }
    _compare(case, np.asarray(calls["jaxpool"]()), np.asarray(calls[case.peer]()))
    memory = compiled.memory_analysis()
    return {
        "peer": case.peer,
        "group": case.group,
        "case": case.name,
        "milliseconds": milliseconds(interleaved(calls, rounds)),
        "temporaries_per_input": memory.temp_size_in_bytes / case.x.nbytes,
    }


def _compare(case: Case, ours: np.ndarray, theirs: np.ndarray) -> None:
    if case.peer == "scipy":
        np.testing.assert_array_equal(ours, theirs, err_msg=case.name)
    else:  # pandas computes in float64, and the first windows, which are not full, are NaN
        theirs = theirs[-len(ours) :]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=case.name)


def line(row: dict[str, Any]) -> str:
    """Return a row as text for the terminal."""
    ours, theirs = row["milliseconds"].values()
    return (
        f"{row['case']:42} jaxpool {ours:8.2f} ms  {row['peer']:6} {theirs:8.2f} ms "
        f"({theirs / ours:6.2f})  temporaries {row['temporaries_per_input']:5.2f} times the array"
    )


if __name__ == "__main__":
    sys.exit(main())
