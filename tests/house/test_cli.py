"""The command line, run as a user runs it."""

import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh import ROOT, python, unpack_wheel

import jaxpool
from jaxpool.__main__ import COMMANDS, main
from jaxpool._explain import doctor


@pytest.mark.deep
def test_demo_from_the_wheel_learns_to_read_digits(tmp_path: Path):
    installed = unpack_wheel(tmp_path)
    start = time.perf_counter()
    done = python("-m", "jaxpool", "demo", path=installed, cwd=tmp_path)
    seconds = time.perf_counter() - start
    print(done.stdout, done.stderr, f"{seconds:.1f} s", sep="\n")
    assert done.returncode == 0
    found = re.search(r"result +([\d.]+)% of the held-out digits", done.stdout)
    assert found and float(found[1]) >= 97.0
    # The remaining report: geometry and lowering of each layer, and the cost of its gradient.
    assert re.search(r"pool1 +max_pool +8x8 +3x3 +2 +1 +4x4 +\w+", done.stdout)
    assert re.search(r"head +avg_pool +3x3 +2x2 +1 +0 +2x2 +\w+", done.stdout)
    costs = re.findall(r"([\d.]+) ms +([\d.]+) ms +([\d.]+)x +(\S+)", done.stdout)
    assert len(costs) == 4
    assert all(float(difference) < 1e-4 for *_, difference in costs)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "the following arguments are required: command"),
        (["dmo"], r"invalid choice: 'dmo' \(choose from '?demo"),
        (["demo", "--fast"], "unrecognized arguments: --fast"),
        (["explain", "--window", "3x3"], "--window: '3x3' is not a list of integers such as 3,3"),
        (["explain", "--padding", "1:a"], "--padding: '1:a' is not a list of integers such as 3:3"),
        (["explain", "--plot", ""], "--plot: the name is empty; give for example out.png"),
    ],
    ids=["no command", "unknown command", "unknown option", "no numbers", "no pairs", "no file"],
)
def test_misuse_prints_the_usage_and_fails(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: python -m jaxpool")
    assert re.search(message, error)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^ +{command.name} +{command.help[:20]}", text, re.MULTILINE)


POOL = "explain --shape 8,9,3 --window 3 --strides 2".split()


def test_an_implementation_is_explained_by_name(capsys: pytest.CaptureFixture[str]):
    assert main([*POOL, "--implementation", "reduce_window"]) == 0
    named = capsys.readouterr().out
    assert named == f"{jaxpool.explain((8, 9, 3), (3,), 2, implementation='reduce_window')}\n"
    assert main([*POOL, "--implementation", "auto"]) == main(POOL) == 0
    assert capsys.readouterr().out == f"{jaxpool.explain((8, 9, 3), (3,), 2)}\n" * 2 != named * 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiled", "`--implementation` = 'tiled' does not support these windows."),
        ("fast", "`--implementation` = 'fast' is not an implementation."),
    ],
)
def test_an_implementation_that_cannot_fails_in_one_message(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
):
    for command in ("explain", "bench"):
        assert main([command, *POOL[1:], "--implementation", name]) == 1
        out, error = capsys.readouterr()
        assert error.startswith(f"{command}: {message}\n") and not out


WORDS: dict[str, tuple[str, int, str]] = {
    "a length": ("--shape 8,-9,3", 0, "`--shape` contains -9."),
    "a window": ("--window 0", 0, "`--window` contains 0."),
    "strides": ("--strides 0", 0, "`--strides` contains 0."),
    "a padding": ("--padding half", 2, "an integer, one integer per axis, or low:high pairs."),
    "a causal padding": ("--padding causal", 2, "Give low:high pairs: low is the span"),
    "pads of ONNX": ("--window 2,2 --padding 1,0,1,2", 2, "in ONNX's order are 1:1,0:2."),
    "both ends": ("--padding 1,2", 2, "or one pair: 1:2."),
    "dilations": ("--dilations 0", 0, "`--dilations` contains 0."),
    "a rounding": ("--rounding up", 0, "`--rounding` = 'up' is not a rounding."),
    "a layout": ("--data-format NHWC", 1, "--data-format 'NHWC' has 2 pooled axes."),
    "channels": ("--shape 2,3,9,9 --window 4,4", 2, "first, give --data-format channels_first."),
    "a dtype": ("--dtype float31", 2, "Give for example bfloat16."),
    "booleans": ("--op avg_pool --dtype bool", 2, "Convert it first, for example --dtype float32."),
    "an op": ("--op average", 2, "Give for example --op avg_pool."),
    "an implementation": ("--implementation tiled", 2, "Use --implementation auto (would choose "),
}


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize("command", ["explain", "bench"])
def test_errors_speak_of_options(command: str, case: str, capsys: pytest.CaptureFixture[str]):
    options, line, text = WORDS[case]
    assert main([command, *POOL[1:], *options.split()]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and text in lines[line], lines
    assert lines[0].startswith(f"{command}: ") and not re.search(r"_shape|jnp|=\S", lines[line])


def test_an_array_that_no_machine_holds_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main("bench --shape 99999999999,99,99 --window 3 --strides 1".split()) == 1
    assert capsys.readouterr().err.startswith("Unable to allocate ")


@pytest.mark.deep
def test_a_demo_that_misses_its_goal_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The exit status is the result: without training, the goal is missed."""
    code = (
        "import sys\n"
        "from jaxpool._demo import model, show\n"
        "model.EPOCHS = 0\n"
        "show._print_costs = lambda *_: None\n"
        "sys.exit(show.show())\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "result" in done.stdout


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"jaxpool {jaxpool.__version__}\n"


def doctor_report(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the report by the heads of its lines."""
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    found = re.findall(r"^  (\S.*?)  +(.*(?:\n {17}.*)*)$", text, re.MULTILINE)
    assert sum(rows.count("\n") + 1 for _, rows in found) == len(text.splitlines())
    return dict(found)


def test_doctor_tells_what_a_bug_report_needs(capsys: pytest.CaptureFixture[str]):
    report = doctor_report(capsys)
    assert report["jaxpool"] == jaxpool.__version__
    assert report["jax"] == f"{jax.__version__}, jaxlib {version('jaxlib')}"
    assert report["numpy"] == np.__version__
    assert report["Python"].startswith(f"{platform.python_version()} on ")
    assert report["devices"].startswith(f"{jax.device_count()} cpu: ")
    assert report["64 bits"].startswith("on" if jnp.zeros(1, float).dtype == "float64" else "off")


def test_doctor_shows_the_plan_of_this_machine(capsys: pytest.CaptureFixture[str]):
    plan = doctor_report(capsys)["plan"]
    assert plan.startswith("on cpu")
    for op, window, strides in doctor.CASES:
        made = jaxpool.explain(doctor.SHAPE, window, strides, op=op).plan
        operations = ", ".join(f"{choice.operation} {choice.cpu}" for choice in made.choices)
        assert re.search(rf"{op} {re.escape(str(window))} by {strides}\n +{operations}\n", plan)
        for place, name, why in made.reduce.rejected:
            assert (f"not {name} for reduce" in plan and why in plan) or place != "cpu"


def test_a_pipe_may_end_before_the_output():
    command = f"{sys.executable} -m jaxpool doctor | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_there_may_be_no_output_at_all():
    command = f"{sys.executable} -m jaxpool explain --shape 8,9,3 --window 3 --strides 2 >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_the_output_cannot_encode_are_escaped(tmp_path: Path):
    layer = '<layer name="\u0444\u00e9" type="MaxPool" version="opset1"/>'
    (tmp_path / "m.xml").write_text(f'<net version="11">{layer}</net>', "utf-8")
    arguments = "-m", "jaxpool", "port", str(tmp_path / "m.xml")
    done = python(*arguments, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1 and done.stderr == ""
    assert "\n\\u0444\\xe9: MaxPool\n  cannot be expressed:" in done.stdout


def test_doctor_knows_the_trouble_of_each_jax(capsys: pytest.CaptureFixture[str]):
    lost = "loses rules of jax.custom_jvp" in doctor_report(capsys)["problems"]
    assert lost == (jax.__version_info__ < (0, 12))
    old = list(doctor._problems((0, 9, 9)))
    assert old[0].startswith("jax is older than 0.10.2,") and "older" not in " ".join(old[1:])


def test_the_oldest_jax_is_that_of_the_requirements():
    oldest = ".".join(map(str, doctor.OLDEST))
    assert f'"jax>={oldest}"' in (ROOT / "pyproject.toml").read_text()


def test_doctor_reports_a_platform_that_does_not_start():
    done = python("-m", "jaxpool", "doctor", env={"JAX_PLATFORMS": "tpu"})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  devices +none: .*tpu", done.stdout, re.MULTILINE)
    assert "  plan " not in done.stdout and "  problems " in done.stdout
