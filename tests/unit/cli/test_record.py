from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from tests.fakes.replay import write_tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_stdout_is_one_document_with_and_without_json(
    options: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["record", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gpuprov.record/v1"
    assert {"kernel", "cgroup", "files", "modeset", "libraries", "nvidia_smi", "devices", "nvml"} <= set(document)
    write_tree(document, tmp_path)
    assert (tmp_path / "proc/devices").read_text() == document["files"]["proc/devices"]
