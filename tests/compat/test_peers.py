"""A missing peer is a failure; the only exceptions are the markers of the extra."""

import importlib.util
import re
import tomllib

import peers
import pytest
from fresh import ROOT

EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def hide(monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == peer else find(name)
    )


@pytest.mark.parametrize("peer", [p for p in peers.PEERS if p not in peers.EXEMPT])
def test_a_missing_peer_fails_on_every_python(monkeypatch: pytest.MonkeyPatch, peer: str):
    hide(monkeypatch, peer)
    with pytest.raises(ModuleNotFoundError, match=rf"need {peer}, .*\[test,peers\]"):
        peers.require(peer)
    assert f"{peer} MISSING" in peers.report_header()


@pytest.mark.parametrize("python, fails", [((3, 11), True), ((3, 12), False), ((3, 13), False)])
def test_torch_may_be_missing_from_python_3_12_on(
    monkeypatch: pytest.MonkeyPatch, python: tuple[int, int], fails: bool
):
    hide(monkeypatch, "torch")
    monkeypatch.setattr(peers, "PYTHON", python)
    with pytest.raises(ModuleNotFoundError if fails else pytest.skip.Exception, match="torch"):
        peers.require("torch")
    assert ("torch MISSING" in peers.report_header()) == fails


def test_an_unknown_peer_is_an_error():
    with pytest.raises(ValueError, match="unknown peer 'tensorflow'; known are torch, onnx"):
        peers.require("tensorflow")


def test_the_extra_and_the_table_name_the_same_peers():
    assert {re.split(r"\W", line)[0] for line in EXTRA["peers"]} == set(peers.PEERS)


def test_the_marker_and_the_exemption_are_one_rule():
    marked = {re.split(r"\W", line)[0]: line for line in EXTRA["peers"] if ";" in line}
    assert marked.keys() == peers.EXEMPT.keys()
    for name, (first, _) in peers.EXEMPT.items():
        assert f"python_version < '{first[0]}.{first[1]}'" in marked[name]
