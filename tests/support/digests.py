"""Digests of values, indices and gradients. Run by test_determinism.py: ``digests.py CPUS``."""

import hashlib
import json
import os
import sys
from typing import Any

if __name__ == "__main__":
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]))

import jax
import numpy as np
from every_op import EVERY_OP, numbers, with_gradient

NAMES = (
    "max_pool_with_argmax",
    "avg_pool",
    "lp_pool",
    "adaptive_max_pool",
    "max_unpool",
)
"""One op for each way of computing."""


def array() -> np.ndarray:
    """Return an array that is large enough to be split over threads, whose sums are rounded."""
    return numbers(64, 128) * np.float32(1.1)


def digests(tree: Any) -> list[str]:
    """Return a digest of each array."""
    return [hashlib.sha256(np.asarray(a).tobytes()).hexdigest() for a in jax.tree.leaves(tree)]


def compiled() -> Any:
    """Return all ops of ``NAMES`` with their gradients, as one compiled program."""
    return jax.jit(lambda x: {name: with_gradient(EVERY_OP[name])(x) for name in NAMES})


if __name__ == "__main__":
    print(json.dumps({name: digests(both) for name, both in compiled()(array()).items()}))
