"""Arguments that nobody should give, for tests/test_hostile.py."""

import jax
import jax.numpy as jnp
import numpy as np


class Odd:
    """Refuses everything that can be asked of a value."""

    def __index__(self) -> int:
        raise RuntimeError("no number")

    __len__ = __bool__ = __array__ = __index__


