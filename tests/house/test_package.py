"""The installed package: version, contents, dependencies, and the modules that an import loads."""

import re
import sys
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import numpy as np
import pytest
from fresh import PACKAGE_PARENT, ROOT, build_wheel, printed

import jaxpool

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Top-level modules that `import jaxpool` adds to what JAX and NumPy load by themselves.
ADDED = """
import sys, jax, jax.numpy, numpy
before = {name.partition(".")[0] for name in sys.modules}
import jaxpool
EXTRA
print(*sorted({name.partition(".")[0] for name in sys.modules} - before))
"""


def modules_added(extra: str = "", path: Path = PACKAGE_PARENT) -> set[str]:
    names = printed("-c", ADDED.replace("EXTRA", extra), path=path).split()
    return {name for name in names if name not in sys.stdlib_module_names}


def test_import_loads_nothing_but_jaxpool():
    assert modules_added() == {"jaxpool"}


def test_the_import_check_notices_a_framework(tmp_path: Path):
    (tmp_path / "torch.py").touch()
    (tmp_path / "jaxpool").symlink_to(PACKAGE_PARENT / "jaxpool")
    assert modules_added("import torch", path=tmp_path) == {"jaxpool", "torch"}


def test_one_version_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert newest and newest[1] == PYPROJECT["project"]["version"] == jaxpool.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory):
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def test_wheel_holds_the_whole_package(wheel: zipfile.ZipFile):
    in_wheel = {name for name in wheel.namelist() if name.startswith("jaxpool/")}
    in_checkout = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "jaxpool").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert in_wheel == in_checkout
    assert {"jaxpool/py.typed", "jaxpool/_demo/digits.npz"} <= in_wheel


def test_wheel_metadata(wheel: zipfile.ZipFile):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_string(wheel.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-4.0"  # the data of the demo
    assert metadata["Requires-Python"] == ">=3.11"
    always = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert {re.split(r"\W", r)[0] for r in always} == {"jax", "jaxlib", "numpy"}
    for name in ("LICENSE", "jaxpool/_demo/digits.txt"):
        assert any(n.endswith(f".dist-info/licenses/{name}") for n in wheel.namelist()), name


def test_digits_are_small_and_whole():
    path = ROOT / "jaxpool" / "_demo" / "digits.npz"
    assert path.stat().st_size <= 150_000
    with np.load(path) as digits:
        images, labels = digits["images"], digits["labels"]
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8
    assert images.min() == 0 and images.max() == 16
    # The class counts that the repository states for this part of the data.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
