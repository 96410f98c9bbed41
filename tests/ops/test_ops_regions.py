"""Pools of boxes against recorded results of torchvision, and against loops over its definition."""

import functools
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, check_derivatives, lowered, permutation

import jaxpool
from jaxpool._autodiff import boxes as maps
from jaxpool._lowerings import boxes as lowered_boxes
from jaxpool._lowerings import tuning
from jaxpool._numerics import regions

pytestmark = pytest.mark.grid(8)

RECORDED = json.loads(
    (Path(__file__).parents[1] / "support" / "data" / "torchvision_regions.json").read_text()
)
BOXES = np.array(RECORDED["boxes"], np.float32)
NUMBERS = np.arange(2 * 8 * 5 * 4) * 37 % 321 / 8 - 20
X = NUMBERS.reshape(2, 8, 5, 4).astype(np.float32)
"""Images, channels, rows, columns: what the recorded results are of."""

OPS = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool")


def case_name(case: dict[str, Any]) -> str:
    return f"{case['op']}, " + ", ".join(map(str, case["settings"].values()))


@pytest.fixture(autouse=True, scope="module")
def visits_elements() -> Iterator[None]:
    """On CPU, visit the elements of boxes also for results as small as those of the tests.

    The shapes are of this file only, so no cache has programs that were traced with another limit.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "MIN_READ_AT_ONCE", 1)
        yield


@pytest.fixture
def of_images(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Return the parameter; compute over whole images instead if the parameter is True."""
    if not request.param:
        yield False
        return
    monkeypatch.setattr(tuning, "MIN_READ_AT_ONCE", 2**30)
    jax.clear_caches()
    yield True
    jax.clear_caches()


of_elements_and_images = pytest.mark.parametrize(
    "of_images", [False, True], indirect=True, ids=["elements", "images"]
)


@pytest.mark.grid(24)
@of_elements_and_images
@pytest.mark.parametrize("case", RECORDED["cases"], ids=case_name)
def test_values_and_gradients_are_those_of_torchvision(
    case: dict[str, Any], of_images: bool
) -> None:
    boxes = jnp.asarray(BOXES[case["boxes"]])
    op = getattr(jaxpool, case["op"])
    settings = {**case["settings"], "data_format": "NCHW"}
    y, back = jax.vjp(jax.jit(lambda x: op(x, boxes, **settings)), X)
    want = np.array(case["values"], np.float32).reshape(y.shape)
    assert_same(y, want, case_name(case), ulps=32)
    if case["gradient"] is not None:
        weights = (np.arange(y.size) % 13 / 8 + 0.25).reshape(y.shape).astype(np.float32)
        gradient = np.array(case["gradient"], np.float32).reshape(X.shape)
        assert_same(back(jnp.asarray(weights))[0], gradient, case_name(case), ulps=32)


# --- by loops -------------------------------------------------------------------------------------


def interpolated(plane: np.ndarray, u: float, v: float) -> float:
    """Return a plane at a point: 0 more than one element outside, else clamped to the border."""
    if not all(-1 <= at <= n for at, n in zip((u, v), plane.shape, strict=True)):
        return 0.0
    ends = [min(max(at, 0), n - 1) for at, n in zip((u, v), plane.shape, strict=True)]
    total = 0.0
    for i in {math.floor(ends[0]), math.ceil(ends[0])}:
        for j in {math.floor(ends[1]), math.ceil(ends[1])}:
            total += (1 - abs(ends[0] - i)) * (1 - abs(ends[1] - j)) * plane[i, j]
    return total


def samples(first: float, last: float, bins: int, ratio: int, aligned: bool) -> list[list[float]]:
    """Return the positions of the samples of every bin of an axis."""
    first, last = (first - 0.5, last - 0.5) if aligned else (first, last)
    size = last - first if aligned else max(last - first, 1)
    step = size / bins
    if not math.isfinite(step):
        return [[]] * bins
    count = ratio if ratio > 0 else max(math.ceil(step), 0)
    return [[first + p * step + (s + 0.5) * step / count for s in range(count)]
            for p in range(bins)]  # fmt: skip


def elements(first: float, last: float, bins: int, length: int, own_last: int) -> list[range]:
    """Return the elements of every bin of an axis."""
    if not (math.isfinite(first) and math.isfinite(last)):
        return [range(0)] * bins
    start, end = (int(math.copysign(math.floor(abs(a) + 0.5), a)) for a in (first, last))
    size = max(end - start + own_last, 1)
    inside = length if own_last else length - 1
    return [
        range(max(start + p * size // bins, 0), min(start - (-(p + 1) * size // bins), inside))
        for p in range(bins)
    ]


def expected(op: str, x: np.ndarray, boxes: np.ndarray, words: dict[str, Any]) -> np.ndarray:
    """Return the result of an op by its definition, in float64.

    ``x`` has the axes image, channel, row, column."""
    bins, scale = words["output_size"], words.get("spatial_scale", 1.0)
    by_place = op.startswith("ps")
    channels = x.shape[1] // (bins[0] * bins[1] if by_place else 1)
    y = np.zeros((len(boxes), channels, *bins))
    for place in np.ndindex(y.shape):
        k, c, p, q = place
        scales = np.array([1, scale, scale, scale, scale])
        number, left, top, right, bottom = boxes[k].astype(float) * scales
        if not 0 <= number < len(x):
            continue
        plane = x[int(number), (c * bins[0] + p) * bins[1] + q if by_place else c].astype(float)
        if op.endswith("align"):
            ratio, aligned = words.get("sampling_ratio", -1), words.get("aligned", by_place)
            u = samples(top, bottom, bins[0], ratio, aligned)[p]
            v = samples(left, right, bins[1], ratio, aligned)[q]
            points = [interpolated(plane, a, b) for a in u for b in v]
            y[place] = np.mean(points) if points else 0
        else:
            rows = elements(top, bottom, bins[0], plane.shape[0], 1 - by_place)[p]
            columns = elements(left, right, bins[1], plane.shape[1], 1 - by_place)[q]
            found = plane[np.ix_(list(rows), list(columns))]
            y[place] = (found.mean() if by_place else found.max()) if found.size else 0
    return y


def settings_of(op: str, output_size: tuple[int, int]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"output_size": output_size, "spatial_scale": 0.5}]
    if op.endswith("align"):
        found = [{**words, "sampling_ratio": ratio} for words in found for ratio in (-1, 1, 3)]
    if op == "roi_align":
        found = [{**words, "aligned": aligned} for words in found for aligned in (False, True)]
    return found


def odd_boxes(rng: np.random.Generator) -> np.ndarray:
    """Return boxes inside, outside and around images, of size 0, negative, NaN, without image."""
    boxes = np.concatenate([rng.integers(0, 2, (24, 1)), rng.integers(-40, 80, (24, 4)) / 4], 1)
    boxes[0, 1:], boxes[1, 1:], boxes[2, 1:] = (1, 1, 1, 1), (-90, -80, 70, 60), (50, 60, 70, 80)
    boxes[3, 2], boxes[4, 3], boxes[5, 0], boxes[6, 0] = np.nan, np.inf, -1, 2
    boxes[7, 1:] = np.nan
    return boxes.astype(np.float32)


@pytest.mark.grid(16)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("output_size", [(2, 2), (1, 4), (8, 1)])
def test_any_box_is_its_definition(
    op: str, output_size: tuple[int, int], rng: np.random.Generator
) -> None:
    boxes, found = odd_boxes(rng), settings_of(op, output_size)
    pool = functools.partial(getattr(jaxpool, op), data_format="NCHW")
    of_all = jax.jit(lambda x: [pool(x, boxes, **words) for words in found], compiler_options=QUICK)
    for got, words in zip(of_all(X), found, strict=True):
        want = expected(op, X, boxes, words).astype(np.float32)
        assert_same(got, want, (op, words), ulps=16)
        assert np.any(want)


@pytest.mark.parametrize("op", OPS)
def test_layouts_and_spellings_agree(op: str) -> None:
    def pool(x: Any, boxes: np.ndarray, **words: Any) -> Any:
        f = lambda x: getattr(jaxpool, op)(x, boxes, (2, 4), **words)  # noqa: E731
        return np.asarray(jax.jit(f, compiler_options=QUICK)(x))

    boxes = BOXES
    first = pool(X, boxes, data_format="NCHW")
    last = np.moveaxis(X, 1, -1)
    assert_same(np.moveaxis(pool(last, boxes), -1, 1), first, "channels last", ulps=4)
    index = boxes[:, 0].astype(np.int32)
    named = pool(last, boxes[:, 1:], batch_index=index, data_format="NHWC")
    assert_same(np.moveaxis(named, -1, 1), first, "numbers of images by themselves", ulps=4)
    turned = pool(last.transpose(2, 0, 3, 1), boxes, data_format="WNCH")
    assert_same(turned.transpose(1, 2, 3, 0), first, "any letters", ulps=4)
    batches = np.stack([last, last[::-1]])
    both = pool(batches, boxes[:, 1:], batch_index=np.where(index == 0, 3, 2))
    assert_same(np.moveaxis(both, -1, 1), first, "two batch axes", ulps=4)
    one = pool(last[1], boxes[index == 1, 1:])
    assert_same(np.moveaxis(one, -1, 1), first[index == 1], "no batch axis", ulps=4)
    if not op.startswith("ps"):
        plane = pool(X[1, 3], boxes[index == 1, 1:], data_format="HW")
        assert_same(plane, first[index == 1, 3], "no channels", ulps=4)


@of_elements_and_images
@pytest.mark.parametrize("op", OPS)
def test_boxes_may_be_traced_and_mapped(op: str, of_images: bool) -> None:
    x, pool = jnp.moveaxis(jnp.asarray(X), 1, -1), getattr(jaxpool, op)
    run = lambda x, boxes: pool(x, boxes, (2, 2))  # noqa: E731
    want = run(x, BOXES)
    assert_same(jax.jit(run)(x, BOXES), want, "jit", ulps=4)
    shifted = BOXES + np.array([0, 1, 0, 1, 0], np.float32)
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    mapped = quick(jax.vmap(run, (None, 0)))(x, jnp.stack([BOXES, shifted]))
    assert_same(mapped, jnp.stack([want, run(x, shifted)]), "vmap over boxes", ulps=4)
    mapped = quick(jax.vmap(run, (0, None)))(jnp.stack([x, -x]), jnp.asarray(BOXES))
    assert_same(mapped, jnp.stack([want, run(-x, BOXES)]), "vmap over images", ulps=4)
    slope = quick(jax.grad(lambda boxes: run(x, boxes).sum()))(jnp.asarray(BOXES))
    assert_same(slope, np.zeros_like(BOXES), "boxes have no derivative")


@pytest.mark.grid(16)
@of_elements_and_images
@pytest.mark.parametrize("op", OPS)
def test_derivatives_of_both_modes_and_orders(
    op: str, rng: np.random.Generator, of_images: bool
) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(rng.permutation(160).reshape(1, 5, 4, 8) / 9)
        boxes = np.array([[0, 0, 0, 3, 4], [0, 1.5, -2, 9, 3], [1, 0, 0, 1, 1]])
        pool = lambda x: getattr(jaxpool, op)(x, boxes, (2, 2)) ** 2  # noqa: E731
        check_derivatives(pool, x, rng=rng)
        scanned = lambda x: jax.lax.map(pool, jnp.stack([x, 2 * x]))  # noqa: E731
        check_derivatives(scanned, x, rng=rng)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_the_number_of_an_image_in_the_boxes_does_not_wrap(kind: Any) -> None:
    boxes = np.array([[2**32, 0, 0, 3, 1], [0, 0, 0, 3, 1], [2**40, 0, 0, 3, 1]], kind)
    got = jaxpool.roi_pool(np.full((1, 5, 5, 1), 7, np.float32), boxes, 1)
    np.testing.assert_array_equal(got.ravel(), [0, 7, 0])


def test_a_box_of_whole_elements_that_never_ends_reads_nothing() -> None:
    ends = (np.nan, np.inf, -np.inf)
    boxes = np.tile(np.array([0, 0, 0, 3, 3], np.float32), (13, 1))
    for number, (end, place) in enumerate(itertools.product(ends, range(1, 5)), 1):
        boxes[number, place] = end
    for op in (jaxpool.roi_pool, jaxpool.ps_roi_pool):
        y = op(np.ones((1, 5, 5, 1), np.float32), boxes, 1)
        np.testing.assert_array_equal(y.ravel(), [1] + [0] * 12)


@pytest.mark.deep
@pytest.mark.parametrize("op", ["roi_align", "ps_roi_align"])
def test_a_box_without_size_divides_nothing_by_zero(op: str) -> None:
    settings = {"aligned": True} if op == "roi_align" else {}
    boxes = np.array([[1.5, 1.5, 1.5, 1.5], [2, 2, 2, 2], [0, 1, 3, 1]], np.float32)
    x = jnp.asarray(np.moveaxis(X, 1, -1)[:1])
    pool = lambda x: getattr(jaxpool, op)(x, boxes, 2, batch_index=np.zeros(3, int), **settings)  # noqa: E731
    with jax.debug_nans(True), jax.debug_infs(True), jax.disable_jit():
        got = pool(x)
    np.testing.assert_array_equal(got, np.zeros(got.shape))


def test_a_maximum_has_the_derivative_of_its_first_element() -> None:
    x = jnp.array([[1.0, 5.0, 5.0], [5.0, 2.0, 5.0], [0.0, 0.0, 0.0]])
    boxes = np.array([[0, 0, 2, 1], [2, 0, 2, 1], [1, 1, 1, 1], [9, 9, 9, 9]], np.float32)
    for dtype in (jnp.float32, jnp.bfloat16):
        pool = lambda x: jaxpool.roi_pool(x, boxes, 1, data_format="HW").sum()  # noqa: E731
        got = jax.jit(jax.grad(pool), compiler_options=QUICK)(x.astype(dtype))
        want = jnp.array([[0, 1, 1], [0, 1, 0], [0, 0, 0]], dtype)
        assert_same(got, want, dtype)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("op", OPS)
def test_what_is_not_finite_stays_where_it_is_read(op: str, value: float) -> None:
    x = X.copy()
    x[0, :, 1, 1] = value
    boxes = np.array([[0, 0, 0, 1, 1], [0, 2, 2, 4, 5], [1, 0, 0, 3, 3]], np.float32) + 0.25
    boxes[:, 0] = [0, 0, 1]
    op_of = lambda x: getattr(jaxpool, op)(x, boxes, (1, 1), data_format="NCHW")  # noqa: E731
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    pool = quick(op_of)
    got, clean = pool(x), pool(X)
    assert_same(got[1:], clean[1:], "elsewhere")
    if op == "roi_pool" and value == -np.inf:
        assert np.isfinite(got[0]).all()
    elif op != "ps_roi_pool":
        assert_same(got[0], np.full_like(clean[0], value), "there")
    both = x.copy()
    both[0, :, 0, 1] = -value
    if op == "roi_align":
        assert np.isnan(pool(both)[0]).all()
    finite = lambda y: jnp.where(jnp.isfinite(y), y, 0).sum()  # noqa: E731
    assert np.isfinite(quick(jax.grad(lambda x: finite(op_of(x))))(x)).all()


@pytest.mark.parametrize("op", OPS)
def test_narrow_floats_are_rounded_once(op: str) -> None:
    x = jnp.asarray(X, jnp.bfloat16)
    pool = functools.partial(getattr(jaxpool, op), boxes=BOXES, output_size=(2, 2))
    quick = jax.jit(functools.partial(pool, data_format="NCHW"), compiler_options=QUICK)
    assert_same(quick(x), quick(x.astype(jnp.float32)).astype(jnp.bfloat16), op)


@pytest.mark.parametrize("op", OPS)
def test_gradients_of_narrow_floats_are_rounded_once(op: str) -> None:
    """Many boxes read an element: in bfloat16, 256 + 1 is 256."""
    x, boxes = jnp.asarray(X[:1], jnp.bfloat16), np.array([[0, 0, 0, 3, 4]] * 600, np.float32)
    pool = functools.partial(getattr(jaxpool, op), boxes=boxes, output_size=2, data_format="NCHW")
    gradient = jax.jit(jax.grad(lambda x: pool(x).astype(jnp.float32).sum()))
    want = gradient(x.astype(jnp.float32))
    assert_same(gradient(x), want.astype(jnp.bfloat16), op)
    assert op != "roi_pool" or np.max(want) > 512


def _gradient_of_many_boxes(op: str) -> Any:
    """Return a gradient, traced for 500 boxes on two images."""
    x = jax.ShapeDtypeStruct((2, 30, 40, 64), jnp.float32)
    boxes = jax.ShapeDtypeStruct((500, 5), jnp.float32)
    pool = lambda x, boxes: (getattr(jaxpool, op)(x, boxes, (2, 2)) ** 2).sum()  # noqa: E731
    return jax.jit(jax.grad(pool)).trace(x, boxes)


@pytest.mark.parametrize("op", OPS)
def test_programs_of_gpu_and_tpu_have_no_scatter(op: str) -> None:
    traced = _gradient_of_many_boxes(op)
    for platform in ("cuda", "rocm", "tpu"):
        assert not re.search(
            r"stablehlo\.\w*scatter", traced.lower(lowering_platforms=(platform,)).as_text()
        )


@pytest.mark.cpu_program
@of_elements_and_images
@pytest.mark.parametrize("op", OPS)
def test_programs_have_neither_a_scatter_nor_an_array_of_boxes_and_images(
    op: str, of_images: bool
) -> None:
    """CPU scatters only where it reads the elements of boxes, in a fixed order."""
    program = _gradient_of_many_boxes(op).lower().compile()
    assert not of_images or " scatter(" not in (program.as_text() or "")
    memory: Any = program.memory_analysis()
    assert memory.temp_size_in_bytes < 500 * 30 * 40 * 64 * 4 / 4


@pytest.mark.cpu_program
@pytest.mark.parametrize("op", OPS)
def test_cpu_reads_and_writes_only_the_elements_of_boxes(op: str) -> None:
    """Values and cotangents that are not finite leave the other elements and boxes alone."""
    x = jnp.arange(1 * 6 * 7 * 4, dtype=jnp.float32).reshape(1, 6, 7, 4)
    boxes = jnp.array([[0, 1.0, 1.0, 2.0, 3.0], [0, 4.0, 2.0, 6.0, 5.0]])
    y, back = jax.vjp(lambda x: getattr(jaxpool, op)(x, boxes, (2, 2)), x)
    slope = back(y.at[0].set(np.nan))[0]
    is_nan = np.isnan(slope).any((0, 3))
    assert is_nan.any() and not is_nan[4:].any() and not is_nan[:, 4:].any()
    np.testing.assert_array_equal(slope[:, :, 4:], back(y.at[0].set(0))[0][:, :, 4:])


@pytest.mark.parametrize("op", OPS)
def test_a_batch_of_boxes_of_all_sizes_has_one_loop(op: str) -> None:
    """Under vmap, examples with smaller boxes neither read further nor copy what they have."""
    x, pool = jnp.moveaxis(jnp.asarray(X), 1, -1), getattr(jaxpool, op)
    boxes = jnp.array([[[0, 0, 0, 4, 5]], [[1, 1, 1, 2, 2]], [[5, 0, 0, 1, 1]], [[1, 3, -9, 1, 9]]])

    def both(boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, back = jax.vjp(lambda x: pool(x, boxes.astype(jnp.float32), (2, 2)), x)
        return y, back(jnp.cos(y))[0]

    for got, want in zip(jax.jit(jax.vmap(both))(boxes), jax.lax.map(both, boxes), strict=True):
        assert_same(got, want, op, ulps=4)
    nested = jax.make_jaxpr(jax.vmap(jax.vmap(both)))(jnp.stack([boxes, boxes]))
    conditions = re.findall(r"cond_jaxpr=\{(.*?)\}", str(nested), re.S)
    assert conditions and all(re.search(r":bool\[\] = lt", each) for each in conditions)


@pytest.mark.cpu_program
def test_few_samples_are_all_that_cpu_reads() -> None:
    """Neither values nor gradients store an array as large as an image, besides the gradient."""
    x = jax.ShapeDtypeStruct((2, 200, 150, 16), jnp.float32)
    boxes = jax.ShapeDtypeStruct((9, 5), jnp.float32)
    pool = lambda x, boxes: jaxpool.roi_align(x, boxes, 2, sampling_ratio=2)  # noqa: E731
    for program in (pool, jax.grad(lambda x, boxes: (pool(x, boxes) ** 2).sum())):
        memory: Any = jax.jit(program).lower(x, boxes).compile().memory_analysis()
        assert memory.temp_size_in_bytes < 200 * 150 * 16 * 4 / 20


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_neighbour_without_weight_is_not_read(value: float) -> None:
    """A sample at an element, and a box without an image, read no other element."""
    x = jnp.ones((1, 4, 5, 1)).at[0, 2].set(value).at[0, :, 3].set(value).at[0, 0, 0].set(value)
    boxes = jnp.array([[0, 1.0, 0.0, 3.0, 2.0], [1, 0, 0, 5, 5], [0, 50, 50, 60, 60]])
    pool = lambda x: jaxpool.roi_align(x, boxes, 1, sampling_ratio=1)  # noqa: E731
    y, back = jax.vjp(jax.jit(pool), x)
    assert_same(y.ravel(), np.array([1, 0, 0], np.float32), value)
    slope = back(jnp.array([1, value, value], y.dtype).reshape(y.shape))[0]
    np.testing.assert_array_equal(slope, jnp.zeros_like(x).at[0, 1, 2].set(1))


@pytest.mark.parametrize("op", OPS)
def test_nothing_gives_nothing(op: str) -> None:
    pool = getattr(jaxpool, op)
    assert pool(np.ones((2, 5, 4, 8), np.float32), np.ones((0, 5)), (2, 2)).shape[0] == 0
    for shape in ((0, 5, 4, 8), (2, 0, 4, 8), (2, 5, 4, 0)):
        got = pool(np.ones(shape, np.float32), BOXES, (2, 2))
        assert got.shape[:3] == (len(BOXES), 2, 2) and not np.any(got)


def test_boxes_of_each_image_are_told_how_to_be_one_array() -> None:
    x, boxes = jax.random.normal(jax.random.key(0), (2, 5, 4, 8)), jnp.stack([BOXES[:3, 1:]] * 2)
    with pytest.raises(ValueError, match=r", here boxes\.reshape") as e:
        jaxpool.roi_align(x, boxes, (2, 2))
    reshaped, numbers = str(e.value).partition(", here ")[2].rstrip(".").split(" and ")
    names = {"boxes": boxes, "jnp": jnp}
    got = jaxpool.roi_align(x, eval(reshaped, names), (2, 2), batch_index=eval(numbers, names))
    each = jax.vmap(lambda x, boxes: jaxpool.roi_align(x, boxes, (2, 2), data_format="HWC"))
    assert got.shape == (6, 2, 2, 8)
    assert (got == each(x, boxes).reshape(got.shape)).all()


@pytest.mark.parametrize("op", OPS)
def test_a_list_of_boxes_is_told_how_to_be_one_array(op: str) -> None:
    x, pool = jax.random.normal(jax.random.key(0), (2, 5, 4, 8)), getattr(jaxpool, op)
    for lengths in ((2, 3), (2, 2)):
        boxes = [jnp.asarray(BOXES[:length, 1:]) for length in lengths]
        with pytest.raises(TypeError, match=f"^{op}: `boxes` is a list of 2 arrays") as e:
            pool(x, boxes, (2, 2))
        advice = str(e.value).partition("Give ")[2].removesuffix(".")
        joined, numbers = advice.split(", and as `batch_index` ")
        names = {"boxes": boxes, "jnp": jnp, "np": np}
        got = pool(x, eval(joined, names), (2, 2), batch_index=eval(numbers, names))
        each = [pool(x[n : n + 1], boxes[n], (2, 2), batch_index=np.zeros(lengths[n], int))
                for n in range(2)]  # fmt: skip
        assert_same(got, jnp.concatenate(each), lengths, ulps=4)


@pytest.mark.parametrize(
    ("words", "kind", "pattern"),
    [
        ({"boxes": np.ones((3, 4))}, ValueError, r"`boxes` has shape \(3, 4\)"),
        ({"boxes": np.ones(5)}, ValueError, r"`boxes` has shape \(5,\)"),
        ({"boxes": np.ones((3, 5), bool)}, TypeError, "`boxes` has dtype bool"),
        ({"boxes": "all"}, TypeError, "`boxes` is 'all'"),
        ({"boxes": np.ones((3, 4)), "batch_index": np.ones(2, int)}, ValueError, "`batch_index`"),
        (
            {"boxes": np.ones((3, 4)), "batch_index": np.ones(3)},
            TypeError,
            "`batch_index` is float",
        ),
        ({"output_size": 0}, ValueError, "`output_size` contains 0"),
        ({"output_size": (1, 2, 3)}, ValueError, "`output_size` = .* has 3 entries"),
        ({"output_size": 10**6}, ValueError, "`output_size` contains 1000000"),
        ({"spatial_scale": 0}, ValueError, "`spatial_scale` = 0"),
        ({"data_format": "NDHWC"}, ValueError, "`data_format` = 'NDHWC'"),
        ({"data_format": "NWC"}, ValueError, "`data_format` = 'NWC'"),
        ({"data_format": "HW", "batch_index": None}, ValueError, "the array has 4 axes"),
        ({"x": np.ones((2, 5, 4, 8), int)}, TypeError, "the array has dtype int"),
    ],
)
@pytest.mark.parametrize("op", OPS)
def test_errors_name_the_argument(
    op: str, words: dict[str, Any], kind: type[Exception], pattern: str
) -> None:
    call: dict[str, Any] = {"x": np.ones((2, 5, 4, 8), np.float32), "boxes": BOXES}
    with pytest.raises(kind, match=f"^{op}: {pattern}"):
        getattr(jaxpool, op)(**{**call, "output_size": 2, **words})


def test_errors_of_single_ops() -> None:
    x = np.ones((2, 5, 4, 6), np.float32)
    for op in ("ps_roi_align", "ps_roi_pool"):
        with pytest.raises(ValueError, match=f"^{op}: the array has 6 channels"):
            getattr(jaxpool, op)(x, BOXES, 2)
    for ratio, kind in ((-2, ValueError), (1.5, TypeError), (10**6, ValueError)):
        with pytest.raises(kind, match="^roi_align: `sampling_ratio`"):
            jaxpool.roi_align(x, BOXES, 2, sampling_ratio=ratio)  # pyright: ignore
    with pytest.raises(TypeError, match="^roi_align: `aligned` = 1 is not a bool"):
        jaxpool.roi_align(x, BOXES, 2, aligned=1)  # pyright: ignore
    with pytest.raises(ValueError, match="^roi_align: `batch_index` is given"):
        jaxpool.roi_align(x[0], BOXES[:, 1:], 2, batch_index=np.zeros(8, int))


# --- several boxes per step -----------------------------------------------------------------------


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("count", [2, 5, 7])
def test_boxes_at_once_are_those_in_turn(images: int, count: int, rng: np.random.Generator) -> None:
    """The programs of GPU and TPU, with steps that divide the seven boxes or do not."""
    x = jnp.asarray(permutation((images, 4, 5, 2), np.float32, rng))
    arrays = (rng.integers(0, images, 7), rng.random((7, 2, 4)), rng.random((7, 3, 5)))
    boxes = lowered_boxes.Boxes(*map(jnp.asarray, arrays))

    def one(image: Any, box: lowered_boxes.Boxes) -> Any:
        return jnp.einsum("ph,qw,hwc->pqc", box.rows, box.columns, image)

    def back(g: Any, box: lowered_boxes.Boxes) -> Any:
        return jnp.einsum("ph,qw,pqc->hwc", box.rows, box.columns, g)

    y = lowered_boxes._each_in_steps(one, x, boxes, count)
    assert_same(y, lowered_boxes._each_sequentially(one, x, boxes), count, ulps=8)
    y = y.at[0].set(np.nan)  # of one image only
    g = lowered_boxes._add_in_steps(back, y, boxes, x.shape, count)
    assert images == 1 or bool(jnp.isfinite(g).any())
    assert_same(g, lowered_boxes._add_sequentially(back, y, boxes, x.shape), count, ulps=8)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("op", OPS)
def test_no_box_is_a_step_of_its_own_on(op: str, platform: str) -> None:
    """A thousand boxes of small images take one step, with gradients; large images take several."""
    boxes = jax.ShapeDtypeStruct((1000, 5), np.float32)

    def both(x: Any, boxes: Any) -> Any:
        y, pull = jax.vjp(lambda x: getattr(jaxpool, op)(x, boxes, 2), x)
        return y, pull(y)

    def loops(side: int) -> int:
        x = jax.ShapeDtypeStruct((2, side, side, 8), np.float32)
        traced = jax.jit(both).trace(x, boxes)
        return traced.lower(lowering_platforms=(platform,)).as_text().count("stablehlo.while")

    assert loops(16) == 0
    assert loops(256) > 0


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_the_number_of_an_image_may_be_narrow(dtype: str) -> None:
    """More images than the dtype has numbers: image numbers must not wrap."""
    images, first = jnp.ones((300, 2, 3, 1)), 100 if dtype == "int8" else 200
    boxes, numbers = jnp.array([[0.0, 0, 2, 2]] * 2), jnp.array([first, 3], dtype)
    for op in (jaxpool.roi_align, jaxpool.roi_pool, jaxpool.ps_roi_align, jaxpool.ps_roi_pool):
        y = op(images, boxes, 1, batch_index=numbers)
        assert_same(y, np.ones((2, 1, 1, 1), np.float32), (op.__name__, dtype))
    if dtype in ("int8", "int32"):
        whole = jnp.array([[first, 0, 0, 2, 2]], dtype)
        assert_same(jaxpool.roi_align(images, whole, 1), np.ones((1, 1, 1, 1), np.float32), dtype)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_the_number_of_an_image_may_be_a_narrow_float(dtype: str) -> None:
    """A dtype that does not represent the largest image number represents smaller ones."""
    images = jnp.arange(3.0).reshape(3, 1, 1, 1) + jnp.ones((3, 2, 3, 1))
    boxes = jnp.array([[n, 0, 0, 2, 2] for n in (2, -1, 0, 7, np.nan, 1)], dtype)
    y = jaxpool.roi_align(images, boxes, 1)
    assert_same(y.ravel(), np.array([3, 0, 1, 0, 0, 2], np.float32), dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_the_number_of_an_image_does_not_wrap(dtype: str, op: str) -> None:
    """A number that 32 bits cannot represent refers to no image."""
    images, boxes = np.ones((2, 3, 3, 1), np.float32), np.array([[0.0, 0, 2, 2]] * 5, np.float32)
    other = -(2**32) if dtype == "int64" else 2**64 - 2**32
    numbers = np.array([1, 2**31, 2**32, 2**32 + 1, other], dtype)
    pool = lambda numbers: getattr(jaxpool, op)(images, boxes, 1, batch_index=numbers)  # noqa: E731
    with jax.enable_x64(True):
        older = jnp.asarray(numbers)
        np.testing.assert_array_equal(pool(older).ravel(), [1, 0, 0, 0, 0])
    for array in (numbers, older):
        np.testing.assert_array_equal(pool(array).ravel(), [1, 0, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("size, bins", [((32, 32, 8), 1), ((16, 20, 3), 14)])
def test_a_maximum_in_a_large_image_is_nan_if_its_bin_has_one(
    size: tuple[int, ...], bins: int, dtype: str
) -> None:
    """XLA:CPU drops NaN from large reductions of floats."""
    x = jnp.zeros((1, *size), dtype).at[0, 5, 6, 0].set(jnp.nan)
    boxes = jnp.array([[0, 0, 0, size[1] - 1.0, size[0] - 1]], jnp.float32)
    pool = lambda x: jaxpool.roi_pool(x, boxes, bins)  # noqa: E731
    y, back = jax.vjp(pool, x)
    found = np.isnan(np.asarray(y, np.float32))
    assert found[..., 0].sum() >= 1 and not found[..., 1:].any()
    gradient = np.asarray(back(jnp.asarray(found, dtype))[0], np.float32)
    assert gradient[0, 5, 6, 0] == found.sum() == gradient.sum()


@pytest.mark.parametrize("op", ["roi_align", "ps_roi_align", "ps_roi_pool"])
@pytest.mark.parametrize("element", [np.inf, np.nan])
def test_derivatives_do_not_depend_on_elements(op: str, element: float) -> None:
    """A pool of regions is linear in the image, also where the image is not finite."""
    x, boxes = jnp.arange(16.0).reshape(1, 4, 4, 1), jnp.array([[0.0, 0, 0, 4, 4]])
    pool = lambda x: getattr(jaxpool, op)(x, boxes, 1).sum()  # noqa: E731
    odd = x.at[0, 1, 1, 0].set(element)
    np.testing.assert_array_equal(jax.grad(pool)(odd), jax.grad(pool)(x))
    tangents = [jax.jvp(pool, (a,), (jnp.ones_like(x),))[1] for a in (odd, x)]
    np.testing.assert_array_equal(*tangents)


@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_a_sum_gathers_what_its_weights_say(ratio: int, rng: np.random.Generator) -> None:
    """Two implementations: over whole images, and from the elements around each sample."""
    x = rng.standard_normal((3, 9, 11, 2)).astype(np.float32)
    number = np.array([2, 0, 1, 1, 0], np.int32)
    start = np.array([[-1.5, 0.2], [3.7, -0.4], [8.2, 10.6], [-9, 4], [2, 2]], np.float32)
    size = np.array([[4.2, 7.5], [9.9, 0.3], [0.8, 0.9], [3, 3], [0, 5.5]], np.float32)
    bins, axes = (2, 3), ((0, 9), (1, 11))

    def both(x: jax.Array, number: jax.Array, start: jax.Array, size: jax.Array) -> Any:
        of_axis: list[Any] = [
            (start[:, n], size[:, n], bins[n], length, ratio) for n, length in axes
        ]
        weights = [regions.sample_weights(*a) for a in of_axis]
        near = [regions.sampled_elements(*a) for a in of_axis]
        sampled = lowered_boxes.SampledElements(*near[0], *near[1])
        boxes = lowered_boxes.Boxes(number, *weights)
        dense = maps.sums(x, boxes)
        back = jax.linear_transpose(lambda x: maps.sums(x, boxes), x)
        transposes = [
            back(jnp.sin(dense))[0],
            lowered_boxes.scatter_sums(jnp.sin(dense), number, sampled, x.shape),
        ]
        return dense, lowered_boxes._gather_sums(x, number, sampled), *transposes

    dense, gathered, summed, scattered = jax.jit(both, compiler_options=QUICK)(
        x, number, start, size
    )
    np.testing.assert_allclose(gathered, dense, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scattered, summed, rtol=1e-5, atol=1e-6)
    assert np.any(dense[0]) and not np.any(dense[3])


@pytest.mark.deep
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_large_images_give_the_same_on_every_platform(
    platform: str, rng: np.random.Generator
) -> None:
    """If boxes read a small part of an image, GPU and TPU gather, and CPU also scatters."""
    x = jnp.asarray(rng.standard_normal((2, 64, 48, 3)), jnp.float32)
    boxes = jnp.array(
        [[1, 3.0, 4, 40, 50], [0, -9, 20, 70, 90], [1, 5, 5, 5.5, 6], [7, 0, 0, 9, 9]]
    )

    def both(x: jax.Array, boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        pool = lambda x: jaxpool.roi_align(x, boxes, (2, 3), sampling_ratio=2)  # noqa: E731
        y, pull = jax.vjp(pool, x)
        return y, pull(jnp.cos(jnp.nan_to_num(y, posinf=2)))[0]

    assert x[0, ..., 0].size > tuning.MIN_RATIO_GATHERED_ON_TPU * (2 * 4) * (3 * 4)
    run = lowered(both, platform, x, boxes)
    for image in (x, x.at[1, 5, 5, 0].set(jnp.inf).at[0, 9, 9, 1].set(jnp.nan)):
        for got, want in zip(run(image, boxes), jax.jit(both)(image, boxes), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
