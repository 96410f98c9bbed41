"""The command line, run as a user runs it."""

import re
import time
from pathlib import Path

import pytest
from fresh import python, unpack_wheel

from jaxpool.__main__ import COMMANDS, main


def test_demo_from_the_wheel_learns_to_read_digits(tmp_path: Path):
    installed = unpack_wheel(tmp_path)
    start = time.perf_counter()
    done = python("-m", "jaxpool", "demo", path=installed, cwd=tmp_path)
    seconds = time.perf_counter() - start
    print(done.stdout, done.stderr, f"{seconds:.1f} s", sep="\n")
    assert done.returncode == 0
    found = re.search(r"result +([\d.]+)% of the held-out digits", done.stdout)
    assert found and float(found[1]) >= 97.0
    # The rest of the report: geometry and lowering of each layer, and the cost of its gradient.
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
        (["explain", "--window", "3x3"], "--window: '3x3' is not whole numbers, such as 3,3"),
        (["explain", "--padding", "1:a"], "--padding: '1:a' is not whole numbers, such as 3:3"),
    ],
    ids=["no command", "unknown command", "unknown option", "no numbers", "no pairs"],
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


def test_a_demo_that_misses_its_goal_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The exit status carries the result: with no training, the goal is missed."""
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
