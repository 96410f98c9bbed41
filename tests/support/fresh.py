"""A fresh interpreter, as a user has it: without this suite's strict settings and imports."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import jaxpool

ROOT = Path(__file__).parents[2]
PACKAGE_PARENT = Path(jaxpool.__file__).parents[1]


def python(
    *arguments: str,
    path: Path = PACKAGE_PARENT,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python on ``arguments``, with ``path`` before the installed packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **(env or {}), "PYTHONPATH": str(path)},
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
    )


def printed(*arguments: str, path: Path = PACKAGE_PARENT, stdin: str = "") -> str:
    """Return the output of Python on ``arguments``; raise with its error output if it fails."""
    done = python(*arguments, path=path, stdin=stdin)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into ``folder``."""
    done = python("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"hatchling failed\n{done.stdout}\n{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack_wheel(folder: Path) -> Path:
    """Build the wheel and unpack it; return the folder to put on the path."""
    target = folder / "installed"
    with zipfile.ZipFile(build_wheel(folder)) as archive:
        archive.extractall(target)
    return target
