"""Random pooling configurations for the live tests, and functions to run and compare them.

The configurations are asymmetric by construction, so that tests detect swapped axes or ends: sizes,
windows, strides and dilations differ on every axis, and padding is drawn separately for every end.
Arrays are tiny and 20 configurations share one compiled program, because compiling costs far more
than running. A failure names its configuration as code to paste.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from helpers import assert_same

import jaxpool

Pairs = tuple[tuple[int, int], ...]

BATCH = 20
"""Configurations that share one compiled program."""


@dataclass(frozen=True)
class Axis:
    """The draws for one pooled axis; ``low`` and ``high`` are explicit padding."""

    size: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def slack(self) -> int:
        """The length of the padded axis minus the span; negative if the window does not fit."""
        return self.size + self.low + self.high - (self.kernel - 1) * self.dilation - 1

    @property
    def ceil_starts_in_data(self) -> bool:
        """Whether PyTorch would keep the last window of plain ceil rounding."""
        return -(-self.slack // self.stride) * self.stride < self.size + self.low

    @property
    def has_hollow_window(self) -> bool:
        """Whether a window that starts in padding or data has no tap in the data."""
        starts = range(-self.low, self.size, self.stride)
        taps = range(0, self.kernel * self.dilation, self.dilation)
        return any(all(not 0 <= start + tap < self.size for tap in taps) for start in starts)


HOLLOW = Axis(size=3, kernel=2, stride=2, dilation=4, low=1, high=1)
"""An axis of three elements whose window reads elements -1 and 3."""


@dataclass(frozen=True)
class Configuration:
    """A call of an op on an array. ``shape`` has the channel axis before the pooled axes."""

    op: str
    axes: tuple[Axis, ...]
    lead: tuple[int, ...]
    padding: str | Pairs
    rounding: str
    dtype: str
    ties: bool
    seed: int
    data_format: str = "channels_first"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lead + tuple(axis.size for axis in self.axes)

    def per_axis(self, name: str) -> tuple[int, ...]:
        """Return one attribute of every pooled axis."""
        return tuple(getattr(axis, name) for axis in self.axes)

    @property
    def positional(self) -> tuple[tuple[int, ...], tuple[int, ...], str | Pairs]:
        return self.per_axis("kernel"), self.per_axis("stride"), self.padding

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword settings of the jaxpool call, without defaults."""
        settings = {
            "dilations": self.per_axis("dilation"),
            "rounding": self.rounding,
            "data_format": self.data_format,
            **self.settings,
        }
        defaults = {
            "dilations": (1,) * len(self.axes),
            "rounding": "floor",
            "data_format": "channels_last",
            "implementation": "auto",
        }
        return {name: value for name, value in settings.items() if value != defaults.get(name, ...)}

    def call(self, x: Any) -> Any:
        """Call the op on ``x``, which is in the layout of ``data_format``."""
        return getattr(jaxpool, self.op)(x, *self.positional, **self.keywords)

    @property
    def code(self) -> str:
        """The call and its data as code to paste."""
        settings = "".join(f", {name}={value!r}" for name, value in self.keywords.items())
        window = ", ".join(repr(value) for value in self.positional)
        move = "" if self.data_format == "channels_first" else "x = np.moveaxis(x, "
        move += f"{-len(self.axes) - 1}, -1)\n" if move else ""
        return f"x = {self.data_code}\n{move}jaxpool.{self.op}(x, {window}{settings})"

    @property
    def data_code(self) -> str:
        """The data, channels first, as code: few distinct values for ties, else a permutation."""
        source = f"np.random.default_rng({self.seed})"
        kind = np.dtype(self.dtype)
        if not self.ties and kind.itemsize > 1:
            count = int(np.prod(self.shape))
            numbers = f"{source}.permutation({count}).reshape({self.shape}) - {count // 2}"
            return f"({numbers}).astype({self.dtype!r})"
        low, high = (0, 9) if kind.kind == "u" else (-4, 5)
        if not self.ties:
            low, high = np.iinfo(kind).min, np.iinfo(kind).max + 1
        return f"{source}.integers({low}, {high}, {self.shape}).astype({self.dtype!r})"

    def data(self) -> np.ndarray:
        """Return the array, channels first, by evaluating ``data_code``."""
        return eval(self.data_code, {"np": np})

    def cotangent(self, shape: Sequence[int]) -> np.ndarray:
        """Return a cotangent of small integers, whose sums are exact in every float dtype."""
        return np.random.default_rng(self.seed + 1).integers(-4, 5, shape).astype(self.dtype)

    def to_layout(self, x: np.ndarray) -> np.ndarray:
        """Return ``x``, channels first, in the layout of ``data_format``."""
        if self.data_format == "channels_first":
            return x
        return np.moveaxis(x, -len(self.axes) - 1, -1)

    def from_layout(self, x: np.ndarray) -> np.ndarray:
        """Return ``x``, in the layout of ``data_format``, with channels first."""
        if self.data_format == "channels_first":
            return x
        return np.moveaxis(x, -1, -len(self.axes) - 1)


@dataclass(frozen=True)
class Answer:
    """The result of one side, channels first; None for parts that it does not return."""

    values: np.ndarray
    indices: np.ndarray | None = None
    gradient: np.ndarray | None = None


# --- drawing --------------------------------------------------------------------------------------


def draw_axes(
    rng: np.random.Generator,
    accept: Callable[[Axis], bool],
    *,
    dilated: bool,
    symmetric: bool,
    padded: bool = True,
) -> tuple[Axis, ...]:
    """Draw one to three distinct pooled axes, each accepted by the peer's rules.

    Padding and dilation make a window without a real element only once in hundreds of draws, so one
    dilated draw in ten is such an axis, if the peer accepts it.

    Args:
      accept: whether the peer runs such an axis by the same rule as jaxpool.
      dilated: whether to draw dilations from 1 to 4; otherwise all are 1.
      symmetric: whether the padding is equal at both ends of an axis.
      padded: whether to draw explicit padding; otherwise all is 0.
    """
    if dilated and padded and rng.random() < 0.1 and accept(HOLLOW):
        return (HOLLOW,)
    count = int(rng.choice([1, 2, 2, 3]))
    while True:
        kernels = rng.permutation(np.arange(1, 5 if count == 3 else 6))[:count]
        strides = rng.permutation(np.arange(1, 5))[:count]
        dilations = rng.permutation(np.arange(1, 5))[:count] if dilated else np.ones(count, int)
        lows = rng.integers(0, kernels) if padded else np.zeros(count, int)
        highs = rng.integers(0, kernels) if padded else np.zeros(count, int)
        highs = lows if symmetric else highs
        spans = (kernels - 1) * dilations + 1
        sizes = np.maximum(spans - lows - highs, 1) + rng.integers(0, 7, count)
        rows = zip(sizes, kernels, strides, dilations, lows, highs, strict=True)
        axes = tuple(Axis(*map(int, row)) for row in rows)
        if len(set(sizes.tolist())) == count and all(map(accept, axes)):
            return axes


def draw_max_op(rng: np.random.Generator) -> str:
    """Draw one of the two ops with maxima, which compute their values differently."""
    return "max_pool" if rng.random() < 0.3 else "max_pool_with_argmax"


def draw_lowering(rng: np.random.Generator) -> dict[str, str]:
    """Draw the default implementation of this platform, or ``reduce_window`` as the reference."""
    return {"implementation": "reduce_window"} if rng.random() < 0.25 else {}


def draw_lead(rng: np.random.Generator, unbatched: bool) -> tuple[int, ...]:
    """Draw the sizes of the batch and channel axes, which differ; sometimes there is no batch."""
    lead = tuple(int(size) for size in rng.permutation([1, 2, 3])[:2])
    return lead[1:] if unbatched and rng.random() < 0.2 else lead


def draw_rounding(rng: np.random.Generator, axes: Sequence[Axis]) -> str:
    """Draw floor, ceil_torch, or plain ceil if its windows are those of ceil_torch."""
    if rng.random() < 0.35:
        return "floor"
    same = all(axis.ceil_starts_in_data for axis in axes)
    return "ceil" if same and rng.random() < 0.3 else "ceil_torch"


# --- running and comparing ------------------------------------------------------------------------


def run_jaxpool(batch: Sequence[Configuration], expected: Sequence[Answer]) -> list[Answer]:
    """Run a batch of configurations in one program, with gradients if the peer has one."""
    for configuration, answer in zip(batch, expected, strict=True):
        _check_shape(configuration, answer)
    arrays = [c.to_layout(c.data()) for c in batch]
    shapes = [answer.values.shape for answer in expected]
    cotangents = [c.to_layout(c.cotangent(s)) for c, s in zip(batch, shapes, strict=True)]
    wants = [answer.gradient is not None for answer in expected]

    @jax.jit
    def program(arrays: list[jax.Array], cotangents: list[jax.Array]) -> list[tuple]:
        rows = zip(batch, arrays, cotangents, wants, strict=True)
        return [_outputs(c, x, g, want) for c, x, g, want in rows]

    with jax.enable_x64(any(c.dtype == "float64" for c in batch)):
        results = jax.device_get(program(arrays, cotangents))
    return [_answer(c, *result) for c, result in zip(batch, results, strict=True)]


def _answer(c: Configuration, values: Any, indices: Any, gradient: Any) -> Answer:
    parts = (None if part is None else c.from_layout(part) for part in (indices, gradient))
    return Answer(c.from_layout(values), *parts)


def _outputs(c: Configuration, x: jax.Array, cotangent: jax.Array, want_gradient: bool) -> tuple:
    def values_and_indices(x: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        result = c.call(x)
        return result if isinstance(result, tuple) else (result, None)

    try:
        if not want_gradient:
            return *values_and_indices(x), None
        values, pullback, indices = jax.vjp(values_and_indices, x, has_aux=True)
        return values, indices, pullback(cotangent)[0]
    except Exception as error:
        error.add_note(c.code)
        raise


def _check_shape(c: Configuration, expected: Answer) -> None:
    settings = {name: c.keywords[name] for name in ("dilations", "rounding") if name in c.keywords}
    shape = jaxpool.output_shape(c.shape, *c.positional, data_format="channels_first", **settings)
    assert shape == expected.values.shape, (
        f"jaxpool.output_shape gives {shape}, the peer {expected.values.shape}:\n{c.code}"
    )


def check_batch(
    batch: Sequence[Configuration], peer: Callable[[Configuration], Answer], ulps: int = 0
) -> None:
    """Fail unless jaxpool gives what the peer gives."""
    expected = [peer(c) for c in batch]
    for c, got, want in zip(batch, run_jaxpool(batch, expected), expected, strict=True):
        assert_answers(c, got, want, ulps)


def assert_answers(c: Configuration, got: Answer, want: Answer, ulps: int = 0) -> None:
    """Compare both sides: indices exactly, in any dtype, numbers to ``ulps`` of the largest."""
    assert_same(got.values, want.values, f"values of\n{c.code}", ulps=ulps)
    if want.indices is not None:
        indices = np.asarray(got.indices, want.indices.dtype)
        assert_same(indices, want.indices, f"indices of\n{c.code}")
    if want.gradient is not None:
        assert_same(got.gradient, want.gradient, f"gradient of\n{c.code}", ulps=ulps)
