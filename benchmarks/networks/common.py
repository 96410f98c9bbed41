"""What a network is to the benchmark."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Program(NamedTuple):
    """Functions of a network, neither of which computes when it is made.

    Attributes:
      init: of a key and images; returns parameters, and the state that training does not learn.
      apply: of parameters, state and images; returns the outputs, as in training.
    """

    init: Callable[[jax.Array, jax.Array], tuple[Any, Any]]
    apply: Callable[[Any, Any, jax.Array], jax.Array]


class Network(NamedTuple):
    """A network, the library that it is written in, and the images that it is measured with.

    Attributes:
      name: as in the tables.
      library: as :func:`jaxpool.patch` knows it.
      build: of images, channels last, whose shape alone counts.
      batch, pixels: of the images.
    """

    name: str
    library: str
    build: Callable[[jax.Array], Program]
    batch: int
    pixels: int

    def images(self) -> jax.Array:
        """Images of noise, no two numbers of which are likely to be equal."""
        return jax.random.normal(jax.random.key(0), (self.batch, self.pixels, self.pixels, 3))
