"""Random calls of a front end and of the system that it represents.

A case is a call as code, so that a failure can be pasted. 20 cases share one program, compiled
without optimisation, because compiling costs far more than running. A front end refuses a call
while the program is traced.

``JAXPOOL_CONFIGURATIONS=20000 python -m pytest -m "deep or not deep" -k random tests/compat`` runs
more cases.
"""

import os
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from golden import read
from helpers import QUICK, same_elements

BATCH = 20
CONFIGURATIONS = os.environ.get("JAXPOOL_CONFIGURATIONS")
BATCHES = range(-(-int(CONFIGURATIONS or 500) // BATCH))
"""Numbers of the batches that a live test runs."""

SHARE = BATCHES if CONFIGURATIONS else BATCHES[sys.version_info >= (3, 12) :: 2]
"""The batches of a system that both Pythons of CI have: half of them on each, by default."""


class Refused(str):
    """The message of a refused call."""


Outcome = tuple[np.ndarray, ...] | Refused


@dataclass(frozen=True)
class Case:
    """A call. ``arrays`` are expressions of np; the first is differentiated if ``gradient``."""

    function: str
    arrays: tuple[str, ...]
    words: dict[str, Any] = field(default_factory=dict)
    gradient: bool = False

    def data(self) -> list[np.ndarray]:
        return [eval(code, {"np": np}) for code in self.arrays]

    @property
    def code(self) -> str:
        """The call as code to paste."""
        words = "".join(f", {name}={value!r}" for name, value in self.words.items())
        return f"{self.function}({', '.join(self.arrays)}{words})"


def generator(*words: Any) -> np.random.Generator:
    """Return a generator that depends only on the words."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def array(
    rng: np.random.Generator,
    shape: Sequence[int],
    dtype: str = "float32",
    special: bool = False,
    extremes: bool = True,
) -> str:
    """Return code of an array of few numbers, for ties; ``special`` adds NaN and -inf.

    Integers may include the ``extremes`` of their dtype.
    """
    seed, shape = int(rng.integers(1_000_000)), tuple(int(n) for n in shape)
    source = f"np.random.default_rng({seed})"
    if special:
        numbers = "[np.nan, np.nan, -np.inf, -np.inf, np.inf, 1, 2, 3, 4, -3e38]"
        return f"{source}.choice(np.array({numbers}, {dtype!r}), {shape})"
    if extremes and np.dtype(dtype).kind in "iu" and rng.random() < 0.3:
        info = np.iinfo(dtype)
        return f"{source}.integers({info.min}, {info.max}, {shape}, {dtype!r}, endpoint=True)"
    low, high = (0, 9) if dtype.startswith("u") else (-4, 5)
    if rng.random() < 0.5 and not np.dtype(dtype).itemsize == 1:
        low, high = -999, 1000
    return f"{source}.integers({low}, {high}, {shape}).astype({dtype!r})"


def cotangent(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Return small integers, whose sums are exact."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 - 3).astype(dtype)


# --- the front end --------------------------------------------------------------------------------


def _outputs(module: ModuleType, case: Case, arrays: Sequence[Any]) -> tuple[Any, ...]:
    def call(*arrays: Any) -> tuple[Any, ...]:
        result = getattr(module, case.function)(*arrays, **case.words)
        return result if isinstance(result, tuple) else (result,)

    if not case.gradient:
        return call(*arrays)
    first_and_all = lambda x: (lambda y: (y[0], y))(call(x, *arrays[1:]))  # noqa: E731
    values, pullback, outputs = jax.vjp(first_and_all, arrays[0], has_aux=True)
    return *outputs, pullback(jnp.asarray(cotangent(values.shape, values.dtype)))[0]


def run(module: ModuleType, cases: Sequence[Case]) -> list[Outcome]:
    """Return the outcomes of a front end; gradients come last."""
    arrays = [case.data() for case in cases]
    refused: dict[int, Refused] = {}

    def program(rows: list[list[jax.Array]]) -> list[tuple]:
        results: list[tuple] = []
        for n, (case, row) in enumerate(zip(cases, rows, strict=True)):
            try:
                results.append(_outputs(module, case, row))
            except (TypeError, ValueError) as error:
                assert str(error).count("\n") == 2, f"{case.code}\n{error}"
                refused[n] = Refused(error)
                results.append(())
        return results

    with jax.enable_x64(any(a.dtype.itemsize == 8 for row in arrays for a in row)):
        results = jax.jit(program).lower(arrays).compile(QUICK)(arrays)
    return [
        refused.get(n, tuple(np.asarray(part) for part in outputs))
        for n, outputs in enumerate(results)
    ]


# --- comparing ------------------------------------------------------------------------------------


def assert_agrees(case: Case, ours: Outcome, theirs: Outcome, ulps: float = 0) -> None:
    """Fail unless both refuse or the outputs are equal.

    Integers are equal exactly, floats to ``ulps`` of the largest. Zeros of both signs are equal,
    and so are NaN.
    """
    both = f"{case.code}\njaxpool:\n{ours!r}\nthe system:\n{theirs!r}"
    assert isinstance(ours, Refused) == isinstance(theirs, Refused), f"one side refuses: {both}"
    if isinstance(ours, Refused) or isinstance(theirs, Refused):
        return
    assert len(ours) == len(theirs), both
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape, f"shapes differ: {both}"
        assert mine.dtype.kind == other.dtype.kind, f"dtypes differ: {both}"
        assert mine.dtype.itemsize == other.dtype.itemsize or other.dtype.kind == "i", both
        assert same(mine, other, ulps), f"numbers differ: {both}"


def same(mine: np.ndarray, other: np.ndarray, ulps: float = 0) -> bool:
    """Return whether two arrays have the same shape and numbers."""
    return mine.shape == other.shape and bool(same_elements(other, mine, ulps).all())


def check_batch(
    module: ModuleType,
    cases: Sequence[Case],
    theirs: Callable[[Case], Outcome],
    ulps: Callable[[Case], float] = lambda case: 0,
    known: Callable[[Case, Outcome, Outcome], tuple[Outcome, Outcome]] = lambda c, a, b: (a, b),
) -> None:
    """Compare a batch; ``known`` removes known differences from both sides."""
    for case, ours in zip(cases, run(module, cases), strict=True):
        assert_agrees(case, *known(case, ours, theirs(case)), ulps(case))


def agrees_with_record(
    call: Callable[[Any], Any],
    x: np.ndarray,
    record: dict[str, Any],
    refusals: tuple[type[Exception], ...] = (TypeError, ValueError),
) -> bool:
    """Return whether ``call(x)`` has the parts of a recorded run, or is refused as the run was.

    ``refusals`` are the errors that count as a refusal. Indices are compared exactly.
    """
    with jax.enable_x64(x.dtype.itemsize == 8):
        try:
            result = call(x)
        except refusals as error:
            assert len(str(error).splitlines()) == 3
            return record["status"] != "ok"
        if record["status"] != "ok":
            return False
        parts = jax.tree.leaves(result)
        found = {"values": parts[0], "indices": parts[-1]}
        if "grad_input" in record:
            first = lambda x: jax.tree.leaves(call(x))[0]  # noqa: E731
            found["grad_input"] = jax.grad(lambda x: first(x).sum())(jnp.asarray(x))
        ulps = {"values": 4, "indices": 0, "grad_input": 4}
        keys = found.keys() & record.keys()
        return all(same(np.asarray(found[key]), read(record[key]), ulps[key]) for key in keys)
