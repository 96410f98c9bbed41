"""``jaxpool.compat.torch`` against the installed PyTorch and against its recorded runs.

The tests compare values, indices, gradients and refusals of random calls of every function, valid
and invalid, with NaN, infinities and ties. Known differences:

* a dilated window without an element: PyTorch returns the index of an element that it never read,
  jaxpool -1 (PyTorch's backward writes to that index, so the gradient is not compared);
* dtypes that PyTorch has no kernel for are not drawn.
"""

import functools
import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compat_cases import (
    BATCH,
    BATCHES,
    Case,
    Outcome,
    Refused,
    agrees_with_record,
    array,
    check_batch,
    cotangent,
    generator,
)
from golden import CASES, read, recorded_runs
from helpers import QUICK
from peers import require

import jaxpool
from jaxpool.compat import torch as front

pytestmark = pytest.mark.grid(8)

torch: Any = require("torch")
functional = torch.nn.functional

FUNCTIONS = ["max"] * 9 + ["avg"] * 6 + ["lp"] * 2 + ["adaptive"] * 2 + ["unpool", "fractional"]


# --- drawing --------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    rng = generator("torch front end", seed)
    kind = str(rng.choice(FUNCTIONS))
    count = int(rng.choice([1, 1, 2, 2, 2, 3]))
    lead = tuple(int(n) for n in rng.permutation([1, 2, 3])[:2])
    lead = lead[1:] if rng.random() < 0.2 else lead
    if kind == "adaptive":
        return draw_adaptive(rng, count, lead)
    if kind == "fractional":
        return draw_fractional(rng, max(count, 2), lead)
    if kind == "unpool":
        return draw_unpool(rng, count, lead)
    return draw_window(rng, kind, count, lead)


def one_or_each(rng: np.random.Generator, numbers: np.ndarray) -> int | tuple[int, ...]:
    """Return the numbers, or one int for all axes; an invalid call has a wrong number."""
    if rng.random() < 0.01:
        return tuple(map(int, [*numbers, 1]))
    if rng.random() < 0.01:
        return 0
    return int(numbers[0]) if rng.random() < 0.15 else tuple(map(int, numbers))


def draw_window(rng: np.random.Generator, kind: str, count: int, lead: tuple[int, ...]) -> Case:
    kernel = rng.permutation(np.arange(1, 6 if count < 3 else 5))[:count]
    dilation = rng.integers(1, 4, count) if kind == "max" and rng.random() < 0.6 else kernel * 0 + 1
    pad = rng.integers(0, kernel // 2 + 1) if kind != "lp" and rng.random() < 0.8 else kernel * 0
    if rng.random() < 0.03:
        pad = pad + 1
    span = (kernel - 1) * dilation + 1
    spare = rng.integers(0, 7, count) - (rng.random() < 0.1)
    size = np.maximum(span - 2 * pad + spare, 1)
    if (dilation > 1).any() and rng.random() < 0.1:  # taps on elements -1 and 3 of three
        kernel[0], dilation[0], pad[0], size[0] = 2, 4, 1, 3
    words: dict[str, Any] = {"kernel_size": one_or_each(rng, kernel)}
    if rng.random() < 0.8:
        words["stride"] = one_or_each(rng, rng.permutation(np.arange(1, 5))[:count])
    words["ceil_mode"] = bool(rng.random() < 0.6)
    dtype, special, gradient = "float32", False, rng.random() < 0.35
    if kind == "lp":
        words["norm_type"] = [1, 2, 3, 2.0, math.inf, -math.inf][rng.integers(6)]
        words["kernel_size"] = int(kernel[0]) if count == 1 else words["kernel_size"]
        return Case(f"lp_pool{count}d", (array(rng, (*lead, *size)),), words)
    words["padding"] = one_or_each(rng, pad) if pad.any() else 0
    if kind == "max":
        words["dilation"] = one_or_each(rng, dilation)
        words["return_indices"] = bool(rng.random() < 0.7)
        special = rng.random() < 0.4
        if not special and (words["return_indices"] or count > 1):
            dtype = str(rng.choice(["float32", "float16", "float64", "int8", "uint8", "int64"]))
        if dtype != "float32" or (dilation > 1).any():
            gradient = False
    else:
        words["count_include_pad"] = bool(rng.random() < 0.5)
        if count > 1 and rng.random() < 0.3:
            words["divisor_override"] = int(rng.choice([-3, -1, 0, 2, 5, 7]))
        dtype = str(rng.choice(["float32", "float32", "float64", "int64"]))
        gradient = gradient and dtype == "float32"
    # Sums of large integers wrap in PyTorch; the front end's are exact.
    x = array(rng, (*lead, *size), dtype, special, extremes=kind == "max")
    return Case(f"{kind}_pool{count}d", (x,), words, bool(gradient))


def draw_adaptive(rng: np.random.Generator, count: int, lead: tuple[int, ...]) -> Case:
    kind = str(rng.choice(["max", "avg"]))
    size = rng.permutation(np.arange(1, 10))[:count]
    wanted = tuple(map(int, rng.integers(0 if rng.random() < 0.1 else 1, 7, count)))
    words: dict[str, Any] = {"output_size": wanted}
    if kind == "max":
        words["return_indices"] = bool(rng.random() < 0.7)
    x = array(rng, (*lead, *size), special=kind == "max" and rng.random() < 0.5)
    gradient = 0 not in wanted and rng.random() < 0.3  # PyTorch has no gradient of an empty result
    return Case(f"adaptive_{kind}_pool{count}d", (x,), words, bool(gradient))


def draw_fractional(rng: np.random.Generator, count: int, lead: tuple[int, ...]) -> Case:
    size = rng.permutation(np.arange(4, 10))[:count]
    words: dict[str, Any] = {
        "kernel_size": tuple(map(int, rng.integers(1, 4, count))),
        "output_size": tuple(map(int, rng.integers(1, 5, count))),
        "return_indices": True,
    }
    if rng.random() < 0.3:
        words["output_size"], words["output_ratio"] = None, (0.5, 0.3, 0.4)[:count]
    samples = (*(lead if len(lead) == 2 else (1, *lead)), count)
    seed = rng.integers(1_000_000)
    code = f"np.random.default_rng({seed}).random({samples}, np.float32)"
    x = array(rng, (*lead, *size), special=rng.random() < 0.3)
    return Case(f"fractional_max_pool{count}d", (x, code), words)


def draw_unpool(rng: np.random.Generator, count: int, lead: tuple[int, ...]) -> Case:
    size, stride = rng.integers(1, 5, count), rng.integers(1, 4, count)
    kernel = rng.integers(1, 4, count)
    pad = rng.integers(0, kernel // 2 + 1)
    whole = (size - 1) * stride + kernel - 2 * pad
    if (whole < 1).any():  # PyTorch then gives an empty result and drops every value
        return draw_unpool(rng, count, lead)
    words: dict[str, Any] = {
        "kernel_size": tuple(map(int, kernel)),
        "stride": tuple(map(int, stride)),
        "padding": tuple(map(int, pad)),
    }
    if rng.random() < 0.5:
        whole = whole + rng.integers(0, 3, count)
        words["output_size"] = tuple(map(int, whole))
    shape, elements = (*map(int, lead), *map(int, size)), int(np.prod(whole))
    seed = rng.integers(1_000_000)
    indices = f"np.random.default_rng({seed}).integers(0, {elements}, {shape})"
    return Case(f"max_unpool{count}d", (array(rng, shape), indices), words)


# --- PyTorch --------------------------------------------------------------------------------------


def run_torch(case: Case) -> Outcome:
    tensors = [torch.from_numpy(a) for a in case.data()]
    words = dict(case.words)
    if case.function.startswith("fractional"):
        words["_random_samples"] = tensors.pop()
    try:
        first = tensors[0].requires_grad_(case.gradient)
        result = getattr(functional, case.function)(*tensors, **words)
        parts = result if isinstance(result, tuple) else (result,)
        outputs = [part.detach().numpy() for part in parts]
        if case.gradient:
            back = torch.from_numpy(cotangent(parts[0].shape, np.float32))
            outputs.append(torch.autograd.grad(parts[0], first, back)[0].numpy())
        return tuple(outputs)
    except (RuntimeError, ValueError, TypeError) as error:
        assert "not implemented for" not in str(error), case.code
        return Refused(error)


class Ours:
    """The front end; the samples of fractional pooling are its second array."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(front, name)
        if not name.startswith("fractional"):
            return function
        return lambda x, samples, **words: function(x, **words, _random_samples=samples)


def ulps(case: Case) -> float:
    """Return the tolerance: sums may have any order, and roots differ in the last place."""
    if case.function.startswith(("avg", "adaptive_avg")):
        return 4
    return 16 if case.function.startswith("lp") else 0


def without_hollow_indices(case: Case, ours: Outcome, theirs: Outcome) -> tuple[Outcome, Outcome]:
    """Return both outcomes with equal indices for windows without an element."""
    if isinstance(ours, Refused) or isinstance(theirs, Refused):
        return ours, theirs
    if not case.words.get("return_indices") or not (ours[1] == -1).any():
        return ours, theirs
    hollow = ours[1] == -1
    start = -np.inf if ours[0].dtype.kind == "f" else np.iinfo(ours[0].dtype).min
    assert (theirs[0][hollow] == start).all(), case.code
    return ours, (theirs[0], np.where(hollow, -1, theirs[1]), *theirs[2:])


def with_signed_sums(case: Case, ours: Outcome, theirs: Outcome) -> tuple[Outcome, Outcome]:
    """Return norms of odd p as sums, which may cancel: a root amplifies small differences."""
    p = case.words.get("norm_type", 2)
    odd = case.function.startswith("lp") and p % 2 == 1
    if isinstance(ours, Refused) or isinstance(theirs, Refused) or not odd:
        return ours, theirs

    def summed(norms: tuple[np.ndarray, ...]) -> Outcome:
        return tuple((y.astype(float) ** p).astype(y.dtype) for y in norms)

    return summed(ours), summed(theirs)


def comparable(case: Case, ours: Outcome, theirs: Outcome) -> tuple[Outcome, Outcome]:
    return with_signed_sums(case, *without_hollow_indices(case, ours, theirs))


@pytest.mark.grid(24)
@pytest.mark.parametrize("number", BATCHES)
def test_random_calls_give_what_torch_gives(number: int) -> None:
    cases = [draw(number * BATCH + n) for n in range(BATCH)]
    check_batch(Ours(), cases, run_torch, ulps, comparable)  # pyright: ignore


def test_the_draws_reach_every_function_and_every_answer() -> None:
    cases = [draw(seed) for seed in range(500)]
    names = {f"{op}{n}d" for op in ("max_pool", "avg_pool", "lp_pool", "adaptive_max_pool",
             "adaptive_avg_pool", "max_unpool") for n in (1, 2, 3)}  # fmt: skip
    names |= {"fractional_max_pool2d", "fractional_max_pool3d"}
    assert {case.function for case in cases} == names
    answers = [run_torch(case) for case in cases]
    refused = [a for a in answers if isinstance(a, Refused)]
    assert 20 <= len(refused) <= 150
    assert sum(case.gradient for case in cases) >= 40
    nan = [a for a in answers if not isinstance(a, Refused) and np.isnan(a[0].astype(float)).any()]
    assert len(nan) >= 30


# --- recorded runs --------------------------------------------------------------------------------

# Case -> why the front end differs from the recorded run.
OTHERWISE = {
    "max_dilation_hole_1d": "PyTorch's index of an empty window is of an element it never read",
    "max_dilation_hole_2d_W": "the same, and its gradient goes there",
    "avg_int8_halves": "PyTorch has no kernel for this dtype",
    "avg_int32_halves": "PyTorch has no kernel for this dtype",
    "avg_uint8_halves": "PyTorch has no kernel for this dtype",
    "avg_int8_thirds_pad": "PyTorch has no kernel for this dtype",
    "avg_int32_sum_overflow": "PyTorch has no kernel for this dtype",
    "avg_int32_above_2_24": "PyTorch has no kernel for this dtype",
}


def recorded_call(case: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the function and its arguments after the array."""
    attrs, count = case["attrs"], len(case["x"]["shape"]) - 2
    if case["op"] == "global_avg":
        return f"adaptive_avg_pool{count}d", {"output_size": (1,) * count}
    if case["op"].startswith("adaptive"):
        words: dict[str, Any] = {"output_size": tuple(attrs["output_size"])}
        if case["op"] == "adaptive_max":
            words["return_indices"] = True
        return f"{case['op']}_pool{count}d", words
    if case["op"] == "fractional_max":
        samples = np.array(attrs["samples"], np.float32).reshape(1, 1, count)
        words = {"kernel_size": attrs["kernel_size"], "output_size": attrs["output_size"]}
        words |= {"return_indices": True, "_random_samples": samples}
        return f"fractional_max_pool{count}d", words
    words = {"kernel_size": attrs["kernel"], "stride": attrs["strides"]}
    count = len(attrs["kernel"])
    if case["op"] == "max_unpool":
        plane = np.prod(attrs.get("output_size", [4]), dtype=int)
        indices = read(case["extra_inputs"]["indices"])
        indices = indices % plane if indices.shape[1] > 1 else indices  # recorded as ONNX counts
        words |= {"indices": indices, "output_size": attrs.get("output_size")}
        return f"max_unpool{count}d", words
    words["ceil_mode"] = attrs["rounding"] != "floor"
    if case["op"] == "lp_pool":
        kernel = attrs["kernel"] if count > 1 else attrs["kernel"][0]
        return f"lp_pool{count}d", words | {"norm_type": attrs["p"], "kernel_size": kernel}
    words["padding"] = same_padding(attrs) if attrs["auto_pad"] == "valid" else attrs["pads_begin"]
    if case["op"] == "max_pool":
        words |= {"dilation": attrs["dilations"], "return_indices": True}
        return f"max_pool{count}d", words
    words["count_include_pad"] = attrs["include_pad"]
    if "divisor_override" in attrs:
        words["divisor_override"] = attrs["divisor_override"]
    return f"avg_pool{count}d", words


def same_padding(attrs: dict[str, Any]) -> list[int]:
    return [0] * len(attrs["kernel"])


@pytest.mark.parametrize("name", [name for name, _ in recorded_runs("torch")])
def test_recorded_runs(name: str) -> None:
    case = CASES[name]
    function, words = recorded_call(case)
    call = functools.partial(getattr(front, function), **words)
    agrees = agrees_with_record(call, read(case["x"]), case["runs"]["torch"], (ValueError,))
    assert agrees == (name not in OTHERWISE)


# --- the words ------------------------------------------------------------------------------------

X = jnp.zeros((1, 2, 6, 7))
WRONG = {
    "half the window": (("max_pool2d", 3), {"padding": 2}, ValueError, "`padding` = 2 is more th"),
    "kernel": (("max_pool2d", 0), {}, ValueError, "`kernel_size` contains 0."),
    "stride": (("avg_pool2d", 2, (1, 0)), {}, ValueError, "`stride` contains 0."),
    "float": (("avg_pool2d", 2.5), {}, TypeError, "`kernel_size` contains 2.5"),
    "three": (("max_pool2d", (2, 2, 2)), {}, ValueError, "`kernel_size` = .* has 3 entries."),
    "fit": (("max_pool2d", (7, 2)), {}, ValueError, "`kernel_size` = 7 does not fit pooled axis 0"),
    "bare axis": (
        ("avg_pool3d", 5, 1, 2), {}, ValueError,
        r"= 5 does not fit pooled axis 0(.|\n)*2 elements, without(.|\n)*pad the array itself",
    ),
    "rank": (("max_pool1d", 2), {}, ValueError, "`input` has 4 axes."),
    "ceil": (("max_pool2d", 2), {"ceil_mode": 1}, TypeError, "`ceil_mode` = 1 is not a bool."),
    "divisor": (("avg_pool2d", 2), {"divisor_override": 0}, ValueError, "out of range"),
    "power": (("lp_pool2d", 0, 2), {}, ValueError, "`norm_type` = 0 is not a valid exponent."),
    "ratio": (("fractional_max_pool2d", 2), {"output_ratio": 0.5}, ValueError, "`output_ratio` = "),
    "index": (
        ("max_unpool2d", np.full((1, 2, 6, 7), 168), 2), {}, ValueError,
        "outside the result(.|\n)*of the array that was pooled as `output_size`, and the layout",
    ),
    "size": (("adaptive_avg_pool2d", (3,)), {}, ValueError, "`output_size` = .* has 1 entry."),
    "array": (("max_pool2d", 2), {"input": "image"}, TypeError, "not an array"),
    "sample": (
        ("fractional_max_pool2d", 2, 2), {"_random_samples": np.ones((1, 2, 2), np.float32)},
        ValueError, "`_random_samples` contain 1.0",
    ),
    "no sample": (
        ("fractional_max_pool2d", 2, 2), {}, ValueError, "neither `key` nor `_random_samples`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("p", [0.5, -0.5, 0.25, 1.5, -1.5, 2, 3, -1, -2])
def test_powers_of_what_has_none(p: float) -> None:
    inf, nan = np.inf, np.nan
    x = [
        [-inf, 4, 9],
        [inf, 4, 9],
        [-0.0, 4, 9],
        [0, 4, 9],
        [-4, 4, 9],
        [-inf, -inf, 1],
        [nan, 1, 2],
    ]
    x = np.array([x], np.float32)
    want = torch.nn.functional.lp_pool1d(torch.from_numpy(x), p, 2, 1).numpy()
    np.testing.assert_allclose(front.lp_pool1d(x, p, 2, 1), want, rtol=1e-5)


def test_numpy_numbers_are_numbers() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 12)
    powers: list[Any] = [np.float32(2), np.int64(3), np.float64(np.inf)]
    for p in powers:
        want = torch.nn.functional.lp_pool1d(torch.from_numpy(x), float(p), 2).numpy()
        np.testing.assert_allclose(front.lp_pool1d(x, p, 2), want, rtol=1e-6)
    ratio: Any = (np.float32(0.5), np.float32(0.5))
    x = x.reshape(1, 1, 4, 3)
    values = front.fractional_max_pool2d(x, 1, output_ratio=ratio, key=jax.random.key(0))
    assert values.shape == (1, 1, 2, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.bool_])
@pytest.mark.parametrize("p", [2, math.inf, -math.inf])
def test_powers_are_of_floats(p: float, dtype: Any) -> None:
    with pytest.raises(TypeError, match="^lp_pool1d: the array has dtype"):
        front.lp_pool1d(np.ones((1, 1, 4), dtype), p, 2)


def test_the_largest_absolute_value_has_a_derivative_beside_nan() -> None:
    for case in ([1.0, 2.0, np.nan], [1.0, np.nan, 3.0, -4.0, -5.0, 0.0]):
        x = np.array([[case]], np.float32)
        tensor = torch.from_numpy(x).requires_grad_()
        torch.nn.functional.lp_pool1d(tensor, math.inf, 2).sum().backward()
        pool = lambda x: front.lp_pool1d(x, math.inf, 2).sum()  # noqa: E731
        got = jax.jit(jax.grad(pool), compiler_options=QUICK)(x)
        np.testing.assert_array_equal(got, tensor.grad.numpy())


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_in_the_words_of_torch(name: str) -> None:
    (function, *args), words, kind, text = WRONG[name]
    x = words.pop("input", X) if "input" in words else X
    with pytest.raises(kind, match=text) as caught:
        getattr(front, function)(x, *args, **words)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and lines[0].startswith(function)


def test_signatures_are_those_of_torch() -> None:
    """Names, order and defaults; those of PyTorch's builtins are only in their documentation."""
    builtins = []
    for name in (name for name in dir(front) if name.endswith("d") and name[0] != "_"):
        theirs = getattr(functional, f"{name}_with_indices", getattr(functional, name))
        if isinstance(theirs, type(functional.avg_pool2d)):
            builtins.append(name)
            continue
        mine = inspect.signature(getattr(front, name)).parameters
        expected = inspect.signature(theirs).parameters
        own = {p: mine[p].default for p in mine if p != "key"}
        assert own == {p: expected[p].default for p in expected}, name
    assert builtins == ["adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d"]
    documented = "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad"
    assert documented in functional.avg_pool2d.__doc__.replace("\n", " ")
    names = list(inspect.signature(front.avg_pool2d).parameters)
    assert names == [*documented.replace("=None", "").replace("=0", "").replace("=False", "")
                     .split(", "), "divisor_override"]  # fmt: skip


def test_key_in_place_of_samples() -> None:
    x, key = jnp.arange(64.0).reshape(1, 8, 8), jax.random.key(3)
    values, indices = front.fractional_max_pool2d(x, 2, 4, return_indices=True, key=key)
    assert (x.reshape(-1)[indices] == values).all()
    assert jaxpool.fractional_max_pool(key, x, (2, 2), 4, data_format="channels_first").tolist() \
        == values.tolist()  # fmt: skip
    with pytest.raises(ValueError, match="key"):
        front.fractional_max_pool2d(x, 2, 4)
