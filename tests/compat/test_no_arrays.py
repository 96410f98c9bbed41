"""Errors for objects that are no arrays name the argument, as do those for arrays as names."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool.compat import equinox, flax, haiku, keras, mli, onednn, tensorflow, torch

WRONG: dict[str, Any] = {
    "masked": np.ma.array([[[1.0], [2.0]]], mask=[[[False], [True]]]),
    "ragged": [[[1.0], [2.0, 3.0]]],
    "times": np.zeros((1, 2, 1), "timedelta64[s]"),
}
CALLS: dict[str, tuple[Callable[..., Any], str, tuple[Any, ...]]] = {
    "flax max": (flax.max_pool, "inputs", ((2,),)),
    "flax average": (flax.avg_pool, "inputs", ((2,),)),
    "flax pool": (flax.pool, "inputs", (0.0, np.add, (2,), (1,), "VALID")),
    "keras max": (keras.max_pool, "inputs", (2,)),
    "keras average": (keras.average_pool, "inputs", (2,)),
    "keras adaptive max": (keras.adaptive_max_pool, "inputs", (1,)),
    "keras adaptive average": (keras.adaptive_average_pool, "inputs", (1,)),
    "tensorflow max": (tensorflow.max_pool, "input", (2, 1, "VALID")),
    "haiku max": (haiku.max_pool, "value", (2, 2, "VALID")),
    "haiku average": (haiku.avg_pool, "value", (2, 2, "VALID")),
    "torch max": (torch.max_pool1d, "input", (2,)),
}
LAYERS = (equinox.MaxPool1d(2), equinox.AvgPool1d(2), equinox.AdaptiveMaxPool1d(1))
X = np.ones((1, 2, 1), np.float32)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_array_is_named(name: str, wrong: str) -> None:
    function, argument, rest = CALLS[name]
    expected = f"^{function.__name__}: `{argument}` .* not an array"
    with pytest.raises(TypeError, match=expected) as caught:
        function(WRONG[wrong], *rest)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_array_is_named_by_a_layer(layer: Any, wrong: str) -> None:
    with pytest.raises(TypeError, match=f"^{type(layer).__name__}: `x` .* not an array"):
        layer(WRONG[wrong])


@pytest.mark.parametrize("name", CALLS)
def test_what_is_an_array_but_none_of_jax_is_told_why(name: str) -> None:
    function, argument, rest = CALLS[name]
    reason = f"`{argument}` has dtype .f4; it has non-native byte order"
    with pytest.raises(TypeError, match=reason):
        function(X.astype(X.dtype.newbyteorder()), *rest)
    with pytest.raises(TypeError, match=r"has a shape and a dtype, but no values"):
        function(jax.ShapeDtypeStruct(X.shape, X.dtype), *rest)


@pytest.mark.parametrize("name", CALLS)
def test_a_transfer_that_the_user_forbids_is_no_fault_of_the_array(name: str) -> None:
    function, _, rest = CALLS[name]
    with jax.transfer_guard_host_to_device("disallow_explicit"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed host-to-device transfer"):
            function(X, *rest)


def test_tensorflow_lists_windows_over_channels() -> None:
    """TensorFlow pools channels of rank 4; the module docstring and the error exclude this."""
    assert "a maximum over windows of channels" in (tensorflow.__doc__ or "")
    with pytest.raises(ValueError, match="pools the batch or the channels"):
        tensorflow.max_pool(np.zeros((1, 4, 4, 4), np.float32), (1, 1, 1, 2), (1, 1, 1, 2), "VALID")


IMAGE = np.ones((1, 4, 4, 2), np.float32)
POOLING = ((2, 2), (2, 2), 0, 0, 0)
NAMES: dict[str, Callable[[Any], Any]] = {
    "haiku max": lambda name: haiku.max_pool(IMAGE, 2, 2, name),
    "haiku average": lambda name: haiku.avg_pool(IMAGE, 2, 2, name),
    "keras padding": lambda name: keras.max_pool(IMAGE, 2, 2, name),
    "keras layout": lambda name: keras.max_pool(IMAGE, 2, 2, "valid", name),
    "tensorflow layout": lambda name: tensorflow.max_pool(IMAGE, 2, 2, "SAME", name),
    "tensorflow average": lambda name: tensorflow.avg_pool(IMAGE, 2, 2, "SAME", name),
    "tensorflow argmax": lambda name: tensorflow.max_pool_with_argmax(IMAGE, 2, 2, "SAME", name),
    "onednn algorithm": lambda name: onednn.forward_inference(IMAGE, name, *POOLING),
    "onednn tag": lambda name: onednn.forward_training(IMAGE, "max", *POOLING, tag=name),
    "mli rounding": lambda name: mli.avepool_hwc_fx16(
        mli.FxTensor(IMAGE[0].astype(np.int16), 8), mli.PoolConfig(2, 2), rounding=name
    ),
    "patch": jaxpool.patch,
    "unpatch": jaxpool.unpatch,
}


@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize("array", [np.array([2, 2]), np.array(["SAME", "VALID"]), np.array([])])
def test_an_array_is_not_a_name(case: str, array: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"^\w+: ") as caught:
        NAMES[case](array)
    assert len(str(caught.value).splitlines()) == 3
