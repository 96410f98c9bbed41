"""The shared cache of the front ends: arguments are canonicalized once."""

from typing import Any

from jaxpool.compat._cached import cached


def test_arguments_are_canonicalized_once_unless_they_could_be_mistaken() -> None:
    calls: list[Any] = []

    @cached
    def canonicalize(*arguments: Any) -> Any:
        calls.append(arguments)
        return arguments

    for given in ((1, (2, None), "a"), (1, (2, None), "a"), (1.0, (2, None), "a"), (True, [2])):
        assert canonicalize(*given) == given
    assert calls == [(1, (2, None), "a"), (1.0, (2, None), "a"), (True, [2])]
