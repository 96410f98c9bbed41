"""Blur pools against loops in float64 over ``numpy.pad``, and a maximum before them."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same, check_derivatives, exported_call, lowered

import jaxpool
from jaxpool.ops.blur import MODES, PadMode

pytestmark = pytest.mark.grid(6)

PADDING = ((2, 1), (0, 3))
WINDOWS = ((2, 3), (4, 5), (6, 7), (1, 2), (7, 1))


def weights(taps: int) -> np.ndarray:
    """Return a row of Pascal's triangle, by convolution."""
    found = np.ones(1)
    for _ in range(taps - 1):
        found = np.convolve(found, [0.5, 0.5])
    return found


def blurred(
    x: np.ndarray,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Any,
    mode: PadMode,
    dilations: Sequence[int] = (1, 1),
    rounding: Any = "floor",
    where: np.ndarray | None = None,
) -> np.ndarray:
    """Return weighted means of a padded plane, by a loop over windows."""
    there = np.ones(x.shape) if where is None else where.astype(float)
    fill: dict[str, Any] = {"constant_values": 1} if mode == "constant" else {}
    padded = np.pad(np.where(there > 0, x.astype(float), 0), padding, mode=mode)  # pyright: ignore
    counted = np.pad(there, padding, mode=mode, **fill)  # pyright: ignore
    words: dict[str, Any] = {"dilations": dilations, "rounding": rounding}
    shape = jaxpool.geometry(x.shape, window, strides, padding, **words)
    y = np.zeros(shape.out_shape)
    for place in np.ndindex(shape.out_shape):
        total = weight = 0.0
        for tap in itertools.product(*map(range, window)):
            at = tuple(
                o * s + t * d for o, s, t, d in zip(place, strides, tap, dilations, strict=True)
            )
            if all(i < n for i, n in zip(at, padded.shape, strict=True)):
                share = np.prod([weights(n)[t] for n, t in zip(window, tap, strict=True)])
                total += share * padded[at]
                weight += share * counted[at]
        y[place] = total / weight if weight else 0
    return y


@pytest.mark.grid(8)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_blur_is_its_definition(
    window: tuple[int, int], mode: PadMode, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((9, 8)).astype(np.float32)
    cases: list[Any] = [
        ((1, 1), (1, 1), "floor"),
        ((2, 3), (1, 2) if window[1] < 4 else (1, 1), "floor"),
        ((3, 2), (1, 1), "ceil"),
    ]
    for strides, dilations, rounding in cases:
        want = blurred(x, window, strides, PADDING, mode, dilations, rounding)
        got = jaxpool.blur_pool(
            x, window, strides, PADDING, mode=mode, dilations=dilations, rounding=rounding,
            data_format="HW",
        )  # fmt: skip
        assert_same(got, want.astype(np.float32), (window, mode, strides, rounding), ulps=4)


@pytest.mark.parametrize("mode", MODES)
def test_masked_elements_are_neither_added_nor_weighed(
    mode: PadMode, rng: np.random.Generator
) -> None:
    where = rng.random((9, 8)) < 0.5
    where[:4, :4] = False
    x = np.where(where, rng.standard_normal((9, 8)), np.nan).astype(np.float32)
    settings: dict[str, Any] = {"mode": mode, "rounding": "ceil", "where": where}
    want = blurred(x, (3, 2), (2, 1), PADDING, dilations=(1, 1), **settings)
    got = jaxpool.blur_pool(x, (3, 2), (2, 1), PADDING, data_format="HW", **settings)
    assert_same(got, want.astype(np.float32), mode, ulps=4)
    assert (want == 0).any() and np.isfinite(want).all()


@pytest.mark.parametrize("n", range(2, 8))
def test_the_papers_padding_and_layouts(n: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 6, 7, 3)).astype(np.float32)
    pads = (((n - 1) // 2, n // 2),) * 2
    got = jaxpool.blur_pool(x, (n, n), 2, pads)
    assert got.shape == (2, 3, 4, 3)
    planes = [
        blurred(x[b, :, :, c], (n, n), (2, 2), pads, "reflect") for b in range(2) for c in range(3)
    ]
    want = np.moveaxis(np.reshape(planes, (2, 3, 3, 4)), 1, -1).astype(np.float32)
    assert_same(got, want, n, ulps=4)
    first = jaxpool.blur_pool(np.moveaxis(x, -1, 1), n, 2, pads, data_format="NCHW")
    assert_same(jnp.moveaxis(first, 1, -1), got, n, ulps=4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("blur_shape", [3, (2, 5), 7])
def test_a_maximum_and_a_blur(mode: PadMode, blur_shape: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((9, 8)).astype(np.float32)
    lengths = (blur_shape,) * 2 if isinstance(blur_shape, int) else blur_shape
    padding = tuple(((n - 1) // 2, n // 2) for n in lengths)
    maxima = np.array(
        [[np.nanmax(np.pad(x, 1, constant_values=np.nan)[i : i + 3, j : j + 2])
          for j in range(9)] for i in range(9)]
    )  # fmt: skip
    want = blurred(maxima, lengths, (2, 3), padding, mode)
    got = jaxpool.max_blur_pool(
        x, (3, 2), (2, 3), 1, blur_shape=blur_shape, mode=mode, data_format="HW"
    )
    assert_same(got, want.astype(np.float32), (mode, blur_shape), ulps=4)
    assert got.shape == (5, 3)


def test_a_maximum_of_nothing_does_not_count() -> None:
    x = jnp.array([1.0, 2.0, 4.0, 8.0])
    words: dict[str, Any] = {"blur_shape": 2, "data_format": "W"}
    there = jnp.array([False, False, True, True])
    got = jaxpool.max_blur_pool(x, 2, 1, where=there, **words)  # maxima: none, 4, 8, then 4 again
    assert_same(got, np.array([4, 6, 6], np.float32), "masked")
    padded = jaxpool.max_blur_pool(x[:2], 1, 2, 1, mode="constant", **words)  # maxima: -, 1, 2, -
    assert_same(padded, np.array([1, 2], np.float32), "windows of padding alone")
    assert_same(jax.grad(lambda x: jaxpool.max_blur_pool(x, 2, 1, where=there, **words).sum())(x),
                np.array([0, 0, 2, 1], np.float32), "gradient")  # fmt: skip


@pytest.mark.parametrize("op", ["blur_pool", "max_blur_pool"])
def test_derivatives_of_both_modes_and_orders(op: str, rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(rng.permutation(72).reshape(9, 8) / 7)
        for words in ({"mode": "reflect"}, {"mode": "wrap", "where": x > 2}):
            pool = lambda x, words=words: (  # noqa: E731
                getattr(jaxpool, op)(x, (3, 2), 2, 1, data_format="HW", **words) ** 2
            )
            check_derivatives(pool, x, rng=rng)


@pytest.mark.grid(51)
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [(3, 2), (4, 5), (1, 7)])
@pytest.mark.parametrize("strides", [1, (2, 3)])
def test_every_platform_gives_the_same(
    strides: Any, window: tuple[int, int], mode: PadMode, platform: str, rng: np.random.Generator
) -> None:
    """The programs of GPU and TPU, run on CPU; NaN and infinities stay in their windows."""
    x = jnp.asarray(rng.standard_normal((2, 11, 13, 2)), jnp.float32)
    x = x.at[0, 0, 1, 0].set(jnp.nan).at[1, 5, 12, 1].set(jnp.inf)
    words: dict[str, Any] = {"mode": mode, "rounding": "ceil"}
    padding = tuple(((n - 1) // 2, n // 2) for n in window)
    pool = lambda x: jaxpool.blur_pool(x, window, strides, padding, **words)  # noqa: E731
    g = jnp.asarray(rng.standard_normal(pool(x).shape), jnp.float32)

    @jax.jit
    def run(x: jax.Array, g: jax.Array) -> Any:
        y, back = jax.vjp(pool, x)
        return y, back(g)[0], jax.jvp(pool, (x,), (jnp.cos(x),))[1]

    for got, want in zip(lowered(run, platform, x, g)(x, g), run(x, g), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_no_program_has_a_scatter() -> None:
    for mode in MODES:

        def blur(x: jax.Array, mode: PadMode = mode) -> jax.Array:
            return jaxpool.blur_pool(x, (3, 3), 2, 1, mode=mode).sum()

        text = str(jax.make_jaxpr(jax.grad(blur))(jnp.ones((2, 6, 7, 3))))
        assert "scatter" not in text and "mul" in text


def test_narrow_floats_are_rounded_once_and_constants_stay() -> None:
    x = jnp.asarray(np.random.default_rng(1).standard_normal((40, 1)), jnp.bfloat16)
    wide = jaxpool.blur_pool(x.astype(jnp.float32), (7,), 1, 3)
    assert_same(jaxpool.blur_pool(x, (7,), 1, 3), wide.astype(jnp.bfloat16), "bfloat16")
    flat = jnp.full((12, 11, 1), 3.7)
    for n in range(1, 8):
        assert_same(jaxpool.blur_pool(flat, (n, n), 1, "SAME"), flat, n, ulps=4)


@pytest.mark.parametrize(
    ("op", "words", "kind", "pattern"),
    [
        ("blur_pool", {"window_shape": (8,)}, ValueError, "`window_shape` contains 8"),
        ("blur_pool", {"mode": "mirror"}, ValueError, "`mode` = 'mirror' is not a mode"),
        ("blur_pool", {"padding": 5}, ValueError, "padding of 5 is longer than pooled axis 0"),
        ("blur_pool", {"x": np.ones((4, 1), int)}, TypeError, "the array has dtype int"),
        ("max_blur_pool", {"blur_shape": 8}, ValueError, "`blur_shape` contains 8"),
        ("max_blur_pool", {"blur_shape": 0}, ValueError, "`blur_shape` contains 0"),
        ("max_blur_pool", {"blur_shape": (2, 2)}, ValueError, "`blur_shape` = .2, 2. has 2 entr"),
        ("max_blur_pool", {"x": np.ones((4, 1), bool)}, TypeError, "the array has dtype bool"),
    ],
)
def test_errors_name_the_argument(
    op: str, words: dict[str, Any], kind: type[Exception], pattern: str
) -> None:
    call: dict[str, Any] = {"x": np.ones((4, 1), np.float32), "window_shape": (2,), "strides": 1}
    with pytest.raises(kind, match=f"^{op}: {pattern}"):
        getattr(jaxpool, op)(**{**call, **words})
    assert jaxpool.blur_pool(np.ones((4, 1), np.float32), (2,), 1, 4).shape == (11, 1)


def test_ends_are_repeated_as_often_as_the_padding_says() -> None:
    x = np.array([[3.0], [8.0]], np.float32)
    padded = np.pad(x, ((5, 4), (0, 0)), "edge")
    assert_same(
        jaxpool.blur_pool(x, (3,), 2, ((5, 4),), mode="edge"),
        jaxpool.blur_pool(padded, (3,), 2),
        "padding longer than the axis",
    )


def test_a_stride_of_any_length_costs_nothing() -> None:
    x = np.arange(8, dtype=np.float32)[:, None]
    got = jaxpool.blur_pool(x, (3,), 10**12, rounding="ceil")
    assert_same(got, np.array([[1], [0]], np.float32), "a window, and one behind the array")


# --- exports with symbolic sizes ------------------------------------------------------------------


exported = functools.partial(exported_call, "h, w")


@pytest.mark.deep
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_padding_of_open_sizes_is_that_of_the_mode(
    mode: PadMode, masked: bool, rng: np.random.Generator
) -> None:
    def blur(x: Any, padding: Any) -> Any:
        where = x > 0 if masked else None
        settings: dict[str, Any] = {"mode": mode, "data_format": "HW", "where": where}
        return jaxpool.blur_pool(x, (4, 3), (2, 3), padding, **settings)

    for padding in (PADDING, "SAME"):
        call = exported(lambda x, padding=padding: blur(x, padding), ("h >= 3", "w >= 4"))
        for size in ((3, 4), (6, 7), (9, 20)):
            x = rng.standard_normal(size).astype(np.float32)
            pads = padding
            if padding == "SAME":
                axes = jaxpool.geometry(size, (4, 3), (2, 3), padding).axes
                pads = [(axis.pad_low, axis.pad_high) for axis in axes]
            want = blurred(x, (4, 3), (2, 3), pads, mode, where=x > 0 if masked else None)
            y, pull = jax.vjp(call, x)
            assert_same(y, want.astype(np.float32), (mode, padding, size), ulps=4)
            plain = jax.vjp(lambda x, padding=padding: blur(x, padding), x)[1]
            np.testing.assert_allclose(pull(y)[0], plain(y)[0], rtol=1e-5, atol=1e-6)


def test_a_border_of_an_open_size_needs_a_bound() -> None:
    blur = lambda x: jaxpool.blur_pool(x, (3, 1), 2, 1, data_format="HW")  # noqa: E731
    with pytest.raises(ValueError) as caught:
        exported(blur)
    what, facts, advice = str(caught.value).split("\n")
    assert what == "blur_pool: axis 0 has the symbolic size h, which may be too small."
    assert "elements past an end" in facts and "at least 2." in facts
    assert 'constraints=["h >= 2"]' in advice


def test_a_maximum_and_a_blur_of_open_sizes_need_bounds(rng: np.random.Generator) -> None:
    """Windows of windows: elements beyond the ends of the blur are no padding of the maximum."""
    pool = lambda x: jaxpool.max_blur_pool(x, 2, 1, data_format="HW")  # noqa: E731
    with pytest.raises(ValueError, match="^max_blur_pool: pooled axis 0 has the symbolic size h"):
        exported(pool, ("h >= 3", "w >= 3"))
    x = rng.standard_normal((7, 9)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2)).max((2, 3))
    want = blurred(windows, (3, 3), (1, 1), ((1, 1), (1, 1)), "reflect")
    assert_same(exported(pool, ("h >= 7", "w >= 7"))(x), want.astype(np.float32), "bounded", ulps=4)
