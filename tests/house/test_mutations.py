import ast
from pathlib import Path

import mutants
import mutations
import pytest
from faults import FAULTS, TESTS, Fault

import jaxpool

PACKAGE = Path(jaxpool.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.new}")
def test_a_seeded_fault_still_has_its_place(fault: Fault):
    """Otherwise the faults belong to an earlier program; mutations.py tries them."""
    assert fault.old in (PACKAGE / fault.file).read_text()
    assert fault.file in TESTS


@pytest.mark.parametrize(
    ("sound", "faulty"),
    [
        ("a < b", ["(a <= b)"]),
        ("a == b", ["(a != b)"]),
        ("a + 2", ["(a - 2)", "a + (3)", "a + (1)"]),
        ("a // b", ["(a * b)"]),
        ("a & b", ["(a | b)"]),
        ("a and b", ["(a or b)"]),
        ("-a", ["(a)"]),
        ("not a", ["(a)"]),
        ("a if b else c", ["(c if b else a)"]),
        ("f(True)", ["f((False))"]),
        ("min(a)", ["(max)(a)"]),
        ("jnp.maximum(a, b)", ["(jnp.minimum)(a, b)"]),
        ("if a:\n    b", ["if (not (a)):\n    b"]),
        ("while a or b:\n    c", ["while (not (a or b)):\n    c", "while (a and b):\n    c"]),
        ('"é", a > b', ['"é", (a >= b)']),
    ],
)
def test_a_mutant_is_one_small_fault(sound: str, faulty: list[str]) -> None:
    assert [mutant.applied(sound) for mutant in mutants.mutants(sound)] == faulty


@pytest.mark.parametrize(
    "sound",
    [
        "def f(a: int | None) -> int | None:\n    '''1 + 1'''\n    return a",
        "raise ValueError(a + 1)",
        'f"{a + 1}"',
        "def slower_reason(a):\n    return a > 1",
        "a, 1.5, 'b', None",
    ],
)
def test_what_computes_nothing_has_no_mutants(sound: str) -> None:
    assert mutants.mutants(sound) == []


def test_random_mutants_are_other_programs_and_come_again_from_their_seed() -> None:
    made = mutations.random_faults(30, 7, mutations.MODULES)
    assert len({name.partition(": ")[2] for name, *_ in made}) > 25
    assert made == mutations.random_faults(30, 7, mutations.MODULES)
    assert [made[4], made[1]] == mutations.random_faults(30, 7, mutations.MODULES, [5, 2])
    assert made != mutations.random_faults(30, 8, mutations.MODULES)
    for _, file, text in made:
        sound = ast.dump(ast.parse((PACKAGE / file).read_text()))
        assert ast.dump(ast.parse(text)) != sound
        assert file not in mutations.EXCLUDED


def test_every_module_has_tests_that_are_there() -> None:
    for module in mutations.MODULES:
        for path in PACKAGE.glob(module if module.endswith(".py") else f"{module}/**/*.py"):
            tests = mutations.tests_of(path.relative_to(PACKAGE).as_posix())
            assert tests and all(Path(test).exists() for test in tests), path


def test_a_fault_that_no_test_notices_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations.Laboratory, "__init__", lambda *a: None)
    monkeypatch.setattr(mutations.Laboratory, "outcome", lambda *a: mutations.MISSED)
    assert mutations.main(["1", "2"]) == 2
    monkeypatch.setattr(mutations.Laboratory, "outcome", lambda *a: "found")
    assert mutations.main(["--random", "3", "--modules", "_geometry/axis.py"]) == 0


@pytest.mark.deep
def test_the_tests_of_a_copy_notice_a_fault_and_pass_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [str(mutations.ROOT / "tests/geometry/test_geometry.py")]
    monkeypatch.setattr(mutations, "tests_of", lambda file: tests)
    laboratory = mutations.Laboratory(tmp_path, "not deep and not site")
    ((_, file, text),) = mutations.seeded_faults([1])
    assert laboratory.outcome(file, text) == "found"
    sound = (PACKAGE / file).read_text()
    assert (tmp_path / "jaxpool" / file).read_text() == sound
    assert laboratory.outcome(file, sound) == mutations.MISSED
