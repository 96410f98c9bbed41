"""Random calls of filters, and the results of scipy.ndimage.

Calls have small arrays of one to three axes and all dtypes of both libraries. Windows may exceed
the array. NaN and integer overflow are not drawn, since scipy's result then depends on the C
compiler.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from peers import require

require("scipy")
from scipy import ndimage  # noqa: E402  (only if it is there)

MODES = ("reflect", "mirror", "nearest", "wrap", "constant", "grid-mirror", "grid-wrap",
         "grid-constant")  # fmt: skip
DTYPES = ("float32", "float32", "uint8", "int8", "int16", "uint16", "int32", "uint32", "bool")

EXTREMES = ("maximum_filter", "minimum_filter")
ONE_AXIS = ("maximum_filter1d", "minimum_filter1d", "uniform_filter1d")
RANKS = ("median_filter", "percentile_filter", "rank_filter")
GREY = ("grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "white_tophat",
        "black_tophat", "morphological_gradient", "morphological_laplace")  # fmt: skip
BINARY = ("binary_erosion", "binary_dilation", "binary_opening", "binary_closing")
FILTERS = (*EXTREMES, *ONE_AXIS, "uniform_filter", *RANKS, *GREY, *BINARY, "generic_filter")

LEAST = 20
"""Smallest integers if a structure is subtracted, so that no difference overflows."""


@dataclass
class Call:
    """A call of one filter.

    Attributes:
      name: the filter.
      x: the array.
      arguments: the positional arguments after it.
      keywords: the keyword arguments.
    """

    name: str
    x: np.ndarray
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [f"np.array({self.x.tolist()}, {self.x.dtype.name!r})", *map(repr, self.arguments)]
        given += [f"{key}={value!r}" for key, value in self.keywords.items()]
        return f"{self.name}({', '.join(given)})"

    def run(self, module: Any, x: Any, **besides: Any) -> Any:
        """Return the result of the filter of this name in ``module`` for ``x``."""
        return getattr(module, self.name)(x, *self.arguments, **self.keywords, **besides)

    def expected(self, x: np.ndarray) -> np.ndarray:
        """Return scipy's result.

        Binary filters use scipy's direct algorithm: the fast one of scipy 1.18 writes out of bounds
        for some structures that are off centre. Ranks of a vector are those of a plane of one row:
        the fast algorithm for one axis also reads the holes of a footprint.
        """
        if self.name in RANKS and x.ndim == 1:
            row = replace(self, keywords={**self.keywords, "axes": [1]})
            return row.run(ndimage, x[None])[0]
        return self.run(ndimage, x, **({"brute_force": True} if self.name in BINARY else {}))

    def arrays(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return ``x``, followed by arrays of its elements in other orders."""
        others = [rng.permutation(self.x.ravel()).reshape(self.x.shape) for _ in range(count - 1)]
        return np.stack([self.x, *others])


def random_call(rng: np.random.Generator, name: str | None = None) -> Call:
    """Return a random call of ``name``, or of any filter."""
    name = str(rng.choice(FILTERS)) if name is None else name
    x = _array(rng, name)
    if name in BINARY:
        return Call(name, x, (), _binary(rng, x))
    if name in ONE_AXIS:
        size = int(rng.integers(1, 8))
        words = {"size": size, "axis": int(rng.integers(-x.ndim, x.ndim)), **_ends(rng, x)}
        words["origin"] = _origin(rng, size)
        return Call(name, x, (), words)
    call = Call(name, x, (), _neighborhood(rng, x, name))
    if name == "rank_filter":
        taps = _taps(call.keywords, x.ndim)
        call.arguments = (int(rng.integers(-taps, taps)),)
    elif name == "percentile_filter":
        call.arguments = (float(rng.choice([0, 10, 25.5, 50, 99, 100, -20])),)
    elif name == "generic_filter":
        call.arguments = (_spread,)
    return call


def _spread(taps: Any) -> Any:
    """Return the range of a window, for arrays of NumPy and of JAX."""
    return taps.max() - taps.min()


def _array(rng: np.random.Generator, name: str) -> np.ndarray:
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if name in GREY[-2:] or (name in GREY and dtype.kind == "b"):
        dtype = np.dtype("float32") if dtype.kind == "b" else dtype
    if dtype.kind == "f":
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4)
        return np.round(x, 1).astype(dtype) if rng.random() < 0.3 else x.astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.3, 0.8])
    few, least = rng.random() < 0.5, LEAST if name in GREY else 0
    return rng.integers(least, least + (6 if few else 80), shape).astype(dtype)


def _neighborhood(rng: np.random.Generator, x: np.ndarray, name: str) -> dict[str, Any]:
    axes = sorted(int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)])
    sizes = [int(n) for n in rng.integers(1, 6, len(axes))]
    words = _ends(rng, x, LEAST if name in GREY else 0)
    words["origin"] = [_origin(rng, size) for size in sizes]
    if len(axes) < x.ndim or rng.random() < 0.5:
        words["axes"] = axes
    kind = rng.random()
    if name == "uniform_filter" or kind < 0.4:
        words["size"] = sizes
        if name in (*EXTREMES, "uniform_filter") and rng.random() < 0.4:
            words["mode"] = [str(rng.choice(MODES)) for _ in axes]
        return words
    footprint = rng.random(sizes) < rng.choice([0.4, 0.9])
    footprint.flat[rng.integers(footprint.size)] = True
    if name not in GREY or kind < 0.7:
        words["footprint"] = footprint
    if name in GREY and kind >= 0.6:
        whole = x.dtype.kind != "f" or rng.random() < 0.5
        structure = rng.integers(-3, 4, sizes) if whole else rng.standard_normal(sizes)
        words["structure"] = structure.astype(np.int32 if whole else np.float32)
    return words


def _ends(rng: np.random.Generator, x: np.ndarray, least: int = 0) -> dict[str, Any]:
    words: dict[str, Any] = {"mode": str(rng.choice(MODES))}
    whole = x.dtype.kind != "f"
    words["cval"] = float(rng.integers(least, 2 if x.dtype.kind == "b" else 50)) if whole else 1.5
    return words


def _origin(rng: np.random.Generator, size: int) -> int:
    return int(rng.integers(-(size // 2), (size - 1) // 2 + 1)) if rng.random() < 0.5 else 0


def _taps(words: dict[str, Any], rank: int) -> int:
    if "footprint" in words:
        return int(words["footprint"].sum())
    return int(np.prod(words["size"]))


def _binary(rng: np.random.Generator, x: np.ndarray) -> dict[str, Any]:
    axes = sorted(int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)])
    words: dict[str, Any] = {"axes": axes} if len(axes) < x.ndim or rng.random() < 0.5 else {}
    sizes = [3] * len(axes)
    if rng.random() < 0.6:
        sizes = [int(n) for n in rng.integers(1, 5, len(axes))]
        structure = rng.random(sizes) < 0.7
        structure.flat[rng.integers(structure.size)] = True
        words["structure"] = structure
    words["origin"] = [_origin(rng, size) for size in sizes]
    words["border_value"] = int(rng.integers(2))
    words["iterations"] = int(rng.choice([1, 1, 2, 3]))
    if rng.random() < 0.3:
        words["mask"] = rng.random(x.shape) < 0.6
    return words
