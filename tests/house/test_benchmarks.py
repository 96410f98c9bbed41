"""The benchmark of networks runs on small images, and its figures are right."""

import functools
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import pytest
from fresh import ROOT

import jaxpool
from jaxpool._lowerings.plan import Choice

sys.path.insert(0, str(ROOT / "benchmarks"))

import device  # noqa: E402
import models  # noqa: E402
import models_table  # noqa: E402
import networks  # noqa: E402

pytestmark = [pytest.mark.grid(8), pytest.mark.usefixtures("as_installed")]

BY_NAME = {network.name: network for network in networks.NETWORKS}


# The weights of the papers and of torchvision's ports with a head of ten classes; VGG, the U-Net
# and SegNet are narrower than published.
PARAMETERS = {
    "haiku.nets.ResNet50": 25_557_032 - 2_048 * 990 - 990,
    "ResNet-50 of Flax's ImageNet example": 25_557_032 - 2_048 * 990 - 990,
    "SqueezeNet 1.1": 1_235_496 - 512 * 990 - 990,
    "Inception v3": 23_834_568 - 2_048 * 990 - 990,
    "PoolFormer-S12": 11_915_176 - 512 * 990 - 990,
}


def shapes(network: networks.Network) -> tuple[Any, Any, jax.Array]:
    """Return the shapes of parameters and state, without computing them, and the images."""
    x = network.images()
    made = jax.eval_shape(network.build(x).init, jax.random.key(1), x)
    return (*made, x)


@pytest.mark.grid(7)
@pytest.mark.parametrize("name", BY_NAME)
def test_a_network_pools_in_its_library_and_patched_in_jaxpool(name: str) -> None:
    network = BY_NAME[name]
    arguments, apply = shapes(network), network.build(network.images()).apply

    def trace() -> tuple[str, Any]:
        forward = lambda *arguments: apply(*arguments)  # noqa: E731
        jaxpr, out = jax.make_jaxpr(forward, return_shape=True)(*arguments)
        return str(jaxpr), out

    (theirs, out), ours = trace(), ("name=max_pool", "name=avg_pool")
    assert "reduce_window" in theirs and not any(op in theirs for op in ours)
    with jaxpool.patch(network.library):
        text, patched = trace()
    assert any(op in text for op in ours) and patched == out


@pytest.mark.deep
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_network_is_as_large_as_published(name: str) -> None:
    parameters, *_ = shapes(BY_NAME[name])
    assert sum(leaf.size for leaf in jax.tree.leaves(parameters)) == PARAMETERS[name]


@pytest.mark.deep
@pytest.mark.parametrize(("name", "pixels"), [("a small CNN", 16), ("SqueezeNet 1.1", 63)])
def test_a_row_has_every_figure(name: str, pixels: int) -> None:
    network = BY_NAME[name]._replace(batch=2, pixels=pixels)
    row = models.measure(network, rounds=1, compiles=1)
    for figure in ("step_milliseconds", "compile_seconds", "temporary_bytes"):
        assert set(row[figure]) == {"jaxpool", "library"}
        assert all(value > 0 for value in row[figure].values())
    assert all(0 <= value < models.MAX_DIFFERENCE for value in row["largest_difference"].values())
    assert all(
        0 < value < models.MAX_DIFFERENCE for value in row["difference_by_last_place"].values()
    )
    assert json.loads(json.dumps(row)) == row
    shown = models.line(row)
    assert shown.startswith(name) and "step_" not in shown


def test_a_wrong_gradient_is_noticed() -> None:
    right = {"first": jax.numpy.arange(4.0), "later": jax.numpy.arange(4.0)}
    same = models._differences((right, right), (right, right))
    assert same == {"outputs": 0, "gradients": 0}
    for leaf in right:
        wrong = {**right, leaf: right[leaf].at[2].add(0.1)}
        found = models._differences((right, wrong), (right, right))
        with pytest.raises(AssertionError, match="gradients differ by 0.033"):
            models.check(found, same)
        models.check(found, {"outputs": 0, "gradients": 0.02})
        broken = {**right, leaf: right[leaf].at[3].set(float("nan"))}
        with pytest.raises(AssertionError, match="outputs differ by nan"):
            models.check(models._differences((broken, right), (right, right)), same)


# --- the tables of the pages ----------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [
    {
        "network": name,
        "library": library,
        "step_milliseconds": {"jaxpool": 2.0, "library": 3.0},
        "compile_seconds": {"jaxpool": 4.0, "library": 3.0},
        "temporary_bytes": {"jaxpool": 100, "library": 256},
        "largest_difference": {"outputs": 0.0, "gradients": gap},
        "difference_by_last_place": {"outputs": 1e-6, "gradients": 2e-2},
    }
    for name, library, gap in (("haiku.nets.ResNet50", "haiku", 2.6e-8), ("U-Net", "flax", 3e-2))
]


def test_a_pool_is_compared_and_timed_on_the_device_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "BYTES", 2**16)
    monkeypatch.setattr(device, "TURNS", 3)
    monkeypatch.setattr(device, "SECONDS_PER_TURN", 1e-4)
    case = device.cases()["googlenet-branch"]._replace(shape=(9, 8, 5))
    job = device.Job("googlenet-branch", case, "NCHW", "float32")
    made = device.compiled(job)
    rows = list(device.measured(job, made))
    assert [row["task"] for row in rows] == ["values", "argmax", "gradient", "step"]
    for row in rows:
        contestants = {"jaxpool"} if row["task"] == "argmax" else {"jaxpool", "lax"}
        assert set(row["microseconds"]) >= contestants and min(row["microseconds"].values()) > 0
    with pytest.raises(AssertionError, match="of the norm from lax"):
        wrong = {("values", who): made["values", who] for who in ("jaxpool", "lax")}
        wrong["values", "lax"] = lambda x: 1 + made["values", "jaxpool"](x)
        device.compare(
            job._replace(case=case._replace(tasks=("values",))), device.programs(job, wrong)
        )


def first_window_on_gpu(pool: Callable[[Any, str], Any], job: device.Job) -> list[str]:
    """Return the attributes of a program's first reduce_window: that of the values, if any."""
    program = functools.partial(device._positional, pool, device.DATA_FORMATS[job.layout])
    x = jax.ShapeDtypeStruct(job.shape, job.dtype)
    text = jax.jit(program).trace(x).lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r'"stablehlo.reduce_window"\(.*<\{(.*)\}>', text)[:1]


@pytest.mark.deep
def test_values_of_small_windows_on_gpu_are_those_of_lax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times differ by the noise of the measurement, which the page states."""
    chosen: list[str] = []

    def spy(choice: Choice, *arrays: Any, call: Any = Choice.__call__, **settings: Any) -> Any:
        chosen.extend([choice.gpu] if choice.operation == "reduce" else [])
        return call(choice, *arrays, **settings)

    monkeypatch.setattr(Choice, "__call__", spy)
    monkeypatch.setattr(device, "_has_torch", lambda: False)
    jax.clear_caches()  # a program that was traced before calls no choice
    cases, same = device.cases(), list[float]()
    rows = json.loads((ROOT / "benchmarks" / "results" / "device.json").read_text())["rows"]
    for row in rows:
        if row["task"] != "values" or row["case"] not in cases:
            continue
        chosen.clear()
        case, ratio = (
            cases[row["case"]],
            row["microseconds"]["jaxpool"] / row["microseconds"]["lax"],
        )
        job = device.Job(row["case"], case, row["layout"], row["dtype"])
        assert case.lax is not None
        windows = [first_window_on_gpu(pool, job) for pool in (case.ours, case.lax)]
        if chosen == ["reduce_window"]:
            assert windows[0] == windows[1] != []
            same.append(ratio)
        elif ratio > 1.03:
            assert (*job[:1], *job[2:]) == ("alexnet-pool1", "NCHW", "bfloat16")
    text = " ".join((ROOT / "docs" / "performance" / "gpu.md").read_text().split())
    noise = f"{min(same):.2f} to {max(same):.2f}"
    assert f"so their ratios, {noise}, are noise of the measurement" in text


def test_the_tables_have_every_network_and_figure() -> None:
    assert models_table.full(ROWS).splitlines()[2:] == [
        "| haiku.nets.ResNet50 | Haiku | 1.50 | 0.75 | 2.56 | 0e+00 | 3e-08 |",
        "| U-Net | Flax | 1.50 | 0.75 | 2.56 | 0e+00 | 3e-02 (2e-02) |",
    ]
    assert models_table.short(ROWS).splitlines()[3:] == [
        "| | ResNet-50 (Haiku) | U-Net |",
        "|---|---|---|",
        "| step | 1.50 | 1.50 |",
        "| compile | 0.75 | 0.75 |",
        "| temporaries | 2.56 | 2.56 |",
    ]
    assert set(models_table.SHORT) <= set(BY_NAME)


def test_a_table_is_replaced_and_the_page_stays() -> None:
    empty = f"a\n\n{models_table.BEGIN}\n{models_table.END}\n\nb\n"
    once = models_table.filled(empty, models_table.full(ROWS))
    assert once.startswith("a\n") and once.endswith("\nb\n") and "U-Net" in once
    assert models_table.filled(once, models_table.full(ROWS)) == once
    assert models_table.filled(once, "") == empty
    with pytest.raises(ValueError, match="once each"):
        models_table.filled("a", "")


@pytest.mark.parametrize("page", models_table.PAGES)
def test_the_pages_say_what_was_measured(page: str) -> None:
    """Without results there is no table, so every number was measured."""
    made, text = "", (ROOT / page).read_text()
    if models_table.RESULTS.exists():
        rows = json.loads(models_table.RESULTS.read_text())["rows"]
        assert [row["network"] for row in rows] == list(BY_NAME)
        made = models_table.PAGES[page](rows)
    assert models_table.filled(text, made) == text


def test_the_readme_has_room_for_its_table() -> None:
    text = models_table.filled((ROOT / "README.md").read_text(), models_table.short(ROWS))
    assert len(text.splitlines()) <= 200
