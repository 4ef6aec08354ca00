"""`host prepare --engine incus` on Debian 12: where Incus comes from, and that nothing else does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuprov.core.reporter import Silent
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"
SOURCE, PIN = "gpuprov-incus.list", "gpuprov-incus"
THEIRS = "'https://apt.example/linux/debian/dists/bookworm/InRelease' apt.example_InRelease 0 "
UPDATES = "'http://mirror.lab/debian/dists/bookworm-updates/InRelease' mirror.lab_InRelease 0 "
OWN = "'http://mirror.lab/debian/dists/bookworm/InRelease' mirror.lab_debian_dists_bookworm_InRelease 0 "
SECURITY = "'http://mirror.lab/security/dists/bookworm-security/InRelease' mirror.lab_security_InRelease 0 "
PACKAGES = "'http://mirror.lab/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.lab_Packages 0 "
BACKPORTS = "'http://mirror.lab/debian/dists/stable-backports/InRelease' mirror.lab_InRelease 0 "
APT = """#!/bin/sh
if [ "$1" = --print-uris ]; then cat "$0.sources"; exit; fi
echo "$@" >>"$0.calls"
[ ! -e "$0.fails" ] || { echo "E: The repository 'http://mirror.lab/debian bookworm-backports' has no Release file" >&2
exit 100; }
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get of these tests' own."""
    program = tmp_path / "programs" / "apt-get"
    program.parent.mkdir()
    program.write_text(APT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def enable(folder: Path) -> tuple[str, ...]:
    variables = {
        "host_engine": "incus",
        "host_backports_file": str(folder / SOURCE),
        "host_backports_pin": str(folder / PIN),
    }
    use = RoleUse(name="host", tasks="backports", variables=variables)
    return run_play(Play(roles=(use,), targets=(Target(),), roles_path=ROLES, silence_s=60), reporter=Silent()).changed


def test_incus_and_nothing_else_comes_from_backports_of_the_machine_s_own_mirror(tmp_path: Path, apt: Path) -> None:
    Path(f"{apt}.sources").write_text(f"{SECURITY}\n{OWN}\n{PACKAGES}\n")
    assert len(enable(tmp_path)) == 2
    (line,) = [line for line in (tmp_path / SOURCE).read_text().splitlines() if not line.startswith("#")]
    assert line.endswith("] http://mirror.lab/debian bookworm-backports main")
    assert "signed-by=" in line
    pins = [block.splitlines() for block in (tmp_path / PIN).read_text().split("\n\n")]
    assert [(pin[-3].split(": ")[1].split()[0], pin[-1]) for pin in pins] == [
        ("*", "Pin-Priority: -1"),
        ("incus", "Pin-Priority: 100"),
    ]
    assert "incus-base" in pins[1][0]
    assert "SourceParts=/dev/null" in Path(f"{apt}.calls").read_text(), "apt reads that source alone"
    assert enable(tmp_path) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        ((THEIRS, OWN, UPDATES), "http://mirror.lab/debian"),
        ((SECURITY, OWN), "http://mirror.lab/debian"),
        ((SECURITY,), "http://deb.debian.org/debian"),
    ],
    ids=["another's source", "no updates", "no mirror"],
)
def test_the_mirror_is_debian_s(tmp_path: Path, apt: Path, sources: tuple[str, ...], mirror: str) -> None:
    Path(f"{apt}.sources").write_text("".join(f"{line}\n" for line in sources))
    enable(tmp_path)
    assert f"] {mirror} bookworm-backports main" in (tmp_path / SOURCE).read_text()


def test_backports_that_somebody_has_enabled_are_left_as_they_are(tmp_path: Path, apt: Path) -> None:
    Path(f"{apt}.sources").write_text(f"{OWN}\n{BACKPORTS}\n")
    assert enable(tmp_path) == ()
    assert not (tmp_path / SOURCE).exists()
    assert not (tmp_path / PIN).exists()


def test_a_mirror_without_backports_is_an_error_with_apt_s_words_and_leaves_apt_as_it_was(
    tmp_path: Path, apt: Path
) -> None:
    Path(f"{apt}.sources").write_text(f"{OWN}\n")
    Path(f"{apt}.fails").touch()
    with pytest.raises(TaskFailed) as caught:
        enable(tmp_path)
    shutil.rmtree(caught.value.folder)
    assert "bookworm-backports' has no Release file" in caught.value.event.message
    assert not (tmp_path / SOURCE).exists()
    assert not (tmp_path / PIN).exists()
