"""What the front ends share: errors in the caller's words, and words settled once."""

from typing import Any

import pytest

from jaxpool import geometry
from jaxpool.compat._words import in_words, remembered


def test_our_messages_name_the_callers_function_and_arguments() -> None:
    with (
        pytest.raises(ValueError, match="^pool: `ksize` = 6 does not fit pooled axis 0"),
        in_words("pool", window_shape="ksize"),
    ):
        geometry(5, 6, 1)


@pytest.mark.parametrize("error", [ValueError("a: b"), KeyError("a: b\n  c"), UnicodeError("x: y")])
def test_other_errors_pass_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, in_words("pool"):
        raise error
    assert caught.value is error


def test_words_are_settled_once_unless_they_could_be_mistaken() -> None:
    calls: list[Any] = []

    @remembered
    def settle(*words: Any) -> Any:
        calls.append(words)
        return words

    for words in ((1, (2, None), "a"), (1, (2, None), "a"), (1.0, (2, None), "a"), (True, [2])):
        assert settle(*words) == words
    assert calls == [(1, (2, None), "a"), (1.0, (2, None), "a"), (True, [2])]
