"""The laws that a reduction declares, checked on all triples of numbers of every dtype.

Lowerings split a window into parts, combine the parts in any order, let parts overlap if the
reduction is idempotent, and fill padding with its identity. Each of these steps is right only if a
law holds, also for special numbers: infinities, NaN, both zeros, the limits of the integers.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64_for

from jaxpool import reductions
from jaxpool.reductions import MAX, MIN, SUM, Reduction, accumulator, identity_array, sum_dtype

FLOATS = ("float64", "float32", "float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e3m4")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *FLOAT8, *SIGNED, *UNSIGNED, "bool")

NAMED = {name: getattr(reductions, name) for name in reductions.__all__}
REDUCTIONS: dict[str, Reduction] = {
    **{name: value for name, value in NAMED.items() if isinstance(value, Reduction)},
    **{f"lp({p:g})": reductions.lp(p) for p in (0.5, 1, 2, 3, np.inf)},
}


def combined_dtype(reduction: Reduction, dtype: str) -> np.dtype | None:
    """Return the dtype in which ``dtype`` is combined; None if the reduction refuses it."""
    if reduction.accumulator is not None:
        wide = reduction.accumulator(np.dtype(dtype))
        return None if wide is None else np.dtype(wide)
    return np.dtype(dtype) if reduction.comparator else accumulator(np.dtype(dtype))


def _cases() -> dict[str, tuple[Reduction, np.dtype]]:
    """Return every reduction with every dtype; of those with equal laws, only the first."""
    found: dict[tuple[Any, ...], tuple[str, Reduction, np.dtype]] = {}
    for (name, reduction), dtype in itertools.product(REDUCTIONS.items(), DTYPES):
        with x64_for(dtype):
            combined = combined_dtype(reduction, dtype)
            if combined is not None:
                identity = str(identity_array(reduction, combined))
                laws = (
                    reduction.combine,
                    reduction.comparator,
                    reduction.idempotent,
                    identity,
                    combined,
                )
                found.setdefault(laws, (f"{name}-{combined.name}", reduction, combined))
    return {name: (reduction, combined) for name, reduction, combined in found.values()}


CASES = _cases()
SELECTIONS = {name: case for name, case in CASES.items() if case[0].comparator is not None}
over_cases = pytest.mark.parametrize("case", CASES)
over_selections = pytest.mark.parametrize("case", SELECTIONS)


def awkward(dtype: np.dtype) -> np.ndarray:
    """Return the numbers of a dtype that are special for an order."""
    if dtype == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(dtype, jnp.integer):
        low, high = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
        return np.unique(np.array([low, low + 1, high // 2, high - 1, high, 0, 1], dtype))
    limits = jnp.finfo(dtype)
    finite = [limits.min, -1.5, -limits.smallest_normal, -0.0, 0.0, 1, 1.75, limits.max]
    return np.array([np.nan, -np.inf, *map(float, finite), np.inf, -np.nan], dtype)


def small(dtype: np.dtype) -> np.ndarray:
    """Return numbers whose sums and products are exact."""
    if dtype == np.bool_ or jnp.issubdtype(dtype, jnp.integer):
        return awkward(dtype)  # integers wrap, which is exact too
    return np.array([-2, -0.5, 0, 0.25, 1, 3], dtype)


def numbers_for(reduction: Reduction, dtype: np.dtype) -> np.ndarray:
    """Return the numbers to combine: for a selection, special numbers after ``prepare``."""
    if reduction.comparator is None:
        return small(dtype)
    numbers = awkward(dtype)
    return (
        numbers
        if reduction.prepare is None
        else np.asarray(reduction.prepare(jnp.asarray(numbers)))
    )


def triples(numbers: np.ndarray) -> list[jax.Array]:
    """Return three arrays that enumerate all triples of the numbers."""
    index = np.array(list(itertools.product(range(len(numbers)), repeat=3)))
    return [jnp.asarray(numbers[column]) for column in index.T]


def same(a: Any, b: Any, reduction: Reduction) -> bool:
    """Return whether numbers are equal, NaN to NaN; only a logarithm may be rounded."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return bool((np.asarray(a) == np.asarray(b)).all())
    close = 1e-5 if reduction is reductions.LOGSUMEXP else 0
    a, b = (np.asarray(part).astype(np.float64) for part in (a, b))
    return np.allclose(a, b, rtol=close, atol=close, equal_nan=True)


# --- the laws of every reduction ------------------------------------------------------------------


def test_all_reductions_are_tried() -> None:
    assert {MAX, MIN, SUM} <= set(REDUCTIONS.values())
    alike = set(REDUCTIONS) - {name.split("-")[0] for name in CASES}
    assert {REDUCTIONS[name].combine for name in alike} == {SUM.combine}
    assert {dtype for _, dtype in CASES.values()} == {np.dtype(dtype) for dtype in DTYPES}


@pytest.mark.grid(7)
@over_cases
def test_combine_keeps_dtype_and_shape(case: str) -> None:
    reduction, dtype = CASES[case]
    with x64_for(dtype):
        a, b, _ = triples(numbers_for(reduction, dtype))
        combined = reduction.combine(a, b)
    assert combined.dtype == dtype and combined.shape == a.shape


@pytest.mark.grid(7)
@over_cases
def test_combine_is_commutative_and_associative(case: str) -> None:
    reduction, dtype = CASES[case]
    with x64_for(dtype):
        a, b, c = triples(numbers_for(reduction, dtype))
        combine = reduction.combine
        assert same(combine(a, b), combine(b, a), reduction)
        assert same(combine(combine(a, b), c), combine(a, combine(b, c)), reduction)


@pytest.mark.grid(7)
@over_cases
def test_combine_ignores_the_identity(case: str) -> None:
    reduction, dtype = CASES[case]
    with x64_for(dtype):
        identity = identity_array(reduction, dtype)
        assert isinstance(identity, np.ndarray) and identity.shape == ()
        assert identity.dtype == dtype
        a = jnp.asarray(numbers_for(reduction, dtype))
        e = jnp.broadcast_to(jnp.asarray(identity), a.shape)
        assert same(reduction.combine(a, e), a, reduction)
        assert same(reduction.combine(e, a), a, reduction)


@pytest.mark.grid(7)
@over_cases
def test_idempotence_is_claimed_exactly_where_it_holds(case: str) -> None:
    reduction, dtype = CASES[case]
    with x64_for(dtype):
        a = jnp.asarray(numbers_for(reduction, dtype))
        assert same(reduction.combine(a, a), a, reduction) == reduction.idempotent


@pytest.mark.grid(7)
@over_cases
def test_the_identity_is_concrete_inside_a_trace(case: str) -> None:
    reduction, dtype = CASES[case]
    found: list[np.ndarray] = []

    def traced(x: jax.Array) -> jax.Array:
        found.append(identity_array(reduction, x.dtype))
        return x

    with x64_for(dtype):
        jax.eval_shape(traced, jax.ShapeDtypeStruct((2,), dtype))
        assert same(found[0], identity_array(reduction, dtype), reduction)


def test_the_trial_finds_what_breaks_a_law() -> None:
    a, b, c = triples(small(np.dtype(np.float32)))
    minus = Reduction("minus", lambda a, b: a - b, 0)
    assert not same(minus.combine(a, b), minus.combine(b, a), minus)
    mean = Reduction("mean of two", lambda a, b: (a + b) / 2, 0)
    assert same(mean.combine(a, b), mean.combine(b, a), mean)
    left, right = mean.combine(mean.combine(a, b), c), mean.combine(a, mean.combine(b, c))
    assert not same(left, right, mean)


# --- known identities -----------------------------------------------------------------------------

IDENTITIES: dict[str, tuple[Reduction, str, Any]] = {
    "max float32": (MAX, "float32", -np.inf),
    "max bfloat16": (MAX, "bfloat16", -np.inf),
    "max float8 with infinity": (MAX, "float8_e5m2", -np.inf),
    "max float8 without infinity": (MAX, "float8_e4m3fn", -448),
    "max int8": (MAX, "int8", -128),
    "max uint32": (MAX, "uint32", 0),
    "max bool": (MAX, "bool", False),
    "min float16": (MIN, "float16", np.inf),
    "min float8 without infinity": (MIN, "float8_e4m3fn", 448),
    "min int32": (MIN, "int32", 2**31 - 1),
    "min uint8": (MIN, "uint8", 255),
    "min bool": (MIN, "bool", True),
    "sum float32": (SUM, "float32", 0),
    "sum int32": (SUM, "int32", 0),
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_identities_by_hand(case: str) -> None:
    reduction, dtype, value = IDENTITIES[case]
    assert identity_array(reduction, np.dtype(dtype)) == np.asarray(value, dtype)


# --- selections -----------------------------------------------------------------------------------


@pytest.mark.grid(7)
@over_selections
def test_beats_is_a_strict_weak_order(case: str) -> None:
    """The order is irreflexive, asymmetric and transitive; ties are transitive as well."""
    reduction, dtype = SELECTIONS[case]
    assert reduction.comparator is not None
    with x64_for(dtype):
        a, b, c = triples(awkward(dtype))
        ab, ba, bc, cb, ac, ca, aa = (
            np.asarray(reduction.comparator(p, q))
            for p, q in ((a, b), (b, a), (b, c), (c, b), (a, c), (c, a), (a, a))
        )
    assert ab.dtype == bool
    assert not aa.any()
    assert not (ab & ba).any()
    assert not (ab & bc & ~ac).any()
    tied = [~(p | q) for p, q in ((ab, ba), (bc, cb), (ac, ca))]
    assert not (tied[0] & tied[1] & ~tied[2]).any()


@pytest.mark.grid(7)
@over_selections
def test_combine_returns_the_preferred_of_its_operands(case: str) -> None:
    reduction, dtype = SELECTIONS[case]
    assert reduction.comparator is not None
    with x64_for(dtype):
        a, b, _ = triples(awkward(dtype))
        best = jnp.where(reduction.comparator(b, a), b, a)
        assert same(reduction.combine(a, b), best, reduction)


@pytest.mark.grid(7)
@over_selections
def test_nothing_is_beaten_by_the_identity(case: str) -> None:
    reduction, dtype = SELECTIONS[case]
    assert reduction.comparator is not None
    with x64_for(dtype):
        a = jnp.asarray(numbers_for(reduction, dtype))
        e = jnp.broadcast_to(jnp.asarray(identity_array(reduction, dtype)), a.shape)
        assert not reduction.comparator(e, a).any()


@pytest.mark.grid(7)
@over_selections
def test_nan_beats_every_number_and_the_first_nan_stays(case: str) -> None:
    reduction, dtype = SELECTIONS[case]
    assert reduction.comparator is not None
    with x64_for(dtype):
        a, b, _ = (np.asarray(part) for part in triples(awkward(dtype)))
        comparator = np.asarray(reduction.comparator(jnp.asarray(b), jnp.asarray(a)))
    one, other = a != a, b != b
    assert one.any() == jnp.issubdtype(dtype, jnp.floating)
    assert comparator[other & ~one].all()
    assert not comparator[one].any()


@pytest.mark.grid(7)
@over_selections
def test_the_order_is_that_of_numbers(case: str) -> None:
    """``extremum`` names the preferred end of the order; both zeros are the same number."""
    reduction, dtype = SELECTIONS[case]
    assert reduction.comparator is not None and reduction.extremum in ("max", "min")
    with x64_for(dtype):
        a, b, _ = (np.asarray(part) for part in triples(awkward(dtype)))
        comparator = np.asarray(reduction.comparator(jnp.asarray(b), jnp.asarray(a)))
    numbers = ~((a != a) | (b != b))
    with np.errstate(invalid="ignore"):
        expected = b > a if reduction.extremum == "max" else b < a
    assert (comparator == expected)[numbers].all()


@pytest.mark.grid(7)
@over_selections
def test_the_argmax_of_three_is_the_first_however_they_are_grouped(case: str) -> None:
    reduction, dtype = SELECTIONS[case]
    comparator = reduction.comparator
    assert comparator is not None

    def later_if_better(first: Any, second: Any) -> Any:
        take = comparator(second[0], first[0])
        return tuple(jnp.where(take, s, f) for f, s in zip(first, second, strict=True))

    with x64_for(dtype):
        values = triples(awkward(dtype))
        a, b, c = ((value, jnp.full(value.shape, tap)) for tap, value in enumerate(values))
        left = later_if_better(later_if_better(a, b), c)[1]
        right = later_if_better(a, later_if_better(b, c))[1]
    elements = np.stack([np.asarray(value) for value in values]).astype(np.float64)
    elements = elements if reduction.extremum == "max" else -elements
    elements = np.where(
        np.isnan(elements), np.inf, np.nan_to_num(elements, posinf=1e300, neginf=-1e300)
    )
    assert (np.asarray(left) == np.asarray(right)).all()
    if np.dtype(dtype).itemsize < 8:  # the wide integers do not fit a float64
        assert (np.asarray(left) == elements.argmax(axis=0)).all()


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_accumulator_is_wide_for_narrow_floats_alone(dtype: str) -> None:
    narrow = dtype in FLOAT8 or dtype in ("float16", "bfloat16")
    assert accumulator(np.dtype(dtype)) == np.dtype("float32" if narrow else dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_have_the_dtype_of_jnp_sum(dtype: str) -> None:
    with x64_for(dtype):
        expected = jnp.sum(jnp.zeros((1,), dtype)).dtype
        assert sum_dtype(np.dtype(dtype)) == expected
        assert SUM.result is not None and SUM.result(np.dtype(dtype)) == expected


# --- values ---------------------------------------------------------------------------------------


def test_a_reduction_is_equal_to_itself_alone() -> None:
    one = Reduction("sum", jnp.add, 0)
    assert one != Reduction("sum", jnp.add, 0) and one == one
    assert len({one, MAX, MAX}) == 2
    assert reductions.lp(2) is reductions.lp(2.0)
    assert reductions.lp(2) != reductions.lp(3)


def test_an_identity_may_be_a_value_or_a_function() -> None:
    value, function = Reduction("sum", jnp.add, 3), Reduction("sum", jnp.add, lambda dtype: 3)
    for reduction in (value, function):
        assert identity_array(reduction, np.dtype(np.int8)) == np.int8(3)


def test_laws_are_claimed_as_they_are() -> None:
    assert MAX.idempotent and MIN.idempotent and not SUM.idempotent
    assert MAX.comparator and MIN.comparator and SUM.comparator is None
    assert all(value.associative and value.commutative for value in REDUCTIONS.values())
