"""Which of CUDA's Python packages serve a host, by its driver and its GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.gpu.facts import gpus_document
from gpuprov.gpu.models import Gpu, HostGpus
from gpuprov.gpu.observe import observe
from gpuprov.gpu.wheels import explain_unserved, find_wheels, image_wheels
from gpuprov.provision.recipe import REQUIREMENTS
from gpuprov.roles.registry import PLAIN
from gpuprov.shapes.cluster_spec import ClusterSpec
from tests.fakes.places import NOWHERE

CAPABILITIES: dict[str, tuple[int, int] | None] = {
    "Tesla K80": (3, 7),
    "GTX 1080": (6, 1),
    "V100": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "H100": (9, 0),
    "RTX 5090": (12, 0),
    "unknown": None,
}
DRIVERS = ("470.256.02", "525.147.05", "535.183.01", "550.90.07", "570.86.10", "580.95.05", "590.44.01")
# One column for each of these drivers.
TABLE = """
    GTX 1080           -  12 12 12 12 12 12
    V100               -  12 12 12 12 12 12
    T4                 -  12 12 12 12 13 13
    A100               -  12 12 12 12 13 13
    H100               -  12 12 12 12 13 13
    RTX 5090           -  12 12 12 12 13 13
    unknown            -  12 12 12 12 12 12
    GTX 1080+H100      -  12 12 12 12 12 12
    V100+RTX 5090      -  12 12 12 12 12 12
    T4+A100            -  12 12 12 12 13 13
    H100+unknown       -  12 12 12 12 12 12
    Tesla K80          -  -  -  -  -  -  -
    Tesla K80+H100     -  -  -  -  -  -  -
"""
WORDS = {"-": None, "12": "cu12", "13": "cu13"}
CASES = [
    (line[:19].strip(), driver, WORDS[word])
    for line in (text.strip() for text in TABLE.strip().splitlines())
    for driver, word in zip(DRIVERS, line[19:].split(), strict=True)
]


def host_of(models: str, driver: str) -> HostGpus:
    """A host with these GPUs; NVML cannot be asked on it, so its CUDA version is not known."""
    gpus = tuple(
        Gpu(index=n, uuid=f"GPU-{n}", minor=n, pci=f"0000:0{n}:00.0", model=m, compute_capability=CAPABILITIES[m])
        for n, m in enumerate(models.split("+"))
    )
    return HostGpus(simulated=False, reason="/proc", driver_version=driver, cuda_driver_version=None, gpus=gpus)


@pytest.mark.parametrize(("models", "driver", "wheels"), CASES)
def test_the_newest_packages_that_serve_driver_and_every_gpu(models: str, driver: str, wheels: str | None) -> None:
    host = host_of(models, driver)
    assert find_wheels(host) == wheels
    assert (explain_unserved(host) is None) == (wheels is not None)


@pytest.mark.parametrize(
    ("driver", "cuda"), [("580.95.05", None), ("580.95.05", 13000), ("570.86.10", 12080), ("570.86.10", None)]
)
def test_what_nvml_says_of_cuda_does_not_count(driver: str, cuda: int | None) -> None:
    host = replace(host_of("A100", driver), cuda_driver_version=cuda)
    assert find_wheels(host) == ("cu13" if driver.startswith("580") else "cu12")


@pytest.mark.parametrize(
    ("driver", "wheels"), [("525.53", None), ("525.60.13", "cu12"), ("580.20", "cu12"), ("580.65.06", "cu13")]
)
def test_a_driver_before_the_first_of_its_branch_that_has_the_cuda(driver: str, wheels: str | None) -> None:
    assert find_wheels(host_of("A100", driver)) == wheels


def test_simulated_gpus_need_none() -> None:
    host = observe(root=NOWHERE, mode="simulated")
    assert find_wheels(host) == "none"
    assert explain_unserved(host) is None


@pytest.mark.parametrize(
    ("models", "driver", "says"),
    [
        ("A100", "470.256.02", "driver 470.256.02; CUDA 12 needs driver 525.60 or newer"),
        (
            "H100+Tesla K80",
            "535.183.01",
            "GPU 1 (Tesla K80) has compute capability 3.7; CUDA 12 compiles for 5.0 and newer",
        ),
    ],
)
def test_the_evidence_where_nothing_serves(models: str, driver: str, says: str) -> None:
    assert explain_unserved(host_of(models, driver)) == says


def test_an_image_for_a_host_that_nothing_serves_has_the_oldest() -> None:
    assert image_wheels(host_of("Tesla K80", "470.256.02")) == "cu12"


@pytest.mark.parametrize("models", ["GTX 1080", "V100", "A100", "unknown"])
def test_nodes_and_hosts_reached_by_ssh_get_the_same(models: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    host = host_of(models, "580.95.05")
    told = gpus_document(host, tmp_path_factory.getbasetemp())["wheels"]
    assert node_recipe(ClusterSpec(), PLAIN.recipe, host, init="systemd").requirements == REQUIREMENTS[told]
