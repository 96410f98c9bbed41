"""Values and gradients of blur pools against kornia, with the padding of the paper and zeros."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers import require

import jaxpool

torch = require("torch")
filters = require("kornia").filters
pytestmark = pytest.mark.grid(16)

SHAPE = (2, 3, 11, 14)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("taps", range(2, 8))
@pytest.mark.parametrize("maximum", [None, 2, 3])
def test_blur_pools_are_those_of_kornia(
    maximum: int | None, taps: int, stride: int, rng: np.random.Generator
) -> None:
    x = rng.permutation(np.prod(SHAPE)).reshape(SHAPE).astype(np.float32) / 64
    theirs = torch.from_numpy(x).requires_grad_()
    if maximum is None:
        want = filters.blur_pool2d(theirs, taps, stride)
    else:
        want = filters.max_blur_pool2d(theirs, taps, stride, max_pool_size=maximum)
    cotangent = rng.standard_normal(want.shape).astype(np.float32)
    want.backward(torch.from_numpy(cotangent))

    def ours(x: jax.Array) -> jax.Array:
        words: Any = {"mode": "constant", "data_format": "NCHW"}
        if maximum is None:
            pads = ((taps - 1) // 2, taps // 2)
            return jaxpool.blur_pool(x, (taps, taps), stride, (pads, pads), **words)
        window = (maximum, maximum)
        return jaxpool.max_blur_pool(x, window, stride, blur_shape=taps, **words)

    got, transpose = jax.vjp(ours, jnp.asarray(x))
    case = f"{maximum}, {taps}, {stride}"
    np.testing.assert_allclose(got, want.detach(), rtol=1e-6, atol=1e-5, err_msg=case)
    (gradient,) = transpose(jnp.asarray(cotangent))
    np.testing.assert_allclose(gradient, theirs.grad, rtol=1e-6, atol=1e-5, err_msg=case)
