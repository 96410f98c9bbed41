from pathlib import Path

import pytest
from faults import FAULTS, TESTS, Fault

import jaxpool

PACKAGE = Path(jaxpool.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.new}")
def test_a_seeded_fault_still_has_its_place(fault: Fault):
    """Or the faults would be of a program that is no more; mutations.py tries them out."""
    assert fault.old in (PACKAGE / fault.file).read_text()
    assert fault.file in TESTS
