"""Pooling for JAX: reductions over many kinds of windows, differentiable to any order."""

import typing

from . import reductions as reductions
from ._errors import missing_names as _missing_names
from ._explain.explain import Explanation, explain
from ._explain.receptive_field import ReceptiveField, receptive_field
from ._geometry.axis import Axis
from ._geometry.resolve import Geometry, geometry
from ._geometry.window import Window
from ._patch.patch import Patch, patch, unpatch
from .ops.adaptive import adaptive_avg_pool, adaptive_max_pool, adaptive_max_pool_with_argmax
from .ops.average import avg_pool, sum_pool
from .ops.blur import blur_pool, max_blur_pool
from .ops.custom import pool
from .ops.fractional import fractional_max_pool, fractional_max_pool_with_argmax
from .ops.global_ import global_max_pool, global_max_pool_with_argmax, global_min_pool
from .ops.global_sums import (
    global_avg_pool,
    global_logsumexp_pool,
    global_lp_pool,
    global_std_pool,
)
from .ops.lp import gem_pool, lp_pool
from .ops.max import max_pool, max_pool_with_argmax, min_pool, min_pool_with_argmin
from .ops.rank import median_pool, rank_pool
from .ops.regions import ps_roi_align, ps_roi_pool, roi_align, roi_pool
from .ops.shapes import output_shape
from .ops.smooth import logsumexp_pool, soft_pool
from .ops.statistics import quantile_pool, std_pool, var_pool
from .ops.stochastic import stochastic_pool
from .ops.unpool import max_unpool
from .ops.windows import windows
from .reductions import Reduction

__all__ = [
    "Axis",
    "Explanation",
    "Geometry",
    "Patch",
    "ReceptiveField",
    "Reduction",
    "Window",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "adaptive_max_pool_with_argmax",
    "avg_pool",
    "blur_pool",
    "explain",
    "fractional_max_pool",
    "fractional_max_pool_with_argmax",
    "gem_pool",
    "geometry",
    "global_avg_pool",
    "global_logsumexp_pool",
    "global_lp_pool",
    "global_max_pool",
    "global_max_pool_with_argmax",
    "global_min_pool",
    "global_std_pool",
    "logsumexp_pool",
    "lp_pool",
    "max_blur_pool",
    "max_pool",
    "max_pool_with_argmax",
    "max_unpool",
    "median_pool",
    "min_pool",
    "min_pool_with_argmin",
    "output_shape",
    "patch",
    "pool",
    "ps_roi_align",
    "ps_roi_pool",
    "quantile_pool",
    "rank_pool",
    "receptive_field",
    "roi_align",
    "roi_pool",
    "soft_pool",
    "std_pool",
    "stochastic_pool",
    "sum_pool",
    "unpatch",
    "var_pool",
    "windows",
]
__version__ = "0.1.0"

if typing.TYPE_CHECKING:
    from . import compat as compat
    from . import filters as filters
    from . import layers as layers
    from . import sharding as sharding

_LAZY = ("compat", "filters", "layers", "sharding")
"""Modules that are imported on first use."""


def __dir__() -> list[str]:
    return [*__all__, "reductions", *_LAZY]


if not typing.TYPE_CHECKING:  # otherwise a type checker would accept every name
    __getattr__ = _missing_names.getter(__name__, _missing_names.of_ops, __all__, submodules=_LAZY)
