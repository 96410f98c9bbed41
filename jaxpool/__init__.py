"""Pooling for JAX: every pooling operator of the big runtimes, differentiable to any order."""

from . import reductions as reductions
from ._reductions import Reduction as Reduction
from ._window import Axis as Axis
from ._window import Geometry as Geometry
from ._window import Window as Window
from ._window import geometry as geometry
from .ops.average import avg_pool as avg_pool
from .ops.average import sum_pool as sum_pool
from .ops.custom import pool as pool
from .ops.max import max_pool as max_pool
from .ops.max import max_pool_with_argmax as max_pool_with_argmax
from .ops.max import min_pool as min_pool
from .ops.random import fractional_max_pool as fractional_max_pool
from .ops.random import fractional_max_pool_with_argmax as fractional_max_pool_with_argmax
from .ops.random import stochastic_pool as stochastic_pool
from .ops.shapes import output_shape as output_shape
from .ops.unpool import max_unpool as max_unpool

__all__ = [
    "Axis",
    "Geometry",
    "Reduction",
    "Window",
    "avg_pool",
    "fractional_max_pool",
    "fractional_max_pool_with_argmax",
    "geometry",
    "max_pool",
    "max_pool_with_argmax",
    "max_unpool",
    "min_pool",
    "output_shape",
    "pool",
    "stochastic_pool",
    "sum_pool",
]
__version__ = "0.1.0"
