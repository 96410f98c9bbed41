"""Compares the features of pooling libraries; a run decides every cell of the table in docs.

    pip install ".[flax,haiku,equinox,peers]" keras
    python benchmarks/feature_table.py                       # print the table
    python benchmarks/feature_table.py --check docs/comparison.md     # fail if the table differs

A cell is "yes" if the library's call returns the right result, which a NumPy loop below computes.
It is "no" if the library has no such setting (the script reads its signature, so it notices a new
setting), raises, or returns another result; ``--why`` prints the reason. Results are for the
versions in the heading, on a CPU.
"""

import argparse
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
warnings.simplefilter("ignore")

import equinox as eqx  # noqa: E402
import flax.linen  # noqa: E402
import flax.linen.pooling as flax_pooling  # noqa: E402
import flax.nnx  # noqa: E402
import haiku as hk  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import jaxpool  # noqa: E402
import jaxpool.filters  # noqa: E402

Pairs = tuple[tuple[int, int], ...]

# Distinct unordered values, and sizes that differ on every axis, reveal swapped axes or pads.
X = np.random.default_rng(0).permutation(2 * 7 * 6 * 3).reshape(2, 7, 6, 3).astype(np.float32)


# --- expected results, by loops -------------------------------------------------------------------


class Pooling(NamedTuple):
    """A pooling of ``X``: settings of the two pooled axes; ``out`` is the right output size."""

    window: tuple[int, int]
    strides: tuple[int, int]
    out: tuple[int, int]
    padding: Pairs = ((0, 0), (0, 0))
    dilations: tuple[int, int] = (1, 1)


def taps(pooling: Pooling, o: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the positions that window ``o`` reads, in row-major order, including those outside."""
    return [
        tuple(  # pyright: ignore[reportReturnType]
            o[a] * pooling.strides[a] - pooling.padding[a][0] + t[a] * pooling.dilations[a]
            for a in range(2)
        )
        for t in np.ndindex(*pooling.window)
    ]


def elements(pooling: Pooling, o: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the positions of the real elements of window ``o``."""
    return [(h, w) for h, w in taps(pooling, o) if 0 <= h < X.shape[1] and 0 <= w < X.shape[2]]


def expected(pooling: Pooling, reduce: Callable[[np.ndarray, int], Any]) -> np.ndarray:
    """Return ``reduce(values of real elements, declared elements)`` of every window of ``X``."""
    y = np.empty((X.shape[0], *pooling.out, X.shape[3]))
    for n, c in product(range(X.shape[0]), range(X.shape[3])):
        for o in np.ndindex(*pooling.out):
            values = np.array([X[n, h, w, c] for h, w in elements(pooling, o)])
            y[n, *o, c] = reduce(values, declared(pooling, o))
    return y


def declared(pooling: Pooling, o: tuple[int, ...]) -> int:
    """Return the number of elements of window ``o`` without the overhang of ceil rounding."""
    ends = [X.shape[1 + a] + pooling.padding[a][1] for a in range(2)]
    return sum(all(q[a] < ends[a] for a in range(2)) for q in taps(pooling, o))


def expected_max(pooling: Pooling) -> np.ndarray:
    return expected(pooling, lambda values, _: values.max())


def expected_argmax(pooling: Pooling) -> np.ndarray:
    """Return the index of each maximum in its flattened plane."""
    y = np.empty((X.shape[0], *pooling.out, X.shape[3]), np.int64)
    for n, c in product(range(X.shape[0]), range(X.shape[3])):
        for o in np.ndindex(*pooling.out):
            h, w = max(elements(pooling, o), key=lambda q: X[n, q[0], q[1], c])
            y[n, *o, c] = h * X.shape[2] + w
    return y


def gather_at_maxima(pooling: Pooling, t: np.ndarray) -> np.ndarray:
    """Return the entries of ``t``, an array of the shape of ``X``, at the maxima of the windows."""
    n, c = np.arange(X.shape[0])[:, None, None, None], np.arange(X.shape[3])
    return t.reshape(X.shape[0], -1, X.shape[3])[n, expected_argmax(pooling), c]


def scatter_to_maxima(pooling: Pooling, g: np.ndarray | float) -> np.ndarray:
    """Scatter-add ``g``, with one entry per window, to the elements of the maxima."""
    flat = np.zeros((X.shape[0], X.shape[1] * X.shape[2], X.shape[3]))
    indices = expected_argmax(pooling)
    for (n, h, w, c), value in np.ndenumerate(np.broadcast_to(g, indices.shape)):
        flat[n, indices[n, h, w, c], c] += value
    return flat.reshape(X.shape)


# --- the libraries -------------------------------------------------------------------------------

# Names of a setting in any library. If the column of a library says that it has no such setting, no
# function of it may have a parameter with one of these names.
NAMES = {
    "padding": ("padding", "pads"),
    "dilations": ("dilation", "dilations", "window_dilation", "kernel_dilation"),
    "rounding": ("rounding", "rounding_type", "ceil_mode", "use_ceil"),
    "count_include_pad": ("count_include_pad", "exclude_pad"),
    "divisor_override": ("divisor_override", "divisor"),
    "where": ("where", "mask"),
    "data_format": ("data_format", "channel_axis"),
    "weights": ("weights", "weight"),
}

# Parts of a function's names in any library, in lower case without underscores. If the column of a
# library says that it has no such function, none of its public names may contain them.
FUNCTIONS = {
    "blur_pool": ("blurpool",),
    "max_blur_pool": ("blurpool",),
    "var_pool": ("varpool", "variancepool"),
    "std_pool": ("stdpool", "deviationpool"),
    "median_pool": ("medianpool",),
    "quantile_pool": ("quantilepool", "percentilepool", "rankpool"),
    "roi_align": ("roialign",),
    "roi_pool": ("roipool",),
    "ps_roi_align": ("psroialign",),
    "ps_roi_pool": ("psroipool",),
    "maximum_filter": ("maximumfilter", "maxfilter"),
    "uniform_filter": ("uniformfilter",),
    "median_filter": ("medianfilter", "medianblur"),
    "percentile_filter": ("percentilefilter", "rankfilter"),
    "grey_dilation": ("greydilation", "greyscaledilation", "dilation2d"),
    "binary_erosion": ("binaryerosion", "erosion2d"),
}


class Missing(Exception):
    """Raised if the library has no such setting or function."""


class Library:
    """The calls of one library. Arrays have channels last unless a method says otherwise."""

    title: str
    package: str
    modules: tuple[Any, ...]
    max_call: Callable[..., Any]
    avg_call: Callable[..., Any]

    def version(self) -> str:
        return version(self.package)

    def max(self, x: Any, window: Any, strides: Any, padding: Any = "VALID", **settings: Any):
        raise NotImplementedError

    def avg(self, x: Any, window: Any, strides: Any, padding: Any = "VALID", **settings: Any):
        raise NotImplementedError

    def min(self, x: Any, window: Any, strides: Any):
        raise Missing("no function for minima")

    def argmax(self, x: Any, window: Any, strides: Any) -> tuple[Any, Any]:
        raise Missing("no function that returns indices")

    def bare(self, x: Any, window: Any, strides: Any) -> Any:
        """Return the maximum of ``x`` without adding or merging batch axes."""
        return self.max(x, window, strides)

    def product(self, x: Any, window: Any, strides: Any) -> Any:
        """Return a pool with a reduction by the caller; multiplication represents all of them."""
        raise Missing("no pool of a reduction")

    def unpool(self, values: Any, indices: Any, shape: tuple[int, int]) -> Any:
        raise Missing("no function that takes indices back")

    def adaptive_avg(self, x: Any, sizes: tuple[int, int]) -> Any:
        raise Missing("no adaptive pool")

    def named(self, name: str) -> Callable[..., Any]:
        """Return a function whose name differs between libraries; raise Missing if none exists."""
        for part in FUNCTIONS[name]:
            public = (known for module in self.modules for known in dir(module))
            found = [known for known in public if part in known.replace("_", "").lower()]
            assert not found, f"{self.title} has {found}: bring this script up to date"
        raise Missing(f"no function like {name}")

    def lacks(self, call: Callable[..., Any], settings: Iterable[str]) -> None:
        """Raise Missing if ``settings`` is not empty, after checking that ``call`` lacks them."""
        for setting in settings:
            found = set(NAMES[setting]) & set(inspect.signature(call).parameters)
            assert not found, f"{self.title} takes {found}: bring this script up to date"
            raise Missing(f"no setting for {setting}")

    # Derivatives in a JAX library. `f` accepts and returns arrays of the library.

    def gradient(self, f: Callable[[Any], Any], x: np.ndarray) -> Any:
        return jax.grad(lambda x: f(x).sum())(jnp.asarray(x))

    def directional(self, f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray) -> Any:
        return jax.jvp(f, (jnp.asarray(x),), (jnp.asarray(t),))[1]

    def second(self, f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray) -> Any:
        """Return the derivative along ``t`` of the gradient of the sum of squares of ``f``."""
        return self.directional(jax.grad(lambda x: (f(x) ** 2).sum()), x, t)

    def array(self, x: np.ndarray, dtype: str) -> Any:
        return jnp.asarray(x, dtype)


PRODUCT = jaxpool.Reduction("product of my own", jax.lax.mul, 1)


class Jaxpool(Library):
    title = package = "jaxpool"

    def version(self):
        return jaxpool.__version__

    def max(self, x, window, strides, padding="VALID", **settings):
        return jaxpool.max_pool(x, window, strides, padding, **settings)

    def avg(self, x, window, strides, padding="VALID", **settings):
        return jaxpool.avg_pool(x, window, strides, padding, **settings)

    def min(self, x, window, strides):
        return jaxpool.min_pool(x, window, strides)

    def argmax(self, x, window, strides):
        return jaxpool.max_pool_with_argmax(x, window, strides)

    def product(self, x, window, strides):
        return jaxpool.pool(x, PRODUCT, window, strides)

    def unpool(self, values, indices, shape):
        return jaxpool.max_unpool(values, indices, shape)

    def adaptive_avg(self, x, sizes):
        return jaxpool.adaptive_avg_pool(x, sizes)

    def named(self, name):
        return getattr(jaxpool if hasattr(jaxpool, name) else jaxpool.filters, name)


class Flax(Library):
    title = package = "flax"
    modules = (flax.linen, flax.nnx)
    max_call, avg_call = staticmethod(flax_pooling.max_pool), staticmethod(flax_pooling.avg_pool)

    def max(self, x, window, strides, padding="VALID", **settings):
        self.lacks(self.max_call, settings)
        return self.max_call(x, window, strides, padding)

    def avg(self, x, window, strides, padding="VALID", count_include_pad=True, **settings):
        self.lacks(self.avg_call, settings)
        return self.avg_call(x, window, strides, padding, count_include_pad)

    def min(self, x, window, strides):
        return flax_pooling.min_pool(x, window, strides)

    def product(self, x, window, strides):
        return flax_pooling.pool(x, 1.0, jax.lax.mul, window, strides, "VALID")


class Haiku(Library):
    title, package = "haiku", "dm-haiku"
    modules = (hk,)
    max_call, avg_call = staticmethod(hk.max_pool), staticmethod(hk.avg_pool)

    def max(self, x, window, strides, padding="VALID", data_format="channels_last", **settings):
        return self._pool(self.max_call, x, window, strides, padding, data_format, settings)

    def avg(self, x, window, strides, padding="VALID", data_format="channels_last", **settings):
        return self._pool(self.avg_call, x, window, strides, padding, data_format, settings)

    def _pool(self, call, x, window, strides, padding, data_format, settings):
        """Pool with windows and strides that have an entry for every axis of the array."""
        self.lacks(call, settings)
        leading = (1,) * (x.ndim - len(window) - 1)
        if data_format == "channels_first":
            return call(
                x, (*leading, 1, *window), (*leading, 1, *strides), padding, -1 - len(window)
            )
        return call(x, (*leading, *window, 1), (*leading, *strides, 1), padding, -1)


class Equinox(Library):
    title = package = "equinox"
    modules = (eqx.nn,)

    def max(self, x, window, strides, padding=0, rounding="floor", **settings):
        return self._pool(eqx.nn.MaxPool2d, x, window, strides, padding, rounding, settings)

    def avg(self, x, window, strides, padding=0, rounding="floor", **settings):
        return self._pool(eqx.nn.AvgPool2d, x, window, strides, padding, rounding, settings)

    def min(self, x, window, strides):
        return self._reduce(jnp.inf, jax.lax.min, x, window, strides)

    def product(self, x, window, strides):
        return self._reduce(1.0, jax.lax.mul, x, window, strides)

    def _reduce(self, identity, combine, x, window, strides):
        return self._batched(eqx.nn.Pool(identity, combine, len(window), window, strides), x)

    def adaptive_avg(self, x, sizes):
        return self._batched(eqx.nn.AdaptiveAvgPool2d(sizes), x)

    def _batched(self, pool, x):
        return jnp.moveaxis(jax.vmap(pool)(jnp.moveaxis(jnp.asarray(x), -1, -3)), -3, -1)

    def bare(self, x, window, strides):
        return jnp.moveaxis(eqx.nn.MaxPool2d(window, strides)(jnp.moveaxis(x, -1, -3)), -3, -1)

    def _pool(self, layer, x, window, strides, padding, rounding, settings):
        """Pool with a layer, which accepts one image, channels first; ``vmap`` adds the batch."""
        self.lacks(layer, settings)
        pool = layer(window, strides, padding, use_ceil=rounding != "floor")
        pool = pool if x.ndim != 4 else jax.vmap(pool)
        return jnp.moveaxis(pool(jnp.moveaxis(jnp.asarray(x), -1, -3)), -3, -1)


class Keras(Library):
    title = package = "keras"
    modules = (keras.layers, keras.ops, keras.ops.image)
    max_call, avg_call = staticmethod(keras.ops.max_pool), staticmethod(keras.ops.average_pool)

    def max(self, x, window, strides, padding="VALID", data_format="channels_last", **settings):
        self.lacks(self.max_call, settings)
        return self.max_call(x, window, strides, self._word(padding), data_format)

    def avg(self, x, window, strides, padding="VALID", data_format="channels_last", **settings):
        self.lacks(self.avg_call, settings)
        return self.avg_call(x, window, strides, self._word(padding), data_format)

    def adaptive_avg(self, x, sizes):
        return keras.ops.adaptive_average_pool(x, sizes, data_format="channels_last")

    def _word(self, padding):
        return padding.lower() if isinstance(padding, str) else padding


class Torch(Library):
    title = package = "torch"
    modules = (torch, torch.nn, functional)
    max_call, avg_call = torch.nn.MaxPool2d, torch.nn.AvgPool2d

    def max(self, x, window, strides, padding=0, dilations=1, rounding="floor", **settings):
        self.lacks(self.max_call, settings)
        pads = self._pads(padding)
        ceil = rounding != "floor"
        y = functional.max_pool2d(self._first(x), window, strides, pads, dilations, ceil)
        return self._last(y)

    def avg(self, x, window, strides, padding=0, **settings):
        count = settings.pop("count_include_pad", True)
        divisor = settings.pop("divisor_override", None)
        self.lacks(self.avg_call, settings)
        pads = self._pads(padding)
        y = functional.avg_pool2d(self._first(x), window, strides, pads, False, count, divisor)
        return self._last(y)

    def argmax(self, x, window, strides):
        x = self._first(x)
        values, indices = functional.max_pool2d(x, window, strides, return_indices=True)
        return self._last(values), self._last(indices)

    def unpool(self, values, indices, shape):
        first = self._first(values), self._first(indices)
        return self._last(
            functional.max_unpool2d(*first, PLAIN.window, PLAIN.strides, (0, 0), shape)
        )

    def adaptive_avg(self, x, sizes):
        return self._last(functional.adaptive_avg_pool2d(self._first(x), sizes))

    def _first(self, x):
        return torch.movedim(torch.as_tensor(x), -1, -3)

    def _last(self, y):
        return torch.movedim(y, -3, -1)

    def _pads(self, padding):
        """Return one int per axis if both ends are equal, else the padding unchanged."""
        if isinstance(padding, tuple) and all(low == high for low, high in padding):
            return tuple(low for low, _ in padding)
        return padding

    def gradient(self, f, x):
        return torch.func.grad(lambda x: f(x).sum())(torch.as_tensor(x))

    def directional(self, f, x, t):
        return torch.func.jvp(f, (torch.as_tensor(x),), (torch.as_tensor(t),))[1]

    def second(self, f, x, t):
        return self.directional(torch.func.grad(lambda x: (f(x) ** 2).sum()), x, t)

    def array(self, x, dtype):
        return torch.as_tensor(x).to(getattr(torch, dtype))


LIBRARIES = (Jaxpool(), Flax(), Haiku(), Equinox(), Keras(), Torch())


# --- the claims: each returns whether a library's result is right ---------------------------------

PLAIN = Pooling((3, 2), (2, 3), (3, 2))
DILATED = Pooling((3, 2), (2, 1), (2, 3), dilations=(2, 3))
T = np.roll(X, 5).astype(np.float32) / 8  # a tangent


def same(got: Any, want: Any) -> bool:
    got = np.asarray(got, np.float64)
    return got.shape == np.shape(want) and bool(np.allclose(got, want, rtol=1e-6))


def basic_max(library: Library) -> Callable[[Any], Any]:
    return lambda x: library.max(x, PLAIN.window, PLAIN.strides)


def uneven_padding(library: Library) -> bool:
    pooling = Pooling((3, 2), (2, 1), (4, 6), ((2, 0), (0, 1)))
    return same(
        library.max(X, pooling.window, pooling.strides, pooling.padding), expected_max(pooling)
    )


def same_upper(library: Library) -> bool:
    pooling = Pooling((4, 3), (2, 3), (4, 2), ((1, 2), (0, 0)))
    return same(library.max(X, pooling.window, pooling.strides, "SAME"), expected_max(pooling))


def same_lower(library: Library) -> bool:
    pooling = Pooling((4, 3), (2, 3), (4, 2), ((2, 1), (0, 0)))
    return same(
        library.max(X, pooling.window, pooling.strides, "SAME_LOWER"), expected_max(pooling)
    )


def ceil_rounding(library: Library) -> bool:
    """Check that axis 0 drops a window that starts in the high padding; axis 1 has overhang."""
    pooling = Pooling((3, 3), (4, 2), (2, 3), ((1, 1), (0, 0)))
    settings = {"padding": pooling.padding, "rounding": "ceil_torch"}
    return same(library.max(X, pooling.window, pooling.strides, **settings), expected_max(pooling))


def dilated(library: Library) -> bool:
    y = library.max(X, DILATED.window, DILATED.strides, dilations=DILATED.dilations)
    return same(y, expected_max(DILATED))


def dilated_gradient(library: Library) -> bool:
    settings = {"dilations": DILATED.dilations}
    g = library.gradient(lambda x: library.max(x, DILATED.window, DILATED.strides, **settings), X)
    return same(g, scatter_to_maxima(DILATED, 1))


def indices(library: Library) -> bool:
    values, where = library.argmax(X, PLAIN.window, PLAIN.strides)
    return same(values, expected_max(PLAIN)) and same(where, expected_argmax(PLAIN))


def indices_gradient(library: Library) -> bool:
    g = library.gradient(lambda x: library.argmax(x, PLAIN.window, PLAIN.strides)[0], X)
    return same(g, scatter_to_maxima(PLAIN, 1))


def unpooled(library: Library) -> bool:
    """Check unpooling: maxima at their elements, zeros elsewhere; a shared argmax counts once."""
    y = library.unpool(*library.argmax(X, PLAIN.window, PLAIN.strides), X.shape[1:3])
    return same(y, np.where(scatter_to_maxima(PLAIN, 1) > 0, X, 0))


def adaptive_average(library: Library) -> bool:
    """Check adaptive averages; window i of O over L is [i * L // O, ceil((i + 1) * L / O)).

    O may exceed L.
    """
    sizes = (3, 8)
    want = X.astype(np.float64)
    for axis, size in zip((1, 2), sizes, strict=True):
        length = X.shape[axis]
        ends = [(i * length // size, -((-(i + 1) * length) // size)) for i in range(size)]
        parts = [want.take(range(*end), axis).mean(axis, keepdims=True) for end in ends]
        want = np.concatenate(parts, axis)
    return same(library.adaptive_avg(X, sizes), want)


def mask(library: Library) -> bool:
    allowed = np.roll(X, 3) % 4 > 0
    y = library.max(X, PLAIN.window, PLAIN.strides, where=allowed)
    return same(y, library.max(np.where(allowed, X, -np.inf), PLAIN.window, PLAIN.strides))


def minima(library: Library) -> bool:
    y = library.min(X, PLAIN.window, PLAIN.strides)
    return same(y, expected(PLAIN, lambda values, _: values.min()))


def near_one() -> np.ndarray:
    """Return distinct numbers whose products neither underflow nor overflow."""
    return (1 + X / X.size).astype(np.float32)


def custom_reduction(library: Library) -> bool:
    want = expected(PLAIN, lambda values, _: (1 + values / X.size).prod())
    return same(library.product(near_one(), PLAIN.window, PLAIN.strides), want)


def custom_reduction_gradient(library: Library) -> bool:
    """Check that the derivative of a product by an element is the product over that element."""
    g = library.gradient(lambda x: library.product(x, PLAIN.window, PLAIN.strides), near_one())
    x, want = near_one().astype(np.float64), np.zeros(X.shape)
    for o in np.ndindex(*PLAIN.out):
        rows, columns = zip(*elements(PLAIN, o), strict=True)
        in_window = x[:, rows, columns]
        want[:, rows, columns] += in_window.prod(axis=1, keepdims=True) / in_window
    return same(g, want)


def both_divisors(library: Library) -> bool:
    pooling = Pooling((3, 2), (2, 2), (4, 4), ((1, 1), (1, 1)))
    call = [pooling.window, pooling.strides, pooling.padding]
    with_pads = expected(pooling, lambda values, declared: values.sum() / declared)
    without = expected(pooling, lambda values, _: values.mean())
    return same(library.avg(X, *call, count_include_pad=True), with_pads) and same(
        library.avg(X, *call, count_include_pad=False), without
    )


def divisor(library: Library) -> bool:
    y = library.avg(X, PLAIN.window, PLAIN.strides, divisor_override=5)
    return same(y, expected(PLAIN, lambda values, _: values.sum() / 5))


def both_layouts(library: Library) -> bool:
    first = np.moveaxis(X, -1, 1)
    y = library.max(first, PLAIN.window, PLAIN.strides, data_format="channels_first")
    z = library.max(X, PLAIN.window, PLAIN.strides, data_format="channels_last")
    want = expected_max(PLAIN)
    return same(y, np.moveaxis(want, -1, 1)) and same(z, want)


def batch_axes(library: Library) -> bool:
    want = expected_max(PLAIN)
    return all(
        same(library.bare(library.array(x, "float32"), PLAIN.window, PLAIN.strides), y)
        for x, y in ((X[0], want[0]), (X, want), (X[None], want[None]))
    )


def bfloat16_average(library: Library) -> bool:
    ones = library.array(np.ones((1, 32, 32, 1)), "bfloat16")
    y = library.avg(ones, (32, 32), (32, 32))
    return float(y.sum()) == 1


def int8_average(library: Library) -> bool:
    hundreds = library.array(np.full((1, 2, 2, 1), 100), "int8")
    y = library.avg(hundreds, (2, 2), (2, 2))
    return float(y.sum()) == 100


def refuses_a_window_that_does_not_fit(library: Library) -> bool:
    basic_max(library)(X)
    try:
        y = library.max(X, (8, 2), (2, 2))
    except Exception:
        return True
    raise AssertionError(f"returned an array of shape {tuple(y.shape)}")


def nan_gradient(library: Library) -> bool:
    """Check that NaN wins its window and receives the gradient, instead of a smaller number."""
    x = np.where(X == X[0, 0, 1, 0], np.nan, X)[:1, :3, :2, :1]
    pool = lambda x: library.max(x, (3, 2), (1, 1))  # noqa: E731
    assert np.isnan(np.asarray(pool(library.array(x, "float32")))).all(), "NaN was dropped"
    g = np.asarray(library.gradient(pool, x.astype(np.float32)))
    return bool(g[0, 0, 1, 0] == 1 and np.nansum(g) == 1)


def forward_mode(library: Library) -> bool:
    return same(library.directional(basic_max(library), X, T), gather_at_maxima(PLAIN, T))


def second_order(library: Library) -> bool:
    got = library.second(basic_max(library), X, T)
    return same(got, scatter_to_maxima(PLAIN, 2 * gather_at_maxima(PLAIN, T)))


# --- statistics and blurs -------------------------------------------------------------------------


def weighted_average(library: Library) -> bool:
    weights = (1 + np.roll(X, 7) % 5).astype(np.float32)
    y = library.avg(X, PLAIN.window, PLAIN.strides, weights=weights)
    want = np.empty(y.shape)
    for n, *o, c in np.ndindex(*want.shape):
        at = (n, *zip(*elements(PLAIN, tuple(o)), strict=True), c)
        want[n, *o, c] = (weights[at] * X[at]).sum() / weights[at].sum()
    return same(y, want)


def variances(library: Library) -> bool:
    variance = library.named("var_pool")(X, PLAIN.window, PLAIN.strides)
    deviation = library.named("std_pool")(X, PLAIN.window, PLAIN.strides)
    return same(variance, expected(PLAIN, lambda values, _: values.var())) and same(
        deviation, expected(PLAIN, lambda values, _: values.std())
    )


def medians_and_quantiles(library: Library) -> bool:
    medians = library.named("median_pool")(X, PLAIN.window, PLAIN.strides)
    quantiles = library.named("quantile_pool")(X, 0.3, PLAIN.window, PLAIN.strides)
    return same(medians, expected(PLAIN, lambda values, _: np.median(values))) and same(
        quantiles, expected(PLAIN, lambda values, _: np.quantile(values, 0.3))
    )


def blurs(library: Library) -> bool:
    """Check [1, 2, 1] / 4 along both axes at stride 2, mirrored borders; also after a maximum."""
    blurred = library.named("blur_pool")(X, (3, 3), 2, 1)
    blurred_maxima = library.named("max_blur_pool")(X, (2, 2), 2)
    maxima = expected_max(Pooling((2, 2), (1, 1), (6, 5)))
    return same(blurred, blur_at_stride_2(X)) and same(blurred_maxima, blur_at_stride_2(maxima))


def blur_at_stride_2(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    weights = np.outer((1, 2, 1), (1, 2, 1)) / 16
    shifted = (
        weights[t] * padded[:, t[0] : t[0] + x.shape[1], t[1] : t[1] + x.shape[2]]
        for t in np.ndindex(3, 3)
    )
    return sum(shifted)[:, ::2, ::2]


# --- regions --------------------------------------------------------------------------------------

BOXES = np.array([[1, 1, 1, 4, 5], [0, 0, 2, 3, 4]], np.float32)  # image, x1, y1, x2, y2
BINS = (2, 3)


def aligned_regions(library: Library) -> bool:
    y = library.named("roi_align")(X, BOXES, BINS, sampling_ratio=2, aligned=True)
    return same(y, of_bins(BINS, X.shape[3], lambda *bin: mean_of_samples(*bin)))


def pooled_regions(library: Library) -> bool:
    y = library.named("roi_pool")(X, BOXES, BINS)
    return same(y, of_bins(BINS, X.shape[3], lambda *bin: elements_of_bin(*bin, 1).max()))


def position_sensitive_regions(library: Library) -> bool:
    """Check that bin q of a row of three reads channel q; the last end is exclusive."""
    bins = (1, 3)
    aligned = library.named("ps_roi_align")(X, BOXES, bins, sampling_ratio=2)
    pooled = library.named("ps_roi_pool")(X, BOXES, bins)
    return same(
        aligned, of_bins(bins, 1, lambda box, b, o, _: mean_of_samples(box, b, o, o[1]))
    ) and (
        same(
            pooled,
            of_bins(bins, 1, lambda box, b, o, _: elements_of_bin(box, b, o, o[1], 0).mean()),
        )
    )


def of_bins(bins: tuple[int, int], channels: int, reduce: Callable[..., Any]) -> np.ndarray:
    """Return ``reduce(box, bins, bin, channel)`` of every bin of every box."""
    y = np.empty((len(BOXES), *bins, channels))
    for k, p, q, c in np.ndindex(*y.shape):
        y[k, p, q, c] = reduce(BOXES[k], bins, (p, q), c)
    return y


def mean_of_samples(box: np.ndarray, bins: tuple[int, int], o: tuple[int, int], c: int) -> float:
    """Return the mean of two samples of a bin along each axis; element i is at i + 1/2."""
    image, starts, ends = int(box[0]), box[[2, 1]], box[[4, 3]]
    bin_size = (ends - starts) / bins
    samples = []
    for offset in product((0.25, 0.75), repeat=2):
        position = np.clip(
            starts + (o + np.array(offset)) * bin_size - 0.5, 0, (X.shape[1] - 1, X.shape[2] - 1)
        )
        low = np.minimum(position.astype(int), (X.shape[1] - 2, X.shape[2] - 2))
        corners, fraction = X[image, low[0] : low[0] + 2, low[1] : low[1] + 2, c], position - low
        samples.append((1 - fraction[0], fraction[0]) @ corners @ (1 - fraction[1], fraction[1]))
    return float(np.mean(samples))


def elements_of_bin(
    box: np.ndarray, bins: tuple[int, int], o: tuple[int, int], c: int, last: int
) -> np.ndarray:
    """Return the elements of a bin; ``last`` is 1 if the box includes its last end."""
    image, starts, ends = int(box[0]), box[[2, 1]], box[[4, 3]] + last
    bin_size = (ends - starts) / bins
    low = (starts + np.floor(o * bin_size)).astype(int)
    high = (starts + np.ceil((np.array(o) + 1) * bin_size)).astype(int)
    high = np.minimum(high, np.array(X.shape[1:3]) - (1 - last))
    return X[image, low[0] : high[0], low[1] : high[1], c]


# --- filters --------------------------------------------------------------------------------------

PLANE = X[0, :, :, 0]
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


def of_neighbors(plane: np.ndarray, footprint: np.ndarray, reduce: Callable[..., Any]):
    """Return ``reduce`` of the elements under a 3 x 3 footprint; borders reflect about the edge."""
    padded = np.pad(plane.astype(np.float64), 1, mode="symmetric")
    y = np.empty(plane.shape)
    for h, w in np.ndindex(*plane.shape):
        y[h, w] = reduce(padded[h : h + 3, w : w + 3][footprint])
    return y


def filtered(library: Library) -> bool:
    full_footprint = np.ones((3, 3), bool)
    maxima = library.named("maximum_filter")(PLANE, footprint=CROSS)
    means = library.named("uniform_filter")(PLANE, 3)
    medians = library.named("median_filter")(PLANE, footprint=CROSS)
    upper = library.named("percentile_filter")(PLANE, 75, 3)
    return (
        same(maxima, of_neighbors(PLANE, CROSS, np.max))
        and same(means, of_neighbors(PLANE, full_footprint, np.mean))
        and same(medians, of_neighbors(PLANE, CROSS, np.median))
        and same(upper, of_neighbors(PLANE, full_footprint, lambda taps: np.sort(taps)[6]))
    )


def morphology(library: Library) -> bool:
    """Check a dilation with a symmetric structure, and an erosion of a mask with False outside."""
    structure = np.array([[1, 2, 1], [2, 5, 2], [1, 2, 1]], np.float32)
    dilated = library.named("grey_dilation")(PLANE, structure=structure)
    flat = structure.astype(np.float64).ravel()
    full_footprint = np.ones((3, 3), bool)
    mask = PLANE > 60
    eroded = library.named("binary_erosion")(mask, structure=CROSS)
    interior = np.zeros(mask.shape, bool)
    interior[1:-1, 1:-1] = True
    all_set = of_neighbors(mask, CROSS, np.min) * interior
    return same(
        dilated, of_neighbors(PLANE, full_footprint, lambda taps: (taps + flat).max())
    ) and same(eroded, all_set)


CLAIMS: dict[str, Callable[[Library], bool]] = {
    "uneven padding, `(low, high)` an axis": uneven_padding,
    "`SAME` padding": same_upper,
    "`SAME_LOWER` padding": same_lower,
    "the ceil rounding of PyTorch and ONNX": ceil_rounding,
    "dilated windows": dilated,
    "gradient of dilated windows": dilated_gradient,
    "index of each maximum": indices,
    "gradient through the call that gives indices": indices_gradient,
    "maxima put back at their indices": unpooled,
    "adaptive average as in PyTorch and OpenVINO": adaptive_average,
    "mask of elements to leave out": mask,
    "minimum": minima,
    "a reduction of your own": custom_reduction,
    "gradient of a reduction of your own": custom_reduction_gradient,
    "average with and without padding in its divisor": both_divisors,
    "divisor of your own": divisor,
    "weighted average, of a weight for each element": weighted_average,
    "variance and standard deviation": variances,
    "median and quantiles": medians_and_quantiles,
    "blur pool, alone and after a maximum": blurs,
    "regions: RoIAlign": aligned_regions,
    "regions: RoIPool": pooled_regions,
    "position-sensitive regions, aligned and pooled": position_sensitive_regions,
    "filters of `scipy.ndimage`: maximum, mean, median, percentile": filtered,
    "grey and binary morphology of `scipy.ndimage`": morphology,
    "channels last and channels first": both_layouts,
    "any number of batch axes, or none, in one call": batch_axes,
    "bfloat16 average of 32x32 ones is 1": bfloat16_average,
    "int8 average of four 100s is 100": int8_average,
    "a window that does not fit is an error": refuses_a_window_that_does_not_fit,
    "the gradient of a NaN maximum goes to the NaN": nan_gradient,
    "forward-mode derivative": forward_mode,
    "second-order derivative": second_order,
}


# --- the table -----------------------------------------------------------------------------------


def verdict(claim: Callable[[Library], bool], library: Library) -> tuple[bool, str]:
    """Return whether the claim is true, and if not, a short reason."""
    try:
        return (True, "") if claim(library) else (False, "wrong answer")
    except Exception as error:  # any exception of a library is its result
        reason = str(error).strip().split("\n")[0][:90]
        return False, f"{type(error).__name__}: {reason}"


def table(verdicts: dict[str, list[bool]]) -> str:
    """Return the Markdown table of docs/comparison.md."""
    titles = [f"{library.title} {library.version()}" for library in LIBRARIES]
    lines = ["| " + " | ".join(["", *titles]) + " |", "|---" * (len(titles) + 1) + "|"]
    for claim, row in verdicts.items():
        lines.append("| " + " | ".join([claim, *("yes" if ok else "no" for ok in row)]) + " |")
    return "\n".join(lines)


def cells_of(markdown: str) -> dict[str, list[str]]:
    """Return claim -> cells of the first table that has one of our claims; versions are ignored."""
    rows = [line.strip("|").split("|") for line in markdown.splitlines() if line.startswith("|")]
    stripped = [[cell.strip() for cell in row] for row in rows]
    return {row[0]: row[1:] for row in stripped if row[0] in CLAIMS}


def main() -> int:
    parser = argparse.ArgumentParser(description="What pools can do, by library.")
    parser.add_argument("--why", action="store_true", help="print the reason of every no")
    parser.add_argument("--check", type=Path, help="compare with the table in this file")
    options = parser.parse_args()
    results = {
        text: [verdict(claim, library) for library in LIBRARIES] for text, claim in CLAIMS.items()
    }
    printed = table({text: [ok for ok, _ in row] for text, row in results.items()})
    print(printed)
    if options.why:
        for text, row in results.items():
            for library, (ok, reason) in zip(LIBRARIES, row, strict=True):
                if not ok:
                    print(f"{library.title}: {text}: {reason}")
    if options.check and cells_of(options.check.read_text()) != cells_of(printed):
        print(f"\n{options.check} differs from the table above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
