"""The documentation is right: examples, doctests, numbers, and the commands that CI runs.

Pages are README.md and the hand-written pages of docs/; the others are generated from docstrings.
"""

import ast
import importlib
import inspect
import json
import math
import re
import shlex
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import jax
import pytest
from fresh import ROOT, printed, python

import jaxpool
import jaxpool.compat
from jaxpool._lowerings import IMPLEMENTATIONS
from jaxpool._lowerings.plan import NAMES
from jaxpool.testing import NAMED_CASES

README = (ROOT / "README.md").read_text()
PERFORMANCE = "\n".join(p.read_text() for p in sorted((ROOT / "docs" / "performance").glob("*.md")))
MADE = ("functions.md", "reference", "notebooks", "_build")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not {*path.relative_to(ROOT).parts} & {*MADE}
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Both scripts read JSON and write JSON, so that one interpreter serves many examples.
RUN_BLOCKS = """
import contextlib, io, json, sys, traceback
outputs = []
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            exec(compile(block, "<page>", "exec"), {"__name__": "page"})
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
    """A Python block of a page, and its output according to the page."""

    heading: str
    code: str
    output: str | None


def examples(markdown: str) -> list[Example]:
    """Return each Python block, with the text block that follows it as its output."""
    found = list(BLOCK.finditer(markdown))
    following = [*found[1:], None][: len(found)]
    result = []
    for match, after in zip(found, following, strict=True):
        if match[1] == "python":
            heading = re.findall(r"^#+ (.*)$", markdown[: match.start()], re.MULTILINE)[-1]
            output = after[2] if after is not None and after[1] == "text" else None
            result.append(Example(heading, match[2], output))
    return result


EXAMPLES = {page: examples(text) for page, text in PAGES.items()}


@cache
def run_blocks(blocks: Sequence[str]) -> list[str]:
    return json.loads(printed("-c", RUN_BLOCKS, stdin=json.dumps(blocks)))


def run_doctests(names: Sequence[str]) -> dict[str, tuple[int, str]]:
    return json.loads(printed("-c", RUN_DOCTESTS, stdin=json.dumps(names)))


def chapter(page: str) -> str:
    """Return the folder of a page, or its part of the top pages; each runs in one process."""
    return page.rpartition("/")[0]


def deep(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.deep)


@pytest.mark.parametrize("name", ["", *map(deep, ("docs", "docs/how-to", "docs/migration"))])
def test_examples_print_what_they_say(name: str):
    """One process for a folder of pages: starting JAX takes longer than most examples."""
    found = [(p, e) for p, row in EXAMPLES.items() if chapter(p) == name for e in row]
    assert all(e.output is not None for _, e in found), "text blocks must follow"
    outputs = run_blocks(tuple(example.code for _, example in found))
    printed_there = [(p, e.heading, o) for (p, e), o in zip(found, outputs, strict=True)]
    assert printed_there == [(p, e.heading, e.output) for p, e in found]


SHOWN = re.compile(
    r"^```sh\n(python -m jaxpool [^\n]*)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
COMMANDS = [
    (page, command, output)
    for page, text in PAGES.items()
    for command, output in SHOWN.findall(text)
]
CASES_OF_COMMANDS = [
    pytest.param(*case, marks=[pytest.mark.deep] if " bench " in case[1] else [])
    for case in COMMANDS
]


@pytest.mark.parametrize(("page", "command", "output"), CASES_OF_COMMANDS)
def test_a_command_prints_what_its_page_says(page: str, command: str, output: str):
    known = {"doctor": on_any_machine, "bench": without_times}.get(command.split()[3], str)
    assert known(printed(*shlex.split(command)[1:])) == known(output)


def on_any_machine(report: str) -> str:
    """Return the report of ``doctor`` without versions, devices and problems."""
    before, _, _ = report.partition("  problems ")
    return re.sub(r"(?m)^(  (?:jax|numpy|Python|devices|64 bits)) .*", r"\1", before)


def without_times(report: str) -> str:
    """Return the report of ``bench`` without times, ratios, versions and device."""
    times = re.sub(r"[\d.,]+(?= ms)|(?<=ratio )[\d.]+|(?<=at most )\S+", "#", report)
    return re.sub(r"(?m)^(  (?:device|versions)) .*", r"\1", times)


def test_the_pages_show_the_trouble_of_the_oldest_jax():
    from jaxpool._explain import doctor

    shown = PAGES["docs/command-line.md"].partition("  problems ")[2].partition("```")[0]
    if jax.__version_info__ == doctor.OLDEST:
        assert printed("-m", "jaxpool", "doctor").partition("  problems ")[2] == shown


def test_some_commands_are_shown_with_their_output():
    shown = [(page, command.split()[3]) for page, command, _ in COMMANDS]
    assert shown == [
        ("docs/command-line.md", name) for name in ("explain", "bench", "bench", "doctor")
    ]


def test_every_part_of_the_documentation_has_examples():
    assert {"README.md", "docs/index.md", "docs/tour.md", "docs/definition.md"} <= PAGES.keys()
    chapters = {"", "docs", "docs/how-to", "docs/migration"}
    assert {chapter(page) for page, row in EXAMPLES.items() if row} == chapters


def test_the_reference_has_every_public_name(monkeypatch: pytest.MonkeyPatch):
    """The check of the site, repeated so that it detects a new name without building the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    made_pages = importlib.import_module("made_pages")
    made_pages.check_groups()
    fronts = [m.name for m in made_pages.MODULES if m.name.startswith("compat.")]
    assert sorted(fronts) == sorted(f"compat.{name}" for name in jaxpool.compat.__all__)
    modules = (p for p in (ROOT / "jaxpool").iterdir() if p.suffix in ("", ".py"))
    public = {p.stem for p in modules if not p.stem.startswith("_")} - {"ops"}
    assert public == {m.name.partition(".")[0] for m in made_pages.MODULES}


def test_the_reference_says_what_a_table_of_words_holds(monkeypatch: pytest.MonkeyPatch):
    """Sphinx shows the docstring of a value's type, such as that of tuple."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    pages = importlib.import_module("made_pages").made_pages()
    assert "allowed: up, convergent.\n" in pages["reference/compat.mli.md"]
    assert "a tuple of NamedCase.\n" in pages["reference/testing.md"]
    for name, text in pages.items():
        for path in re.findall(r"autodata:: jaxpool\.(\S+)", text):
            assert not isinstance(attrgetter(path)(jaxpool), tuple), name


LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)")


def links(markdown: str) -> list[tuple[str, str]]:
    """Return the relative links of a page outside its code: a path, and a heading or \"\"."""
    return LINK.findall(re.sub(r"```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL))


def is_made(path: Path) -> bool:
    """Return whether a file is generated for the site and not in the repository."""
    docs, there = (ROOT / "docs").resolve(), path.resolve()
    return there.is_relative_to(docs) and bool({*there.relative_to(docs).parts[:1]} & {*MADE})


def anchors(markdown: str) -> set[str]:
    """Return the anchors of the headings of a page, in the repository and on the site."""
    heads = re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere_in_the_repository():
    """Generated pages do not exist in the repository."""
    found = dict(PAGES, **{n: (ROOT / n).read_text() for n in ("CONTRIBUTING.md", "CHANGELOG.md")})
    dead = []
    for page, text in found.items():
        for path, heading in links(text):
            target = (ROOT / page).parent / path if path else ROOT / page
            missing = is_made(target) or not target.exists()
            if missing or heading and heading not in anchors(target.read_text()):
                dead.append((page, path, heading))
    assert dead == []
    assert sum(len(links(text)) for text in found.values()) > 80


def test_links_to_modules_lead_to_their_pages_on_the_site(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    made_pages = importlib.import_module("made_pages")
    made, found = made_pages.made_pages(), set()
    for page, text in PAGES.items():
        there = made_pages.on_the_site(text) if page.startswith("docs/") else ""
        assert not [path for path, _ in links(there) if path.endswith(".py")], page
        paths = (((ROOT / page).parent / path).resolve() for path, _ in links(there))
        found |= {str(path.relative_to(ROOT / "docs")) for path in paths if is_made(path)}
    assert found <= made.keys() and {"functions.md", "reference/compat.onnx.md"} <= found


AMERICAN = re.compile(
    r"\w*(?:neighbor|behavior|favor|color|center|gray|(?:general|normal|local|special|"
    r"vector|quant|real|optim|minim|maxim|material|initial|summar|recogn)iz)\w*",
    re.IGNORECASE,
)


def docstrings() -> dict[str, str]:
    """Return the docstrings of every module, without code and titles of papers."""
    found = {}
    for path in sorted((ROOT / "jaxpool").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        text = "\n".join(ast.get_docstring(n) or "" for n in nodes if isinstance(n, kinds))
        code = r'(?s)``.*?``|:\w+:`.*?`|"[^"]*"|>>> [^\n]*|\.\.\. [^\n]*'
        found[str(path.relative_to(ROOT))] = re.sub(code, "", text)
    return found


def test_docstrings_of_functions_begin_with_a_verb():
    """Such as "Return", "Raise" or "Pad", and not with an article, a pronoun or a preposition."""
    others = {"a", "an", "the", "what", "which", "that", "those", "whether", "where", "how", "as"}
    others |= {"of", "for", "from", "in", "on", "with", "by", "to", "it", "its", "all", "each"}
    found = []
    for path in sorted((ROOT / "jaxpool").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            properties = ("property", "cached_property")
            if not isinstance(node, ast.FunctionDef) or any(
                ast.unparse(decorator).split(".")[-1] in properties
                for decorator in node.decorator_list
            ):
                continue
            first = (ast.get_docstring(node) or "Return").split()[0]
            if first.rstrip(",").lower() in others:
                found.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not found


def test_words_are_spelled_in_one_way():
    """Spelling is that of public names: grey_dilation, quantised. Code keeps its own words."""
    prose = {page: re.sub(r"(?s)```.*?```|`.*?`", "", text) for page, text in PAGES.items()}
    prose |= docstrings()
    assert {n: found for n, text in prose.items() if (found := AMERICAN.findall(text))} == {}
    assert AMERICAN.findall("the Neighborhood of a centered window") == ["Neighborhood", "centered"]


def test_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_there_is_an_example_of_each_op():
    code = "\n".join(example.code for row in EXAMPLES.values() for example in row)
    ops = [name for name in FUNCTIONS if "." not in name]
    assert [name for name in ops if not re.search(rf"jaxpool\.{name}\b", code)] == []


def test_every_implementation_is_described():
    described = re.findall(r"`\"?(\w+)\"?`", PAGES["docs/performance/implementations.md"])
    assert set(IMPLEMENTATIONS) <= set(described)
    listed = re.findall(r'"(\w+)"', str(jaxpool.max_pool.__doc__).partition("implementation:")[2])
    assert set(NAMES) <= set(listed)


def test_the_example_check_notices_a_wrong_output_and_an_error():
    markdown = "# A\n```python\nprint(1)\n```\n\n```text\n2\n```\n```python\nprint(1 / 0)\n```\n"
    wrong, failing = examples(markdown)
    outputs = run_blocks((wrong.code, failing.code))
    assert outputs[0] == "1\n" != wrong.output
    assert "ZeroDivisionError" in outputs[1] and failing.output is None


@pytest.mark.parametrize("names", [PUBLIC[::2], PUBLIC[1::2]], ids=["even", "odd"])
def test_docstring_examples(names: list[str]):
    """One process for half of the functions: starting JAX takes longer than most examples."""
    results = run_doctests(names)
    assert not any(failures for _, failures in results.values()), results
    without = [name for name in names if name in FUNCTIONS and not results[name][0]]
    assert not without, "these functions have no example"


def test_ci_runs_the_test_command_of_the_readme():
    commands = [match[2].strip() for match in BLOCK.finditer(README) if match[1] == "sh"]
    (in_readme,) = (command for command in commands if "-m pytest" in command)
    in_ci = re.findall(r"^test_command='(.*)'$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert in_ci == [in_readme]
    assert "pip install . && python -m jaxpool demo" in commands


@pytest.mark.deep
def test_the_command_that_repeats_the_comparison_draws_all_calls():
    page = PAGES["docs/migration/index.md"]
    (command,) = re.findall(r"^JAXPOOL_CONFIGURATIONS=20000 python (.*)$", page, re.MULTILINE)
    calls = {"JAXPOOL_CONFIGURATIONS": "960"}
    words = [*shlex.split(command), "-n", "0", "-q", "--collect-only"]
    found = python(*words, cwd=ROOT, env=calls).stdout
    assert found.count("test_random_nodes_give_what_onnxruntime_gives[") == 960 // 20, found


def results(name: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())["rows"]


def test_the_speed_table_is_that_of_the_results():
    rows = results("cpu.json")
    tasks = {"forward": "forward", "forward and backward": "backward", "with indices": "argmax"}
    runtimes = {"`lax.reduce_window` (Flax)": "reduce_window", "PyTorch": "torch"}
    runtimes |= {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}
    line = re.compile(r"^\| ([^|]*) \| ([^|]*) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|$", re.MULTILINE)
    table = line.findall(PERFORMANCE)
    assert len(table) == 10 and len(line.findall(README)) == 4
    for task, runtime, mean, least, count in table + line.findall(README):
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
    text = " ".join(PERFORMANCE.split())
    assert f"forward and backward pass is {geometric_mean(gains):.0f} times as fast" in text
    assert f"at least {min(gains):.1f} times in every case" in text
    assert f"{mean['bfloat16']} of its float32 time in bfloat16 and {mean['int8']} in int8" in text
    assert f"bfloat16 takes {worst['bfloat16']} and int8 {worst['int8']} of the float32" in text
    slower = {dtype: sum(share > 1 for share in of_cases) for dtype, of_cases in shares.items()}
    cases = f"{slower['bfloat16']} of the {len(shares['bfloat16'])} forward passes"
    assert f"longer than float32 in {cases}, int8 in none" in text and not slower["int8"]


def test_where_jaxpool_is_behind_is_that_of_the_results():
    rows = [row for row in results("cpu.json") if row["dtype"] == "float32"]

    def longer(task: str, peer: str, least: float = 1.05) -> dict[tuple[str, str], float]:
        """Return the cases and layouts that take longer than in a peer, with the ratios."""
        times = {
            (row["case"], row["layout"]): row["milliseconds"]["jaxpool"] / row["milliseconds"][peer]
            for row in rows
            if row["task"] == task and peer in row["milliseconds"]
        }
        return {key: ratio for key, ratio in times.items() if ratio > least}

    text, behind = " ".join(PERFORMANCE.split()), longer("forward", "torch")
    planes = [behind.pop((case, "NHWC")) for case in ("resnet-head", "mobilenet-head")]
    assert f"take up to {max(planes):.1f} times as long as PyTorch's in channels last" in text
    lax = longer("forward", "reduce_window")
    slowest = max(ratio for (_, layout), ratio in lax.items() if layout == "NHWC")
    heads = [
        row["milliseconds"]["jaxpool"]
        for row in rows
        if row["case"] in ("resnet-head", "mobilenet-head") and row["task"] == "forward"
    ]
    limit = f"at most {max(heads):.2f} ms"
    assert f"and {slowest:.1f} times as long as `lax.reduce_window`, {limit}" in text
    onnx, openvino = (longer("forward", peer, 1) for peer in ("onnxruntime", "openvino"))
    limit = f"up to {max(onnx.values()):.1f} times"
    assert f"ONNX Runtime** is faster in {len(onnx)} of the 40 forward passes, {limit}" in text
    limit = f"up to {max(openvino.values()):.1f} times"
    assert f"OpenVINO** in {len(openvino)}, {limit}" in text
    assert not behind and not longer("backward", "torch")
    argmax = longer("argmax", "torch")
    assert f"channels last take up to {max(argmax.values()):.1f} times as long" in text
    assert {layout for _, layout in argmax} == {"NHWC"}


def test_the_cost_of_long_windows_and_of_a_call_is_that_of_the_results():
    costs = json.loads((ROOT / "benchmarks" / "results" / "costs.json").read_text())
    forward = {row["window"]: row["forward_milliseconds"] for row in costs["growth"]}
    rows = results("alternatives.json")
    tried = {row["idea"]: row["milliseconds"] for row in rows if row["question"] == "31x31"}
    ratios = sorted([forward[31] / forward[3], tried["jaxpool"] / tried["3x3 instead"]])
    text = " ".join(PERFORMANCE.split())
    assert "take {:.1f} to {:.1f} times as long as 3x3".format(*ratios) in text
    ours, lax = costs["googlenet"]["jaxpool"], costs["googlenet"]["reduce_window"]
    assert f"{sum(ours.values()) / sum(lax.values()):.1f} times as long as those of" in text
    steps = [f"{ours[step]:.2f} s to {step} ({lax[step]:.2f})" for step in ours]
    assert f"{steps[0]}, {steps[1]} and {steps[2]}." in text
    call, indices = costs["dispatch"]["max_pool"], costs["dispatch"]["max_pool_with_argmax"]
    assert f"costs {call:.1f} times a bare jitted function ({indices:.1f} with indices)" in text


def test_the_memory_of_gradients_is_that_of_the_results():
    costs = json.loads((ROOT / "benchmarks" / "results" / "costs.json").read_text())
    tiled = {"vgg-pool2", "c3d-pool1", "c3d-pool2", "audio-m5-pool1", "unet-pool2"}
    found: dict[tuple[str, bool], list[float]] = {}
    for row in costs["gradient_memory"]:
        assert row["residual_bytes_per_output"] == (4 if row["case"] == "dilation-31" else 1)
        bytes_per_output = row["temporaries"] / (row["output"] / 4)
        if row["case"] in tiled:
            assert round(bytes_per_output, 1) == 1
        else:
            key = row["layout"], math.prod(row["window"]) > 27
            found.setdefault(key, []).append(bytes_per_output)
    text = " ".join(PERFORMANCE.split())
    short, long = found["NCHW", False], found["NCHW", True] + found["NHWC", True]
    assert f"allocate {min(short):.1f} to {max(short):.1f} bytes per output while" in text
    assert f"Longer windows allocate {min(long):.1f} to {max(long):.1f} in either" in text


def test_the_table_of_what_was_tried_is_that_of_the_results():
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in results("alternatives.json"):
        question = row["question"].replace("-", " "), row["case"], row["layout"], row["dtype"]
        found.setdefault(question, {})[row["idea"]] = row["milliseconds"]
    recorded = json.loads((ROOT / "benchmarks" / "results" / "alternatives.json").read_text())
    release = ".".join(recorded["versions"]["jax"].split(".")[:2])
    assert f"measured with JAX {release}: below 1 is faster" in " ".join(PERFORMANCE.split())
    lines = []
    for question, times in found.items():
        own, _ = times.pop("jaxpool"), times.pop("torch")
        ratios = "; ".join(f"{idea} {time / own:.2f}" for idea, time in times.items())
        lines.append(f"| {' | '.join(question)} | {ratios} |")
    assert "\n".join(lines) in PERFORMANCE


def test_the_speed_of_layers_is_that_of_the_results():
    ratios: dict[str, list[float]] = {}
    for row in results("layers.json"):
        ours, theirs = row["milliseconds"]["jaxpool"], row["milliseconds"][row["library"]]
        kind = "maxima" if "maximum" in row["case"] else "averages"
        kind = "forward" if row["task"] == "forward" else kind
        ratios.setdefault(kind, []).append(theirs / ours)
    text = " ".join(PERFORMANCE.split())
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
    text = " ".join(PERFORMANCE.split())
    assert f"{faster} of the {len(rows)} rows are faster" in text
    norms = [r for r, row in zip(ratios, rows, strict=True) if row["case"].startswith("lp")]
    assert f"`lp_pool` up to {max(norms):.1f} times" in text
    assert f"{1 / min(ratios):.2f} times as long" in text


NETWORKS = {
    "resnet-stem": "ResNet's stem, 3x3 at stride 2",
    "vgg-pool2": "VGG, 2x2 at stride 2",
    "googlenet-branch": "GoogLeNet, 3x3 at stride 1",
    "yolo-sppf-5": "YOLO, 5x5 at stride 1",
}


def test_the_table_of_a_gpu_is_that_of_the_results():
    words = NETWORKS | {"yolo-spp-13": "YOLO, 13x13 at stride 1"}
    words |= {"c3d-pool2": "C3D, 2x2x2 at stride 2", "moving-maximum-101": "Moving maximum of 101"}
    took = {
        (row["case"], row["dtype"], row["task"]): row["microseconds"]
        for row in results("device.json")
        if row["layout"] == "NHWC"
    }
    lines = []
    for case, name in words.items():
        for dtype, first in (("float32", f" {name} "), ("bfloat16", " ")):
            step, argmax = took[case, dtype, "step"], took[case, dtype, "argmax"]
            times = [step[who] for who in ("lax", "torch", "jaxpool")]
            times += [argmax[who] for who in ("torch", "jaxpool")]
            lines.append(f"|{first}| {' | '.join([dtype, *(f'{t:.0f}' for t in times)])} |")
    assert "\n".join(lines) in PERFORMANCE


DTYPES = "float32", "bfloat16"


def program(row: dict[str, Any]) -> tuple[str, ...]:
    return row["case"], row["layout"], row["dtype"], row["task"]


def times_over(rows: list[dict[str, Any]], who: str) -> list[float]:
    """Return the time of jaxpool over that of another contestant, for each row that has both."""
    every = [row["microseconds"] for row in rows]
    return [each["jaxpool"] / each[who] for each in every if who in each]


def time_range(rows: list[dict[str, Any]], who: str) -> str:
    found = times_over(rows, who)
    return f"{min(found):.2f} to {max(found):.2f}"


def test_what_is_said_of_a_gpu_is_in_the_results():
    report = json.loads((ROOT / "benchmarks" / "results" / "device.json").read_text())
    rows, versions = report["rows"], report["versions"]
    with_lax = {row["case"] for row in rows if "lax" in row["microseconds"]}
    sliding = [row for row in rows if row["case"] in with_lax]

    def ratios(task: str, who: str, kind: str = "") -> str:
        these = [row for row in sliding if row["task"] == task]
        return time_range([row for row in these if kind not in row["case"].split(",")], who)

    text = " ".join(PERFORMANCE.split())
    torch = ".".join(versions["torch"].split(".")[:2])
    assert report["device"] == "NVIDIA H200"
    assert f"timed on one H200 with jax {versions['jax']} and PyTorch {torch}." in text
    assert f"The file has {len(rows)} rows, in both layouts. In the {len(sliding)} rows of" in text
    assert {row["layout"] for row in rows} == {"NHWC", "NCHW"}
    assert f"gradient take {ratios('step', 'lax')} of the time of lax" in text
    assert f"lax and {ratios('step', 'torch')} of PyTorch's; a gradient whose" in text
    assert f"whose values are unused {ratios('gradient', 'lax')} of lax; values with" in text
    assert f"values with the argmax {ratios('argmax', 'torch')} of PyTorch's" in text
    assert f"values alone {ratios('values', 'lax')} of lax" in text
    assert f"of lax and {ratios('values', 'torch')} of PyTorch's. One configuration is" in text
    behind = [row for row in sliding if max(times_over([row], "lax"), default=0) > 1.1]
    assert [program(row) for row in behind] == [
        ("vgg-pool2", "NHWC", "float32", "values"),  # the same program as that of lax, see
        ("vgg-pool2", "NCHW", "bfloat16", "values"),  # test_benchmarks.py
        ("alexnet-pool1", "NCHW", "bfloat16", "values"),
        *(("average, 2x2 at stride 2", "NHWC", dtype, "values") for dtype in DTYPES),
    ]
    assert f"channels first take {times_over(behind, 'lax')[2]:.2f} times as long" in text
    text = " ".join(README.split())
    assert f"takes {ratios('step', 'lax', 'average')} of the time of JAX's own" in text
    assert f"JAX's own and {ratios('step', 'torch', 'average')} of PyTorch's" in text


def test_what_is_said_of_other_ops_on_a_gpu_is_in_the_results():
    rows = results("device.json")
    with_lax = {row["case"] for row in rows if "lax" in row["microseconds"]}
    others = [row for row in rows if row["case"] not in with_lax]
    text = " ".join(PERFORMANCE.split())
    assert f"The other {len(others)} rows have ops that lax lacks" in text
    kinds = {
        "adaptive average": "Adaptive averages take {} of the time of PyTorch's, and {} with",
        "adaptive maximum": "Adaptive maxima take {}, and {} with",
        "global average": "Global averages take {}, and {} with",
        "global maximum": "Global maxima take {}, and {} with",
        "lp": "Lp pools take {}, and {} with",
        "maximum and unpooling": "A maximum and its unpooling take {}, and {} with",
    }
    of_kind = {kind: [row for row in others if row["case"].startswith(kind)] for kind in kinds}
    assert sum(map(len, of_kind.values())) == len(others)
    for kind, words in kinds.items():
        by_task = ([r for r in of_kind[kind] if r["task"] == task] for task in ("values", "step"))
        found = [time_range(these, "torch") for these in by_task]
        assert f"{words.format(*found)} the gradient." in text
    behind = [row for row in others if times_over([row], "torch")[0] > 1.01]
    unpooled = [row for row in of_kind["maximum and unpooling"] if row["task"] == "values"]
    behind = [row for row in behind if row not in unpooled]
    assert [program(row) for row in behind] == [
        ("global average", "NHWC", dtype, "values") for dtype in DTYPES
    ]
    slower = times_over(behind, "torch")
    assert f"take {slower[0]:.2f} times as long in float32 and {slower[1]:.2f} times in" in text


def test_the_tables_of_accelerators_are_those_of_the_results():
    steps: dict[tuple[Any, ...], Any] = {
        (row["case"], row["dtype"], row["chip"]): row["figures"]
        for row in results("accelerators.json")
        if (row["layout"], row["task"]) == ("NHWC", "step")
    }

    def moved(name: str, *row: Any) -> float:
        return steps[row][name]["megabytes"] / steps[row]["lax"]["megabytes"]

    lines, chips = [], ("v5e", "v6e")
    for case, words in NETWORKS.items():
        for dtype, first in (("float32", f" {words} "), ("bfloat16", " ")):
            cells = [dtype, *(f"{moved('jaxpool', case, dtype, chip):.2f}" for chip in chips)]
            lines.append(f"|{first}| {' | '.join(cells)} |")
    assert "\n".join(lines) in PERFORMANCE
    strided = {
        case: {
            f"{moved('mosaic', case, dtype, chip):.2f}"
            for dtype in ("float32", "bfloat16")
            for chip in ("v5e", "v6e")
        }
        for case in ("resnet-stem", "vgg-pool2", "alexnet-pool1")
    }
    assert strided == {"resnet-stem": {"0.71"}, "vgg-pool2": {"0.71"}, "alexnet-pool1": {"1.00"}}
    text = " ".join(README.split())
    assert "kernels in Pallas, which move 0.71 of the bytes of `lax` (AlexNet: as many)." in text
    lines, took = [], list[float]()
    for case, words in NETWORKS.items():
        for dtype, first in (("float32", f" {words} "), ("bfloat16", " ")):
            figures = [steps[case, dtype, chip] for chip in chips]
            assert all("cycles" in each[who] for each in figures for who in ("lax", "jaxpool"))
            cells = [
                f"{each[who]['microseconds']:.0f}"
                for each in figures
                for who in ("lax", "jaxpool", "mosaic")
            ]
            lines.append(f"|{first}| {' | '.join([dtype, *cells])} |")
            took += [e["jaxpool"]["microseconds"] / e["lax"]["microseconds"] for e in figures]
    assert "\n".join(lines) in PERFORMANCE
    *others, slowest = sorted(
        each["jaxpool"]["microseconds"] / each["lax"]["microseconds"]
        for (case, _, chip), each in steps.items()
        if case == "alexnet-pool1" and chip in chips
    )
    cropped = steps["alexnet-pool1", "float32", "v6e"]
    assert slowest == cropped["jaxpool"]["microseconds"] / cropped["lax"]["microseconds"]
    performance = " ".join(PERFORMANCE.split())
    assert f"takes {slowest:.2f} times as long as lax" in performance
    assert f"and {others[0]:.2f} to {others[-1]:.2f} times as long otherwise" in performance
    assert f"it takes {min(took):.2f} to {max(took):.2f} of the time" in text


def test_what_is_said_of_kernels_and_cycles_is_in_the_results():
    def on_v5e(*program: str) -> dict[str, dict[str, float]]:
        (figures,) = (
            row["figures"]
            for row in results("accelerators.json")
            if (row["chip"], row["case"], row["dtype"], row["task"]) == ("v5e", *program)
        )
        return figures

    text, dilation = " ".join(PERFORMANCE.split()), on_v5e("dilation-31", "float32", "values")
    assert all("cycles" in figures for figures in dilation.values())
    for figure, ratio in (("microseconds", "0.053"), ("megabytes", "1.79")):
        found = dilation["jaxpool"][figure] / dilation["lax"][figure]
        assert f"{found:.{len(ratio) - 2}f}" == ratio
    assert "at 0.053 of lax, although they move 1.79 times" in text
    for case, dtype, words in (
        ("average-3-of-12", "bfloat16", "{} us in bfloat16 instead of the {} of"),
        ("average-5-of-12", "float32", "{} us in float32 instead of {} for 5x5"),
    ):
        average = on_v5e(case, dtype, "step")
        times = [f"{average[name]['microseconds']:.0f}" for name in ("jaxpool", "lax")]
        assert words.format(*times) in text


def test_the_table_of_filters_is_that_of_the_results():
    rows = results("filters.json")
    groups: dict[str, list[float]] = {}
    for row in rows:
        ratio = row["milliseconds"][row["peer"]] / row["milliseconds"]["jaxpool"]
        groups.setdefault(row["group"], []).append(ratio)
    lines = [
        f"| {group} | {len(found)} | {geometric_mean(found):.1f} | {min(found):.2f} |"
        for group, found in groups.items()
    ]
    assert "|---|---|---|---|\n" + "\n".join(lines) + "\n\n" in PERFORMANCE
    held = {row["group"]: f"{row['temporaries_per_input']:.1f}" for row in rows}
    least = {group: f"{min(found):.2f}" for group, found in groups.items()}
    slower = [1 / groups[f"rolling {name} of 1,001"][0] for name in ("median", "quantile 0.9")]
    text = " ".join(PERFORMANCE.split())
    assert f"besides its result, {held['rolling median of 1,001']} times the array" in text
    assert f"{slower[0]:.2f} and {slower[1]:.2f} times as long as in pandas" in text
    assert f"holds the array {held['rolling deviation of 101']} times" in text
    small = least["morphology with a structure, 3x3"], least["means, 3 along an axis"]
    assert f"gain least over scipy: {small[0]} and {small[1]} times." in text
    assert min(min(found) for name, found in groups.items() if "rolling" not in name) > 1
