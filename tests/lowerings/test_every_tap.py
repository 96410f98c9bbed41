"""Long windows: CPU and TPU loop over the taps, GPU reads all in one step.

The programs of GPU and TPU run on CPU, against NumPy.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import elements_of_windows, over_windows
from helpers import PLATFORMS, assert_same, lowered, permutation

import jaxpool
from jaxpool._autodiff.gather import gather, scatter
from jaxpool._geometry.resolve import Geometry
from jaxpool._lowerings.plan import choice_of


@dataclasses.dataclass(frozen=True)
class Case:
    """Windows with more elements than a program may have slices, over a batch, channels last."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @property
    def window(self) -> dict[str, Any]:
        return {
            "window_shape": self.kernel,
            "strides": self.strides,
            "padding": self.padding,
            "dilations": self.dilations,
        }

    @property
    def geometry(self) -> Geometry:
        made = jaxpool.geometry(self.size, **self.window)
        return Geometry(made.axes, tuple(range(-len(self.size) - 1, -1)))


CASES = (
    Case((13, 11), (9, 8), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Case((14, 12), (9, 8), (2, 3), ((4, 2), (3, 5)), (1, 1)),
    Case((19, 18), (7, 10), (1, 2), ((2, 0), (0, 3)), (2, 1)),
    Case((6, 7, 8), (4, 5, 4), (1, 2, 1), ((1, 0), (0, 2), (3, 1)), (1, 1, 2)),
)


@pytest.mark.grid(4)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case.kernel)))
def test_any_offsets_are_read_and_written(case: Case, platform: str) -> None:
    rng, geometry = np.random.default_rng(3), case.geometry
    x = permutation((2, *case.size, 3), np.float32, rng)
    shape, walk = elements_of_windows(x, **case.window)
    offsets = rng.integers(0, geometry.taps, shape).astype(np.uint8)
    offsets[rng.random(shape) < 0.1] = 255
    g = permutation(shape, np.float32, rng)
    read, written = np.zeros(shape, np.float32), np.zeros(x.shape, np.float32)
    for out, _ in walk:
        place = place_of(case, out, int(offsets[out]))
        if place is not None:
            read[out], written[place] = x[place], written[place] + g[out]
    for operation in ("gather", "scatter"):
        assert choice_of(operation, geometry, np.dtype(np.float32), any_offset=True).gpu == "loop"
    got = lowered(lambda x, o: gather(x, o, geometry), platform, x, offsets)
    assert_same(got(x, offsets), read, platform)
    put = lowered(lambda g, o: scatter(g, o, geometry), platform, g, offsets)
    assert_same(put(g, offsets), written, platform)


def place_of(case: Case, out: tuple[int, ...], offset: int) -> tuple[int, ...] | None:
    """Return the array position of a window offset; None if outside, and for the sentinel."""
    if offset == 255:
        return None
    digits = np.unravel_index(offset, case.kernel)
    place = [out[0]]
    for o, t, stride, (low, _), dilation, size in zip(
        out[1:-1], digits, case.strides, case.padding, case.dilations, case.size, strict=True
    ):
        q = o * stride - low + int(t) * dilation
        if not 0 <= q < size:
            return None
        place.append(q)
    return (*place, out[-1])


@pytest.mark.grid(21)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, jnp.bfloat16])
@pytest.mark.parametrize("case", CASES[1:3], ids=lambda case: "x".join(map(str, case.kernel)))
def test_ranks_of_long_windows(case: Case, dtype: Any, platform: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-90, 90, (2, *case.size, 3)).astype(dtype)
    where = rng.random(x.shape) < 0.7
    if dtype == np.float32:
        x[0, 3, 4, 1], x[1, 5, 5, 0], x[1, 2, 2, 2] = np.nan, -np.inf, np.inf

    want = over_windows(np.median, x, where, **case.window)
    want = (np.rint(want) if dtype == np.int16 else want).astype(dtype)

    def run(x: jax.Array, where: jax.Array) -> jax.Array:
        return jaxpool.median_pool(x, where=where, **case.window)

    assert_same(lowered(run, platform, x, where)(x, where), want, platform)


@pytest.mark.grid(3)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_gradient_of_a_long_median_goes_to_the_middle_two(platform: str) -> None:
    case = CASES[1]
    rng = np.random.default_rng(7)
    x = permutation((2, *case.size, 3), np.float32, rng)
    shape, walk = elements_of_windows(x, **case.window)
    g = permutation(shape, np.float32, rng)
    want = np.zeros(x.shape, np.float32)
    for out, places in walk:
        ordered = sorted(places, key=lambda place: x[place])
        for middle in ((len(ordered) - 1) // 2, len(ordered) // 2):
            want[ordered[middle]] += g[out] / 2

    def run(x: jax.Array, g: jax.Array) -> jax.Array:
        pool = lambda x: jaxpool.median_pool(x, **case.window)  # noqa: E731
        return jax.vjp(pool, x)[1](g)[0]

    assert_same(lowered(run, platform, x, g)(x, g), want, platform)


FOOTPRINT = np.hypot(*np.mgrid[-5:6, -4:5]) < 4.8
FOOTPRINT[2, 3] = False


@pytest.mark.grid(8)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("kind", ["median", "erosion", "random"])
def test_filters_of_many_taps(kind: str, platform: str) -> None:
    """Values and the gradient, which goes to the first tap with the value and its weight."""
    rng = np.random.default_rng(11)
    ties = kind != "random"  # a footprint's boxes have a different order
    x = (rng.integers(0, 40, (14, 17)) if ties else rng.permutation(14 * 17).reshape(14, 17)) * 1.0
    x = x.astype(np.float32)
    footprint = rng.random((9, 11)) < 0.6 if kind == "random" else FOOTPRINT
    structure = rng.integers(0, 9, footprint.shape).astype(np.float32)
    weights = -structure[footprint] if kind == "erosion" else np.zeros(footprint.sum(), np.float32)
    g = permutation(x.shape, np.float32, rng)

    def run(x: jax.Array, structure: jax.Array, g: jax.Array) -> Any:
        filters = {
            "median": lambda x, s: jaxpool.filters.median_filter(x, footprint=footprint),
            "random": lambda x, s: jaxpool.filters.minimum_filter(x, footprint=footprint),
            "erosion": lambda x, s: jaxpool.filters.grey_erosion(
                x, footprint=footprint, structure=s
            ),
        }
        y, pull = jax.vjp(filters[kind], x, structure)
        return y, *pull(g)

    y, dx, ds = np.zeros_like(x), np.zeros_like(x), np.zeros_like(structure)
    taps = np.argwhere(footprint)
    center = np.array(footprint.shape) // 2
    for i in np.ndindex(x.shape):
        places = [reflected(np.array(i) + tap - center, x.shape) for tap in taps]
        values = [x[place] + w for place, w in zip(places, weights, strict=True)]
        rank = len(values) // 2 if kind == "median" else 0
        y[i] = sorted(values)[rank]
        first = values.index(y[i])
        dx[places[first]] += g[i]
        ds[tuple(taps[first])] -= g[i] if kind == "erosion" else 0
    found = lowered(run, platform, x, structure, g)(x, structure, g)
    for got, want in zip(found, (y, dx, ds), strict=True):
        assert_same(got, want, (kind, platform))


def reflected(place: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the element at a position, with the array mirrored repeatedly about its edges."""
    period = place % (2 * np.array(shape))
    return tuple(int(min(q, 2 * size - 1 - q)) for q, size in zip(period, shape, strict=True))
