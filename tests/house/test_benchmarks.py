"""The benchmark of whole networks runs, on small images, and measures what it says."""

import json
import sys
from typing import Any

import jax
import pytest
from fresh import ROOT

import jaxpool

sys.path.insert(0, str(ROOT / "benchmarks"))

import models  # noqa: E402
import networks  # noqa: E402

pytestmark = pytest.mark.grid(8)

BY_NAME = {network.name: network for network in networks.NETWORKS}


def small(name: str) -> networks.Network:
    network = BY_NAME[name]
    return network._replace(batch=2, pixels=63 if network.library == "equinox" else 32)


@pytest.fixture(autouse=True)
def as_installed() -> Any:
    """The libraries rely on the promotion of dtypes that this suite forbids."""
    jaxpool.unpatch()
    with jax.numpy_dtype_promotion("standard"):
        yield
    jaxpool.unpatch()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_network_pools_in_its_library_and_patched_in_jaxpool(name: str) -> None:
    network = small(name)
    x = network.images()
    apply, parameters = network.make(jax.random.key(1), x)

    def trace() -> tuple[str, Any]:
        forward = lambda p, x: apply(p, x)  # noqa: E731
        jaxpr, shapes = jax.make_jaxpr(forward, return_shape=True)(parameters, x)
        return str(jaxpr), shapes

    (theirs, shapes), ours = trace(), ("name=max_pool", "name=avg_pool")
    assert "reduce_window" in theirs and not any(op in theirs for op in ours)
    with jaxpool.patch(network.library):
        text, patched = trace()
    assert any(op in text for op in ours) and patched == shapes


@pytest.mark.deep
@pytest.mark.parametrize("name", ["SegNet", "PoolFormer"])
def test_a_row_has_every_figure(name: str) -> None:
    row = models.measure(small(name), rounds=1, compiles=1)
    for figure in ("step_milliseconds", "compile_seconds", "temporary_bytes"):
        assert set(row[figure]) == {"jaxpool", "library"}
        assert all(value > 0 for value in row[figure].values())
    assert all(0 <= value < models.MOST for value in row["largest_difference"].values())
    assert json.loads(json.dumps(row)) == row
    shown = models.line(row)
    assert shown.startswith(name) and "step_" not in shown


def test_a_wrong_gradient_is_noticed() -> None:
    right = {"w": jax.numpy.arange(4.0)}
    wrong = {"w": right["w"].at[2].add(0.1)}
    assert models._differences((right, right), (right, right)) == {"outputs": 0, "gradients": 0}
    with pytest.raises(AssertionError, match="gradients differ by 0.033"):
        models._differences((right, wrong), (right, right))
    with pytest.raises(AssertionError, match="outputs differ by nan"):
        models._differences(({"w": right["w"] * float("nan")}, right), (right, right))
