"""`--env` of `create-node`: a value, or that of this process; for `run` see tests/unit/spec/test_run_options.py."""

from __future__ import annotations

import pytest

from gpuprov.cli import create_node
from gpuprov.core.errors import UsageError


def given(*texts: str) -> tuple[str, ...]:
    options = [word for text in texts for word in ("-e", text)]
    created: tuple[str, ...] = create_node.create.make_context("create-node", ["c009", *options]).params["variables"]
    return created


def test_a_name_alone_has_the_value_that_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOO", "a=b c")
    assert given("FOO", "BAR=1", "EMPTY=") == ("FOO=a=b c", "BAR=1", "EMPTY=")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["FOO"], "--env FOO: it has no value, and FOO is not set here"),
        (["1x=3"], "--env: '1x' is not a valid variable"),
        (["a b"], "--env: 'a b' is not a valid variable"),
        ([""], "--env: '' is not a valid variable"),
        (["A=1", "A=2"], "--env: A is set twice"),
    ],
)
def test_what_cannot_be_set_is_refused_in_words_of_the_option(
    texts: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOO", raising=False)
    with pytest.raises(UsageError) as refused:
        given(*texts)
    assert refused.value.what == words
    assert "spec" not in f"{refused.value.evidence} {refused.value.fix}"
