"""The types that describe a network to the benchmark."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Program(NamedTuple):
    """Functions of a network; creating a ``Program`` computes nothing.

    Attributes:
      init: of a key and images; returns parameters, and the state that training does not learn.
      apply: of parameters, state and images; returns the outputs, as in training.
    """

    init: Callable[[jax.Array, jax.Array], tuple[Any, Any]]
    apply: Callable[[Any, Any, jax.Array], jax.Array]


class Network(NamedTuple):
    """A network, its library, and the images for its measurement.

    Attributes:
      name: as in the tables.
      library: the name that :func:`jaxpool.patch` accepts.
      build: of images, channels last, of which it uses only the shape.
      batch, pixels: the batch size and the side of the images.
    """

    name: str
    library: str
    build: Callable[[jax.Array], Program]
    batch: int
    pixels: int

    def images(self) -> jax.Array:
        """Return images of noise, in which equal numbers are unlikely."""
        return jax.random.normal(jax.random.key(0), (self.batch, self.pixels, self.pixels, 3))
