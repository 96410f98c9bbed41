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
    """Shapes of parameters and state, and the images, without computing the former."""
    x = network.images()
    made = jax.eval_shape(network.build(x).init, jax.random.key(1), x)
    return (*made, x)


@pytest.fixture(autouse=True)
def as_installed() -> Any:
    """The libraries rely on the promotion of dtypes that this suite forbids."""
    jaxpool.unpatch()
    with jax.numpy_dtype_promotion("standard"):
        yield
    jaxpool.unpatch()


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
    whole = {"first": right["w"], "later": right["w"]}
    for leaf in whole:
        broken = {**whole, leaf: right["w"].at[3].set(float("nan"))}
        with pytest.raises(AssertionError, match="outputs differ by nan"):
            models._differences((broken, whole), (whole, whole))
