"""What is no array is named with the argument of the front end: masked, ragged, times."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jaxpool.compat import flax, keras, tensorflow

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
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_array_is_named(name: str, wrong: str) -> None:
    function, argument, rest = CALLS[name]
    expected = f"^{function.__name__}: `{argument}` .* not an array"
    with pytest.raises(TypeError, match=expected) as caught:
        function(WRONG[wrong], *rest)
    assert len(str(caught.value).splitlines()) == 3


def test_tensorflow_lists_windows_over_channels() -> None:
    """TensorFlow pools channels of rank 4; the module says that it is not here, and what is."""
    assert "a maximum over windows of channels" in (tensorflow.__doc__ or "")
    with pytest.raises(ValueError, match="pools the batch or the channels"):
        tensorflow.max_pool(np.zeros((1, 4, 4, 4), np.float32), (1, 1, 1, 2), (1, 1, 1, 2), "VALID")
