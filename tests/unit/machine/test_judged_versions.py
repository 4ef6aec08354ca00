"""Which versions a host has of what the table of advisories is about, and what `doctor` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.advisories import Installed
from gpuprov.machine.findings import judge_versions
from gpuprov.machine.judged_versions import find_judged_versions

if TYPE_CHECKING:
    from pathlib import Path

STANZA = "Package: {}\nStatus: install ok {}\nPriority: optional\nVersion: {}\nDescription: x\n Version: 9\n"


def host(root: Path, packages: dict[str, str], *, release: str = 'ID=debian\nVERSION_ID="12"\n') -> Path:
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text(f'PRETTY_NAME="x"\n{release}')
    stanzas = [STANZA.format(name, "installed", version) for name, version in packages.items()]
    stanzas.append(STANZA.format("lxd", "config-files", "1.0-1"))
    (root / "var/lib/dpkg/status").write_text("\n".join(stanzas))
    return root


def test_debians_packages_are_judged_by_its_release(tmp_path: Path) -> None:
    root = host(tmp_path, {"runc": "1.1.5+ds1-1+deb12u1", "docker.io": "20.10.24+dfsg1-1+deb12u1+b6", "bash": "5"})
    assert find_judged_versions(root, driver="580.95.05") == (
        Installed(product="driver", version="580.95.05"),
        Installed(product="runc", version="1.1.5+ds1-1+deb12u1", package="runc", debian="12"),
        Installed(product="docker", version="20.10.24+dfsg1-1+deb12u1+b6", package="docker.io", debian="12"),
    )


def test_packages_of_the_makers_are_judged_everywhere_and_of_others_nothing(tmp_path: Path) -> None:
    toolkit = {"nvidia-container-toolkit": "1.17.7-1", "runc": "1.1.12-0ubuntu2~22.04.1"}
    root = host(tmp_path, toolkit, release='ID=ubuntu\nVERSION_ID="22.04"\n')
    (found,) = find_judged_versions(root, driver="")
    assert found == Installed(
        product="nvidia-container-toolkit", version="1.17.7-1", package="nvidia-container-toolkit"
    )
    assert find_judged_versions(tmp_path / "nowhere", driver="") == ()


def test_the_finding_names_cve_and_fixed_version() -> None:
    old = Installed(product="runc", version="1.1.15+ds1-2", package="runc", debian="13")
    finding = judge_versions([old])
    assert finding.status == "warn"
    assert "CVE-2025-31133" in finding.evidence
    assert "fixed in 1.1.15+ds1-2+deb13u1" in finding.evidence
    assert finding.fix == "sudo apt-get update && sudo apt-get install --only-upgrade runc"


def test_where_there_is_no_fix_it_says_so_and_suggests_no_upgrade() -> None:
    finding = judge_versions([Installed(product="lxd", version="5.0.2-5+deb12u6", package="lxd", debian="12")])
    assert "not fixed in Debian 12 on " in finding.evidence
    assert "apt-get" not in finding.fix
    driver = judge_versions([Installed(product="driver", version="580.95.05")])
    assert driver.fix == "install a fixed driver of the same branch, and reboot"


def test_nothing_open_is_fine() -> None:
    finding = judge_versions([Installed(product="driver", version="580.159.04")])
    assert (finding.status, finding.fix) == ("ok", "")
    assert "driver 580.159.04" in finding.evidence
    assert judge_versions([]).status == "ok"
