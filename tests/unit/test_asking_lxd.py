"""The tests' own questions to LXD have a limit: an LXD that hangs ends the run, not the time of CI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e import conftest

if TYPE_CHECKING:
    from pathlib import Path


def test_an_lxd_that_does_not_answer_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "lxc"
    client.write_text("#!/bin/sh\nexec sleep 60\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(conftest, "ANSWER_S", 0.1)
    with pytest.raises(pytest.exit.Exception, match="lxd has not answered"):
        conftest.lxd("instances")
