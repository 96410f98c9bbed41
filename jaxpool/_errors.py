"""The one shape of every error message: what is wrong, the facts, what to do."""

from typing import Any

_LONGEST = 80


def message(op: str, what: str, facts: str, advice: str) -> str:
    """Return the three-line text of an error raised by the public function ``op``."""
    lines = (" ".join(line.split()) for line in (f"{op}: {what}", facts, advice))
    return "\n  ".join(lines)


def shown(value: Any) -> str:
    """Return ``value`` as the caller may have written it, on one line and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
