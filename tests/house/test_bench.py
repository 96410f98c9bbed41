"""``python -m jaxpool bench``: both sides are the same pool, and are compared before the timing."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import explain
from jaxpool.__main__ import main
from jaxpool._bench import bench, compare, programs
from jaxpool._bench.race import MIN_ROUNDS, race
from jaxpool.testing import oracle_argmax, oracle_indices, oracle_pool

SHAPE = (2, 13, 9, 3)
ASKED: dict[str, Any] = dict(window_shape=(3, 2), strides=(2, 1), padding=((1, 0), (0, 1)))
OPTIONS = "--window 3,2 --strides 2,1 --padding 1:0,0:1 --seconds 0".split()


def report(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, str]:
    """Return the lines of a complete report, by their heads."""
    shape = ",".join(map(str, SHAPE))
    assert main(["bench", "--shape", shape, *OPTIONS, *more]) == 0
    text = capsys.readouterr().out
    return dict(re.findall(r"^  (\S.*?)  +(.*(?:\n {17}.*)*)$", text, re.MULTILINE))


def lines_of_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return the lines of an error."""
    assert main(["bench", *arguments]) == 1
    return capsys.readouterr().err.splitlines()


BOTH = r"jaxpool ([\d.,e-]+) ms, lax.reduce_window ([\d.,e-]+) ms, ratio ([\d.]+)"


def test_the_report_has_times_and_ratios_of_both_tasks(capsys: pytest.CaptureFixture[str]):
    found = report(capsys)
    assert found["output"] == "(2, 6, 9, 3), from float32 (2, 13, 9, 3)"
    assert found["versions"] == f"jaxpool {jaxpool.__version__}, jax {jax.__version__}"
    assert found["device"] == f"cpu: {jax.devices()[0].device_kind}"
    for task in ("forward", "and backward"):
        assert "results compared: they differ by at most" in found[task]
        for row in ("run", "compile"):
            times = re.search(rf"{row} +{BOTH}$", found[task], re.MULTILINE)
            assert times
            mine, other, ratio = (float(number.replace(",", "")) for number in times.groups())
            assert mine > 0 and ratio == pytest.approx(other / mine, rel=0.02, abs=0.01)


@pytest.mark.deep
def test_a_dilated_maximum_has_no_gradient_in_lax(capsys: pytest.CaptureFixture[str]):
    found = report(capsys, "--dilations", "2")["and backward"]
    assert found.startswith("lax.reduce_window fails: VJP not implemented")
    assert re.search(r"run +jaxpool [\d.]+ ms\n", found) and "ratio" not in found


def test_integers_have_no_gradient(capsys: pytest.CaptureFixture[str]):
    for dtype in ("int8", "bool"):
        found = report(capsys, "--dtype", dtype)
        assert found["and backward"] == f"{dtype} has no gradient"
        assert found["forward"].startswith("results compared: they differ by at most 0\n")


CASES: dict[str, dict[str, Any]] = {
    "a maximum": {},
    "a minimum in bfloat16": {"op": "min_pool", "dtype": "bfloat16"},
    "integers": {"dtype": "uint8"},
    "indices": {"op": "max_pool_with_argmax"},
    "indices, ceil": {"op": "max_pool_with_argmax", "rounding": "ceil", "dilations": (2, 3)},
    "indices of minima": {"op": "min_pool_with_argmin"},
    "indices of minima, ceil": {"op": "min_pool_with_argmin", "rounding": "ceil", "strides": 4},
    "a sum": {"op": "sum_pool"},
    "a sum of small integers": {"op": "sum_pool", "dtype": "int8"},
    "an average": {"op": "avg_pool"},
    "an average of real elements": {"op": "avg_pool", "count_include_pad": False},
    "an average with ceil": {"op": "avg_pool", "rounding": "ceil", "strides": (5, 4)},
    "an average in float16": {"op": "avg_pool", "dtype": "float16", "padding": "SAME_LOWER"},
}


def test_every_op_that_is_explained_is_measured() -> None:
    with pytest.raises(ValueError) as error:
        explain(SHAPE, **ASKED, op="none")
    explained = set(re.findall(r"\w+_pool\w*", str(error.value).splitlines()[1]))
    assert explained == programs.OPS.keys() == programs._THEIRS.keys()


def expected(x: Any, axes: tuple[int, int], op: str, **settings: Any) -> list[np.ndarray]:
    """Return the results by the oracle."""
    if "_with_arg" in op:
        sign = -1 if op.startswith("min") else 1
        values, offsets, positions = oracle_argmax(sign * x, **settings, spatial_axes=axes)
        return [sign * values, oracle_indices(offsets, positions, x.shape, spatial_axes=axes)]
    return [oracle_pool(x, op.partition("_")[0], **settings, spatial_axes=axes)]


@pytest.mark.grid(9)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_both_sides_are_the_pool_that_was_asked_for(name: str, data_format: str) -> None:
    settings = {**ASKED, "op": "max_pool", **CASES[name]}
    last = data_format == "channels_last"
    shape, axes = (SHAPE, (1, 2)) if last else ((2, 3, 13, 9), (2, 3))
    found = explain(shape, **settings, data_format=data_format)
    settings.pop("dtype", None)
    x = bench._noise(shape, found.dtype, 0)
    right = expected(np.asarray(x), axes, **settings)
    adds = settings["op"] in ("sum_pool", "avg_pool")
    tolerance = 8 * float(jnp.finfo(found.dtype).eps) if adds and "int" not in str(x.dtype) else 0
    for pool in (programs.ours(found, data_format), jax.jit(programs.theirs(found))):
        for mine, by_definition in zip(jax.tree.leaves(pool(x)), right, strict=True):
            a, b = (np.asarray(array).astype(np.float64) for array in (mine, by_definition))
            np.testing.assert_allclose(a, b, tolerance, tolerance)


def test_a_wrong_result_is_an_error_and_is_not_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    wrong = {**programs._THEIRS, "max_pool": lambda found, x: -programs._extreme(found, -x)}
    monkeypatch.setattr(programs, "_THEIRS", wrong)
    what, _, advice = lines_of_error(capsys, "--shape", "2,9,9,3", *OPTIONS)
    assert what.startswith("Results differ by ") and "rounding error of 0.0e+00" in what
    assert "doctor" in advice and "ms" not in capsys.readouterr().out


@pytest.mark.parametrize("op", ["sum_pool", "avg_pool", "max_pool"])
def test_rounding_is_no_difference_and_a_slip_is_one(op: str) -> None:
    found = explain(SHAPE, **ASKED, op=op)
    x = bench._noise(SHAPE, found.dtype, 0)
    g = bench._noise(found.output_shape, found.dtype, 1)
    y, slope = programs.with_gradient(programs.ours(found, "channels_last"), found)(x, g)
    assert compare.largest_difference(found, (x, g), (y, slope * (1 + 1e-7)), (y, slope)) < 1e-5
    for slip in (slope.at[1, 2, 3, 0].add(0.01), slope.at[0, 0, 0, 1].set(jnp.nan), slope[:1]):
        with pytest.raises(ValueError, match="^Results differ by "):
            compare.largest_difference(found, (x, g), (y, slip), (y, slope))


def test_infinities_of_empty_windows_are_equal() -> None:
    found = explain(SHAPE, **ASKED)
    y = jnp.asarray([-jnp.inf, 1.0])
    assert compare.largest_difference(found, (y,), y, y) == 0
    with pytest.raises(ValueError, match="differ by inf"):
        compare.largest_difference(found, (y,), y, y.at[0].set(0))


def test_the_named_implementation_is_measured() -> None:
    found = explain(SHAPE, **ASKED)
    lowered = {
        name: jax.jit(programs.ours(found, "channels_last", name)).lower(np.ones(SHAPE, np.float32))
        for name in ("auto", "reduce_window")
    }
    assert {name: "reduce_window" in program.as_text() for name, program in lowered.items()} == {
        "auto": False,
        "reduce_window": True,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "0,9,9,3", *OPTIONS], "bench: shape (0, 9, 9, 3) gives (0, 4, 9, 3)."),
        (
            ["--shape", "2,9,9,3", *OPTIONS, "--op", "avg_pool", "--dtype", "int8"],
            "bench: lax has no average for dtype int8.",
        ),
        (
            ["--shape", "2,9,9,3", *OPTIONS, "--op", "pool"],
            "bench: `--op` = 'pool' is not an op that explain describes.",
        ),
        (["--shape", "2,9,9,3", *OPTIONS, "--dtype", "float31"], "is not a dtype."),
        (["--shape", "2,9,9,3", *OPTIONS, "--dtype", "float64"], "float64 is disabled in JAX."),
        (["--shape", "2,9", *OPTIONS], "the array has 2 axes, too few for 2 pooled axes."),
    ],
)
def test_what_cannot_be_measured_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    lines = lines_of_error(capsys, *arguments)
    assert len(lines) == 3 and message in lines[0], lines


@pytest.mark.parametrize("seconds", ["two", "-1", "nan", "inf"])
def test_seconds_are_a_number(seconds: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["bench", f"--seconds={seconds}"])
    assert f"'{seconds}' is not a number of seconds, such as 2" in capsys.readouterr().err


def test_turns_alternate() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    times = race(calls, 0)
    assert list(times) == ["a", "b"] and all(seconds > 0 for seconds in times.values())
    turns = ["".join(order[n : n + 2]) for n in range(0, len(order), 2)]
    assert turns == ["ab", *(["ba", "ab"] * MIN_ROUNDS)[:MIN_ROUNDS]]
