"""The real runtimes that the tests compare with; they are required, not optional.

``require("torch")`` imports a peer or fails. The only exceptions are the rows of ``EXEMPT``, which
name the Pythons on which the ``peers`` extra does not install a peer. A missing peer thus never
becomes an unnoticed skip.
"""

import importlib
import importlib.util
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

PYTHON = sys.version_info[:2]
PEERS = ("torch", "onnx", "onnxruntime", "openvino", "flax", "keras", "kornia", "pandas", "scipy")

# peer -> (first Python without it, the reason). The same rule as the markers in pyproject.toml.
EXEMPT = {
    "torch": ((3, 12), "results were recorded with torch 2.13.0, which is tested on Python 3.11"),
    "kornia": ((3, 12), "it rests on torch"),
    "keras": ((3, 12), "its pooling is Python over XLA, and compared on Python 3.11"),
}


def exemption(name: str) -> str | None:
    """Return why ``name`` may be missing on this Python, or None if it is required."""
    first, reason = EXEMPT.get(name, (None, ""))
    return reason if first is not None and PYTHON >= first else None


def require(name: str) -> ModuleType:
    """Import the peer ``name``; fail if it is missing although the ``peers`` extra installs it.

    Call it at the top of a test module. On a Python that ``EXEMPT`` names, without the peer, the
    whole module is reported as skipped with the row's reason.
    """
    if name not in PEERS:
        raise ValueError(f"unknown peer {name!r}; known are {', '.join(PEERS)}")
    if importlib.util.find_spec(name) is None:
        reason = exemption(name)
        if reason is None:
            raise ModuleNotFoundError(
                f"the tests need {name}, which is not installed. "
                'Install the peers: pip install ".[test,peers]"'
            )
        pytest.skip(f"no {name} here: {reason}", allow_module_level=True)
    if name == "openvino":
        # Its import sends usage data from a forked process, and JAX warns about the fork. OpenVINO
        # sends no data without this module.
        sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]
    module = importlib.import_module(name)
    if name == "torch":
        module.set_num_threads(1)  # threads of max_unpool race to write at repeated indices
    return module


def report_header() -> str:
    """Return a line for pytest's header: every peer with its version, or why it is not in use."""
    return "peers: " + ", ".join(_describe(name) for name in PEERS)


def _describe(name: str) -> str:
    if importlib.util.find_spec(name) is not None:
        return f"{name} {version(name)}"
    return f"{name} MISSING" if exemption(name) is None else f"{name} not required on this Python"
