"""The names by which Slurm's users ask for models of GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuprov.gpu.type_name import gpu_type

PROFILES = Path(__file__).parents[3] / "gpuprov/gpu/profiles.json"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 3090", "rtx_3090"),
        ("NVIDIA GeForce GTX 1080 Ti", "gtx_1080_ti"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000"),
        ("NVIDIA RTX A6000", "rtx_a6000"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA L40S", "l40s"),
        ("SIMULATED NVIDIA GeForce RTX 4090", "rtx_4090"),
        ("3D Controller, odd=1:2", "gpu_3d_controller_odd_1_2"),
        ("NVIDIA", "unnamed"),
    ],
)
def test_a_model_has_the_name_that_sites_use(model: str, name: str) -> None:
    assert gpu_type(model) == name
    assert gpu_type(model, mig=True) == f"{name}_mig"


def test_no_name_can_be_taken_for_a_count_or_for_syntax() -> None:
    models = [gpu["model"] for gpu in json.loads(PROFILES.read_text())["gpus"].values()]
    assert all(re.fullmatch("[a-z][a-z0-9_]{0,39}", gpu_type(model)) for model in (*models, "x" * 99, "7", ":,()[]|&*"))
