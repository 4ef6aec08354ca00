"""What the roles are told of a host's GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.gpu.facts import gpus_document, main
from gpuprov.gpu.models import Gpu, HostGpus
from gpuprov.gpu.observe import observe

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CARD = Gpu(index=0, uuid="GPU-1", minor=3, pci="0000:01:00.0", model="GTX 1080", compute_capability=(6, 1))
HOST = HostGpus(
    simulated=False, reason="NVML", driver_version="580.95.05", cuda_driver_version=13000, gpus=(CARD,), driver=None
)


def test_the_document_says_which_wheels_serve_the_host_or_why_none_do(tmp_path: Path) -> None:
    served = gpus_document(HOST, tmp_path)
    assert (served["wheels"], served["unserved"]) == ("cu12", None)
    old = gpus_document(replace(HOST, driver_version="470.1"), tmp_path)
    assert (old["wheels"], old["unserved"]) == (None, "driver 470.1; CUDA 12 needs driver 525.60 or newer")


def test_the_document_names_each_device_by_its_minor(tmp_path: Path) -> None:
    (gpu,) = gpus_document(HOST, tmp_path)["gpus"]
    assert (gpu["device"], gpu["uuid"], gpu["compute_capability"]) == ("/dev/nvidia3", "GPU-1", [6, 1])
    assert gpu["type"] == "gtx_1080"


def test_simulated_gpus_are_those_whose_device_is_there(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia2").touch()
    document = gpus_document(observe(root=tmp_path, mode="simulated"), tmp_path)
    assert [gpu["minor"] for gpu in document["gpus"]] == [2]
    assert document["wheels"] == "none"
    assert document["simulated"]


def test_a_host_without_a_driver_is_an_error_of_three_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["real"], tmp_path) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["what"] == "no NVIDIA driver is loaded"
    assert error["evidence"]
    assert error["fix"]


def test_the_program_that_is_sent_runs_from_a_zip_without_gpuprov(tmp_path: Path) -> None:
    from roles.cuda.action_plugins.gpu_facts import judge, program

    (tmp_path / "gpus.pyz").write_bytes(program())
    argv = [sys.executable, "-I", "-S", str(tmp_path / "gpus.pyz"), "simulated"]  # -S: no site-packages
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = judge({"stdout": done.stdout, "stderr": "", "rc": 0})
    assert result["ansible_facts"]["gpu_facts"]["simulated"]


def test_no_answer_is_an_error_of_three_parts() -> None:
    from roles.cuda.action_plugins.gpu_facts import judge

    result = judge({"stdout": "", "stderr": "sh: python3: not found\nShared connection to h closed.\n", "rc": 127})
    assert result["failed"]
    assert result["msg"].splitlines()[1:] == [
        "evidence: sh: python3: not found",
        "fix: python3 --version  # 3.10 or newer",
    ]
    error = {"error": {"what": "w", "evidence": "e", "fix": "f"}}
    assert judge({"stdout": json.dumps(error), "stderr": "", "rc": 3})["msg"] == "w\nevidence: e\nfix: f"
