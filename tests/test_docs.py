"""The documentation tells the truth: README examples, doctests, and the commands that CI runs."""

import inspect
import json
import re
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from statistics import geometric_mean
from typing import Any, NamedTuple

import pytest
from fresh import ROOT, printed

import jaxpool
from jaxpool.testing import NAMED_CASES

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Both scripts read JSON and write JSON, so that one interpreter serves many examples.
RUN_BLOCKS = """
import contextlib, io, json, sys, traceback
outputs = []
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            exec(compile(block, "<README>", "exec"), {"__name__": "readme"})
        except Exception:
            traceback.print_exc(file=output)
    outputs.append(output.getvalue())
json.dump(outputs, sys.stdout)
"""

RUN_DOCTESTS = """
import doctest, json, operator, sys
import jax, jax.numpy as jnp, numpy as np
import jaxpool
results = {}
for name in json.load(sys.stdin):
    item = operator.attrgetter(name)(jaxpool)
    names = {**vars(sys.modules[item.__module__]), "jax": jax, "jnp": jnp, "np": np}
    tests = doctest.DocTestFinder().find(item, name, globs={**names, "jaxpool": jaxpool})
    lines = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        runner.run(test, out=lines.append)
    results[name] = [runner.summarize(verbose=False).attempted, "".join(lines)]
json.dump(results, sys.stdout)
"""


# The public classes and functions, those of a public module by their dotted names.
PUBLIC = [
    name
    for name in jaxpool.__all__ + [f"reductions.{name}" for name in jaxpool.reductions.__all__]
    if callable(attrgetter(name)(jaxpool))
]
FUNCTIONS = [name for name in PUBLIC if inspect.isfunction(attrgetter(name)(jaxpool))]


class Example(NamedTuple):
    """A Python block of the README and what the README says it prints."""

    heading: str
    code: str
    output: str | None


def examples(markdown: str) -> list[Example]:
    """Each Python block, with the text block that follows it as its output."""
    found = list(BLOCK.finditer(markdown))
    following = [*(match for match in found[1:]), None]
    result = []
    for match, after in zip(found, following, strict=True):
        if match[1] == "python":
            heading = re.findall(r"^#+ (.*)$", markdown[: match.start()], re.MULTILINE)[-1]
            output = after[2] if after is not None and after[1] == "text" else None
            result.append(Example(heading, match[2], output))
    return result


EXAMPLES = examples(README)


@cache
def run_blocks(blocks: Sequence[str]) -> list[str]:
    return json.loads(printed("-c", RUN_BLOCKS, stdin=json.dumps(blocks)))


@cache
def run_doctests() -> dict[str, tuple[int, str]]:
    return json.loads(printed("-c", RUN_DOCTESTS, stdin=json.dumps(PUBLIC)))


def test_readme_examples_print_what_they_say():
    """All in one test, and so in one process: starting JAX takes longer than most of them."""
    assert all(example.output is not None for example in EXAMPLES), "text blocks must follow"
    outputs = run_blocks(tuple(example.code for example in EXAMPLES))
    printed_there = [(e.heading, output) for e, output in zip(EXAMPLES, outputs, strict=True)]
    assert printed_there == [(e.heading, e.output) for e in EXAMPLES]


def test_readme_has_an_example_of_each_main_op():
    code = "\n".join(example.code for example in EXAMPLES)
    ops = [name for name in FUNCTIONS if "." not in name]
    assert [name for name in ops if not re.search(rf"jaxpool\.{name}\b", code)] == []


def test_the_example_check_notices_a_wrong_output_and_an_error():
    markdown = "# A\n```python\nprint(1)\n```\n\n```text\n2\n```\n```python\nprint(1 / 0)\n```\n"
    wrong, failing = examples(markdown)
    outputs = run_blocks((wrong.code, failing.code))
    assert outputs[0] == "1\n" != wrong.output
    assert "ZeroDivisionError" in outputs[1] and failing.output is None


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_examples(name: str):
    attempted, failures = run_doctests()[name]
    assert not failures, failures
    assert attempted or name not in FUNCTIONS, f"jaxpool.{name} has no example"


def test_ci_runs_the_test_command_of_the_readme():
    commands = [match[2].strip() for match in BLOCK.finditer(README) if match[1] == "sh"]
    (in_readme,) = (command for command in commands if "-m pytest" in command)
    in_ci = re.findall(r"^test_command='(.*)'$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert in_ci == [in_readme]
    assert "pip install . && python -m jaxpool demo" in commands


def results(name: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())["rows"]


def test_the_speed_table_is_that_of_the_results():
    rows = results("cpu.json")
    tasks = {"forward": "forward", "forward and backward": "backward", "with indices": "argmax"}
    runtimes = {"`lax.reduce_window` (Flax)": "reduce_window", "PyTorch": "torch"}
    runtimes |= {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}
    line = re.compile(r"^\| (.*) \| (.*) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|$", re.MULTILINE)
    table = line.findall(README)
    assert len(table) == 10
    for task, runtime, mean, least, count in table:
        name = runtimes[runtime]
        ratios = [
            row["milliseconds"][name] / row["milliseconds"]["jaxpool"]
            for row in rows
            if row["task"] == tasks[task]
            and row["dtype"] == "float32"
            and name in row["milliseconds"]
        ]
        found = f"{geometric_mean(ratios):.1f}", f"{min(ratios):.2f}", str(len(ratios))
        assert found == (mean, least, count)


def test_the_speed_of_maxima_and_narrow_dtypes_is_that_of_the_results():
    rows = results("cpu.json")
    ours = {(r["case"], r["layout"], r["dtype"], r["task"]): r["milliseconds"] for r in rows}
    maxima = {case.name for case in NAMED_CASES if case.op != "avg_pool"}
    gains = [
        times["reduce_window"] / times["jaxpool"]
        for (case, _, dtype, task), times in ours.items()
        if (dtype, task) == ("float32", "backward") and case in maxima and "reduce_window" in times
    ]
    shares = {
        dtype: [
            times["jaxpool"] / ours[case, layout, "float32", "forward"]["jaxpool"]
            for (case, layout, narrow, task), times in ours.items()
            if (narrow, task) == (dtype, "forward")
        ]
        for dtype in ("bfloat16", "int8")
    }
    mean, worst = ({d: f"{f(s):.2f}" for d, s in shares.items()} for f in (geometric_mean, max))
    text = " ".join(README.split())
    assert f"forward and backward pass is {geometric_mean(gains):.0f} times as fast" in text
    assert f"at least {min(gains):.1f} times in every case" in text
    assert f"{mean['bfloat16']} of its float32 time in bfloat16 and {mean['int8']} in int8" in text
    assert f"bfloat16 takes {worst['bfloat16']} and int8 {worst['int8']} of the float32" in text


def test_the_table_of_what_was_tried_is_that_of_the_results():
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in results("tried.json"):
        question = row["question"].replace("-", " "), row["case"], row["layout"], row["dtype"]
        found.setdefault(question, {})[row["idea"]] = row["milliseconds"]
    lines = []
    for question, times in found.items():
        own, _ = times.pop("jaxpool"), times.pop("torch")
        ratios = "; ".join(f"{idea} {time / own:.2f}" for idea, time in times.items())
        lines.append(f"| {' | '.join(question)} | {ratios} |")
    assert "\n".join(lines) in README


def test_the_speed_of_layers_is_that_of_the_results():
    ratios: dict[str, list[float]] = {}
    for row in results("layers.json"):
        ours, theirs = row["milliseconds"]["jaxpool"], row["milliseconds"][row["library"]]
        kind = "maxima" if "maximum" in row["case"] else "averages"
        kind = "forward" if row["task"] == "forward" else kind
        ratios.setdefault(kind, []).append(theirs / ours)
    text = " ".join(README.split())
    for kind, words in {
        "forward": "forward",
        "maxima": "gradients of maxima",
        "averages": "of averages",
    }.items():
        assert f"{words} {min(ratios[kind]):.1f} to {max(ratios[kind]):.1f} times" in text


def test_the_count_of_other_ops_that_are_faster_is_that_of_the_results():
    rows = results("ops.json")
    ratios = [row["milliseconds"]["torch"] / row["milliseconds"]["jaxpool"] for row in rows]
    faster = sum(ratio > 1 for ratio in ratios)
    text = " ".join(README.split())
    assert f"{faster} of the {len(rows)} rows are faster" in text
    norms = [r for r, row in zip(ratios, rows, strict=True) if row["case"].startswith("lp")]
    assert f"`lp_pool` up to {max(norms):.1f} times" in text
    assert f"{1 / min(ratios):.2f} times as long" in text
