from __future__ import annotations

import os
import subprocess

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.provision.transport import load_entry, owner_lives


def test_an_entry_is_the_function_it_names() -> None:
    assert load_entry("os:getpid") == os.getpid  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("entry", ["", "os", "os:", ":getpid", "no_such_module:f", "os:no_such_function"])
def test_an_entry_that_names_nothing_is_refused(entry: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_entry(entry)
    assert repr(entry) in caught.value.evidence


def test_a_play_knows_whether_its_owner_lives() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert owner_lives(str(os.getpid()))
    assert not owner_lives(str(ended.pid))
