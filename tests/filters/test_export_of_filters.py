"""``jax.export`` of the filters with symbolic sizes, against scipy."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import exported_call
from peers import require

require("scipy")
from scipy import ndimage  # noqa: E402  (only if it is there)

from jaxpool import filters  # noqa: E402

pytestmark = pytest.mark.grid(6)

FOOTPRINT = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]], bool)
STRUCTURE = np.arange(9.0, dtype=np.float32).reshape(3, 3)
AXES: dict[str, Any] = {"axes": (1, 2)}

exported = functools.partial(exported_call, "b, h, w, c")

CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "a maximum": ("maximum_filter", (3,), AXES),
    "a maximum with constants": ("maximum_filter", (4,), {"mode": "constant", **AXES}),
    "a minimum with the other end": ("minimum_filter", (3,), {"mode": "wrap", **AXES}),
    "a footprint": ("maximum_filter", (), {"footprint": FOOTPRINT, **AXES}),
    "along an axis": ("maximum_filter1d", (7, 1), {"mode": "nearest"}),
    "a mean": ("uniform_filter", (3,), AXES),
    "a long mean": ("uniform_filter", (12,), {"mode": "nearest", **AXES}),
    "a median": ("median_filter", (3,), AXES),
    "a median of a footprint": ("median_filter", (), {"footprint": FOOTPRINT, **AXES}),
    "a rank": ("rank_filter", (2, (3, 2)), AXES),
    "a dilation": ("grey_dilation", (), {"structure": STRUCTURE, **AXES}),
    "an opening": ("grey_opening", (3,), AXES),
    "a gradient": ("morphological_gradient", (3,), AXES),
}


@pytest.mark.grid(12)
@pytest.mark.parametrize("name", CALLS)
def test_filters_take_any_size(name: str) -> None:
    function, arguments, keywords = CALLS[name]
    op = lambda x: getattr(filters, function)(x, *arguments, **keywords)  # noqa: E731
    call = exported(op)
    for shape in ((1, 1, 1, 2), (2, 3, 2, 1), (2, 9, 7, 3)):
        x = np.random.default_rng(shape[1]).permutation(np.prod(shape)).reshape(shape)
        x = x.astype(np.float32)
        want = getattr(ndimage, function)(x, *arguments, **keywords)
        y, pull = jax.vjp(call, x)
        np.testing.assert_allclose(y, want, rtol=1e-6, err_msg=str(shape))
        g = np.random.default_rng(0).integers(1, 9, shape).astype(np.float32)
        np.testing.assert_allclose(pull(g)[0], jax.vjp(op, x)[1](g)[0], rtol=1e-5, atol=1e-5)


def test_binary_filters_take_any_size() -> None:
    for function in ("binary_erosion", "binary_dilation", "binary_opening", "binary_closing"):
        op = lambda x, f=function: getattr(filters, f)(x > 0, iterations=2, **AXES)  # noqa: E731
        call = exported(lambda x, op=op: op(x).astype(x.dtype))
        for shape in ((1, 1, 1, 2), (2, 9, 7, 3)):
            x = np.random.default_rng(1).integers(-2, 4, shape).astype(np.float32)
            want = getattr(ndimage, function)(x > 0, iterations=2, **AXES)
            np.testing.assert_array_equal(call(x), want)


@pytest.mark.deep
def test_of_equals_the_same_has_the_derivative() -> None:
    """The derivative goes to the same element as without export, not to its extension."""
    op = lambda x: filters.maximum_filter(x, 5, **AXES)  # noqa: E731
    x = np.random.default_rng(0).integers(0, 2, (2, 9, 7, 3)).astype(np.float32)
    pulled = (jax.vjp(f, x)[1](jnp.ones_like(x))[0] for f in (exported(op), op))
    np.testing.assert_array_equal(*pulled)


@pytest.mark.parametrize(
    ("mode", "size", "least"), [("reflect", 7, 3), ("mirror", 3, 2), ("wrap", 4, 2)]
)
def test_a_border_as_long_as_the_axis_needs_a_bound(mode: Any, size: int, least: int) -> None:
    op = lambda x: filters.uniform_filter(x, size, mode=mode, **AXES)  # noqa: E731
    with pytest.raises(ValueError) as caught:
        exported(op)
    what, facts, advice = str(caught.value).split("\n")
    assert what == "uniform_filter: axis 1 has the symbolic size h, which may be too small."
    assert f"Up to {size // 2} elements" in facts and f"at least {least}." in facts
    assert f'constraints=["h >= {least}"]' in advice
    call = exported(op, (f"h >= {least}", f"w >= {least}"))
    x = np.random.default_rng(0).random((1, least, 8, 2)).astype(np.float32)
    want = ndimage.uniform_filter(x, size, mode=mode, **AXES)
    np.testing.assert_allclose(call(x), want, rtol=1e-6)
