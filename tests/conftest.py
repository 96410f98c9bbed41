"""Settings and fixtures of the whole suite: strict JAX, seeded data, the peers in the header."""

import collections
import gc
import os
import secrets
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

import peers  # noqa: E402  (found through the line above)

# Callers may forbid JAX's silent promotion of dtypes; then the library's own code raises wherever
# it relies on one. test_transforms.py does the same with ranks.
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="0/1", metavar="K/N", help="of the deep tests only share K of 0 .. N - 1"
    )
    parser.addoption(
        "--seed",
        type=int,
        # Set before the workers of a run start: all of them find the same.
        default=int(os.environ.setdefault("JAXPOOL_TEST_SEED", str(secrets.randbelow(2**31)))),
        help="of the random programs that every run draws anew",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the versions that the results below were made with."""
    return [
        f"jax {jax.__version__} on {jax.default_backend()}",
        peers.report_header(),
        f"deep tests: share {config.option.share}, random programs from seed {config.option.seed}",
    ]


@pytest.hookimpl(tryfirst=True)  # before -m asks for marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Divide the cases of grids between every run and the deep tests, and deal those in shares.

    A test that the command line names by ``::`` runs with all its cases.
    """
    if not any("::" in word for word in config.args):
        tests = collections.defaultdict(list)
        for item in items:
            tests[item.nodeid.partition("[")[0]].append(item)
        for name, cases in tests.items():
            thin(cases, zlib.crc32(name.encode()))
        others = left_out(items, config.option.share)
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=list(others))


def pytest_collection_finish() -> None:
    """Look at what the modules hold no more: cycles are collected ten times as rarely, by 7 % of
    the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def thin(cases: Sequence[pytest.Item], begin: int) -> None:
    """Of the cases of a ``grid(n)`` leave one in n to every run, and make the others deep.

    Tests begin at different cases, so that together they still meet every op.
    """
    grid = cases[0].get_closest_marker("grid")
    if grid is not None and hasattr(cases[0], "callspec"):
        step = grid.args[0]
        for number, case in enumerate(cases):
            if number % step != begin % min(step, len(cases)):
                case.add_marker("deep")


def left_out(items: Sequence[pytest.Item], share: str) -> set[pytest.Item]:
    """The deep tests of the other shares: each is dealt every n-th."""
    number, count = map(int, share.split("/"))
    deep = [item for item in items if item.get_closest_marker("deep")]
    return {item for place, item in enumerate(deep) if place % count != number}


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own name: the same data on every run and every machine."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
