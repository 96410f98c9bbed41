"""Pooling for JAX: every pooling operator of the big runtimes, differentiable to any order."""

from . import reductions as reductions
from ._explain import Explanation as Explanation
from ._explain import ReceptiveField as ReceptiveField
from ._explain import explain as explain
from ._explain import receptive_field as receptive_field
from ._reductions import Reduction as Reduction
from ._window import Axis as Axis
from ._window import Geometry as Geometry
from ._window import Window as Window
from ._window import geometry as geometry
from .ops.adaptive import adaptive_avg_pool as adaptive_avg_pool
from .ops.adaptive import adaptive_max_pool as adaptive_max_pool
from .ops.adaptive import adaptive_max_pool_with_argmax as adaptive_max_pool_with_argmax
from .ops.average import avg_pool as avg_pool
from .ops.average import sum_pool as sum_pool
from .ops.custom import pool as pool
from .ops.fractional import fractional_max_pool as fractional_max_pool
from .ops.fractional import fractional_max_pool_with_argmax as fractional_max_pool_with_argmax
from .ops.global_ import global_avg_pool as global_avg_pool
from .ops.global_ import global_lp_pool as global_lp_pool
from .ops.global_ import global_max_pool as global_max_pool
from .ops.lp import gem_pool as gem_pool
from .ops.lp import lp_pool as lp_pool
from .ops.max import max_pool as max_pool
from .ops.max import max_pool_with_argmax as max_pool_with_argmax
from .ops.max import min_pool as min_pool
from .ops.rank import median_pool as median_pool
from .ops.rank import rank_pool as rank_pool
from .ops.shapes import output_shape as output_shape
from .ops.smooth import logsumexp_pool as logsumexp_pool
from .ops.smooth import soft_pool as soft_pool
from .ops.stochastic import stochastic_pool as stochastic_pool
from .ops.unpool import max_unpool as max_unpool
from .ops.windows import windows as windows

__all__ = [
    "Axis",
    "Explanation",
    "Geometry",
    "ReceptiveField",
    "Reduction",
    "Window",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "adaptive_max_pool_with_argmax",
    "avg_pool",
    "explain",
    "fractional_max_pool",
    "fractional_max_pool_with_argmax",
    "gem_pool",
    "geometry",
    "global_avg_pool",
    "global_lp_pool",
    "global_max_pool",
    "logsumexp_pool",
    "lp_pool",
    "max_pool",
    "max_pool_with_argmax",
    "max_unpool",
    "median_pool",
    "min_pool",
    "output_shape",
    "pool",
    "rank_pool",
    "receptive_field",
    "soft_pool",
    "stochastic_pool",
    "sum_pool",
    "windows",
]
__version__ = "0.1.0"
