"""Two runs of the tests on one machine's engines: the second ends and says who has them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.only_run import only_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's runs use the engines")
def test_a_second_run_ends_and_names_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):  # the first has let it go
        with (
            only_run(path),
            pytest.raises(pytest.exit.Exception, match=f"process {os.getpid()} in "),
            only_run(path),
        ):
            pass
