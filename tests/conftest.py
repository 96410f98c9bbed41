"""Settings and fixtures of the suite: strict JAX, seeded data, peers in the header."""

import collections
import gc
import os
import secrets
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

import peers  # noqa: E402  (found through the line above)

# XLA:CPU divides the code of a program among threads, but the workers of a run occupy all cores.
# Without the division, the code is the same, and a run takes 0.92 of the time.
os.environ["XLA_FLAGS"] = (
    "--xla_cpu_parallel_codegen_split_count=1 " + os.environ.get("XLA_FLAGS", "")
).rstrip()

# Callers may forbid JAX's implicit promotion of dtypes; then the library raises where it relies on
# promotion. test_transforms.py does the same with ranks.
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="0/1", metavar="K/N", help="of the deep tests only share K of 0 .. N - 1"
    )
    parser.addoption(
        "--seed",
        type=int,
        # Set before the workers of a run start, so that all of them have the same value.
        default=int(os.environ.setdefault("JAXPOOL_TEST_SEED", str(secrets.randbelow(2**31)))),
        help="of the random programs that every run draws anew",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the versions that the results are from."""
    return [
        f"jax {jax.__version__} on {jax.default_backend()}",
        peers.report_header(),
        f"deep tests: share {config.option.share}, random programs from seed {config.option.seed}",
    ]


@pytest.hookimpl(tryfirst=True)  # before -m asks for marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Divide the cases of grids between every run and the deep tests; split the latter into shares.

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
    if jax.default_backend() != "cpu":
        skip_programs_of_the_cpu(items)


def pytest_collection_finish() -> None:
    """Exempt the modules from garbage collection, and collect cycles ten times less often.

    This saves 7 % of the time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def thin(cases: Sequence[pytest.Item], begin: int) -> None:
    """Leave one in n cases of a ``grid(n)`` to every run, and mark the others as deep.

    Tests begin at different cases, so that together they still cover every op.
    """
    grid = cases[0].get_closest_marker("grid")
    if grid is not None and hasattr(cases[0], "callspec"):
        step = grid.args[0]
        for number, case in enumerate(cases):
            if number % step != begin % min(step, len(cases)):
                case.add_marker("deep")


def left_out(items: Sequence[pytest.Item], share: str) -> set[pytest.Item]:
    """Return the deep tests of the other shares; each share has every n-th test."""
    number, count = map(int, share.split("/"))
    deep = [item for item in items if item.get_closest_marker("deep")]
    return {item for place, item in enumerate(deep) if place % count != number}


def skip_programs_of_the_cpu(items: Sequence[pytest.Item]) -> None:
    """Skip the tests whose memory, loops or flushed numbers are those of XLA:CPU."""
    skip = pytest.mark.skip(reason="asserts about the program that XLA:CPU compiles")
    for item in items:
        if item.get_closest_marker("cpu_program"):
            item.add_marker(skip)


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """Allow the promotion of dtypes, which this suite forbids, but other libraries rely on."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def as_installed(standard_promotion: None) -> Iterator[None]:
    """Undo patches of the libraries before and after the test."""
    import jaxpool

    jaxpool.unpatch()
    yield
    jaxpool.unpatch()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's name: the same data on every run and machine."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
