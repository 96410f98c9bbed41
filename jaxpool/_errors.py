"""The one shape of every error message: what is wrong, the facts, what to do."""


def message(op: str, what: str, facts: str, advice: str) -> str:
    """Return the three-line text of an error raised by the public function ``op``."""
    return f"{op}: {what}\n  {facts}\n  {advice}"
