"""What runs around Slurm's accounting in the controller's node, with stand-ins for the daemons."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/accounting/files/node/usr/local/lib/slurm-accounting/accounting.sh"
PROGRAMS = {
    "mountpoint": "exit 0",
    "mariadbd": 'case "$*" in --version) echo "Ver 10.11.19-MariaDB" ;; *) echo "$@" >"$ROOT/started" ;; esac',
    "dpkg-query": 'echo "22.05.8-4+deb12u3"',
    "mariadb-admin": "exit 0",
    "mariadb-dump": "echo INSERT",
    "pgrep": '[ -e "$ROOT/full" ] && [ ! -e "$ROOT/ended" ]',
    "pkill": 'echo "$@" >"$ROOT/ended"',
    "ip": 'case "$*" in *show*) echo "local 10.0.3.2 dev eth0 proto kernel scope host src 10.0.3.2 " ;;'
    ' *) echo "$@" >"$ROOT/routed"; exit 1 ;; esac',
    "sacctmgr": 'echo "$@" >>"$ROOT/asked"; case "$*" in *show*cluster*format*) cat "$ROOT/cluster" ;; esac',
}


class Node:
    """The folders and programs of a node."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder, here = root / "accounts", root / "lib"
        for path in (self.folder, here, root / "bin", root / "state"):
            path.mkdir()
        (here / "database.cnf").touch()
        (root / "cluster").touch()
        (root / "slurmdbd.conf").write_text("DbdAddr=10.0.3.2\n")
        (root / "slurm.conf").write_text(f"ClusterName=lab\nStateSaveLocation={root}/state\n")
        with tarfile.open(here / "empty.tar.gz", "w:gz") as tar:
            tar.add(here / "database.cnf", arcname="ibdata1")
        for name, text in PROGRAMS.items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (root / "bin" / name).chmod(0o755)
        text = SCRIPT.read_text()
        for old, new in (
            ("/usr/local/lib/slurm-accounting", here),
            ("/var/lib/gpuprov-accounts", self.folder),
            ("/run/slurm-accounting-ready", root / "ready"),
            ("/etc/slurm/slurm.conf", root / "slurm.conf"),
            ("/etc/slurm/slurmdbd.conf", root / "slurmdbd.conf"),
        ):
            text = text.replace(old, str(new))
        self.script = root / "accounting.sh"
        self.script.write_text(text)

    def __call__(self, verb: str, *, code: int = 0) -> str:
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "ROOT": str(self.root)}
        argv = ["sh", str(self.script), verb]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def copies(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "copies").iterdir())

    def asked(self) -> list[str]:
        """What sacctmgr was asked, once it has been asked no more for a while."""
        path, seen = self.root / "asked", ""
        for _ in range(100):
            before, seen = seen, path.read_text() if path.exists() else ""
            if seen and seen == before:
                break
            time.sleep(0.2)
        return seen.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_new_folder_gets_an_empty_database_and_no_copies(node: Node) -> None:
    node("database")
    assert (node.root / "started").read_text().startswith("--defaults-file=")
    assert (node.folder / "db/ibdata1").exists()
    assert (node.folder / "database-version").read_text() == "10.11.19\n"
    node("before")
    assert (node.folder / "slurmdbd-version").read_text() == "22.05.8\n"
    node("database")
    node("before")
    assert node.copies() == []


def test_before_another_version_starts_there_are_copies_and_the_newest_three_stay(node: Node) -> None:
    node("database")
    node("before")
    for number in range(5):
        (node.folder / "database-version").write_text(f"10.6.{number}\n")
        (node.folder / "slurmdbd-version").write_text(f"21.08.{number}\n")
        node("database")
        node("before")
        for path in (node.folder / "copies").iterdir():
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    files, dumps = ([name for name in node.copies() if name.startswith(kind)] for kind in ("files-of", "dump-of"))
    assert [name[: len("files-of-mariadb-10.6.4")] for name in files] == [
        f"files-of-mariadb-10.6.{number}" for number in (2, 3, 4)
    ]
    assert [name[: len("dump-of-slurmdbd-21.08.4")] for name in dumps] == [
        f"dump-of-slurmdbd-21.08.{number}" for number in (2, 3, 4)
    ]
    with tarfile.open(node.folder / "copies" / files[-1]) as tar:
        assert "db/ibdata1" in tar.getnames()


@pytest.mark.parametrize(
    ("kind", "version", "says"),
    [
        ("database", "11.4.2", "its files are of MariaDB 11.4.2, and 10.11.19 is here"),
        ("slurmdbd", "23.02.1", "its figures are of slurmdbd 23.02.1, and 22.05.8 is here"),
    ],
)
def test_what_a_later_release_wrote_is_refused_and_stays_as_it_is(
    node: Node, kind: str, version: str, says: str
) -> None:
    node("database")
    node("before")
    (node.root / "started").unlink()
    (node.folder / f"{kind}-version").write_text(f"{version}\n")
    assert says in node("database", code=1)
    assert says in node("before", code=1)
    assert node("why") == f"newer {says}\n"
    assert (node.folder / f"{kind}-version").read_text() == f"{version}\n"
    assert (node.copies(), (node.root / "started").exists()) == ([], False)


def test_an_earlier_patch_of_the_same_release_starts(node: Node) -> None:
    node("database")
    (node.folder / "database-version").write_text("10.11.99\n")
    node("database")
    assert node.copies()


def test_a_full_disk_is_told(node: Node) -> None:
    assert node("why") == ""
    (node.root / "bin/df").write_text("#!/bin/sh\necho Avail\necho 100\n")
    (node.root / "bin/df").chmod(0o755)
    assert node("why") == "full its disk has less than 16 MiB left\n"
    assert "less than 16 MiB" in node("database", code=1)
    assert "less than 16 MiB" in node("before", code=1)
    (node.root / "bin/mountpoint").write_text("#!/bin/sh\nexit 1\n")
    assert node("why").startswith("unmounted ")


def test_slurmdbd_is_ended_before_it_drops_what_it_cannot_write(node: Node) -> None:
    (node.root / "full").touch()
    (node.root / "bin/df").write_text("#!/bin/sh\necho Avail\necho 100\n")
    (node.root / "bin/df").chmod(0o755)
    node("enrol")
    for _ in range(100):
        if (node.root / "ended").exists() and (node.root / "ended").read_text():
            break
        time.sleep(0.1)
    assert (node.root / "ended").read_text() == "-TERM -x slurmdbd\n"


def test_nothing_starts_where_the_copy_fails(node: Node) -> None:
    node("database")
    node("before")
    (node.folder / "slurmdbd-version").write_text("21.08.5\n")
    (node.root / "bin/mariadb-dump").write_text("#!/bin/sh\nexit 1\n")
    node("before", code=1)
    assert (node.folder / "slurmdbd-version").read_text() == "21.08.5\n", "the next start tries again"


def test_nothing_starts_on_the_node_s_own_disk(node: Node) -> None:
    (node.root / "bin/mountpoint").write_text("#!/bin/sh\nexit 1\n")
    assert "is not mounted" in node("database", code=1)
    assert not (node.root / "started").exists()


def test_the_cluster_is_added_once_and_then_the_account_of_jobs(node: Node) -> None:
    node("enrol")
    assert (node.root / "ready").exists()
    assert (node.root / "routed").read_text().split()[-4:] == ["src", "10.0.3.2", "quickack", "1"]
    asked = node.asked()
    assert "-iQ add cluster lab" in asked
    assert asked[-1] == "-iQ add user work cluster=lab account=work"
    (node.root / "asked").unlink()
    (node.root / "cluster").write_text("lab\n")
    node("enrol")
    assert not any("add cluster" in line for line in node.asked())


def test_slurmctld_waits_only_if_it_knows_nothing_of_slurmdbd(node: Node) -> None:
    (node.root / "state/last_tres").touch()
    node("wait")
    (node.root / "state/last_tres").unlink()
    (node.root / "ready").touch()
    node("wait")


def test_what_is_saved_is_restored_once_on_another_host(node: Node) -> None:
    node("database")
    node("before")
    node("save")
    node("save")
    saved = node.folder / "saved"
    assert sorted(path.name for path in saved.iterdir()) == ["restore.sql.gz", "saved-at", "slurmdbd-version"]
    saved.rename(node.root / "saved")
    shutil.rmtree(node.folder)
    (node.root / "saved").rename(node.folder)  # with nothing else in it, as on another host
    node("database")
    at = (node.folder / "saved-at").read_text().strip()
    (node.root / "bin/mariadb").write_text(
        '#!/bin/sh\ncase "$*" in *-e*) echo "$@" >>"$ROOT/ended" ;; *) cat >>"$ROOT/restored" ;; esac\n'
    )
    (node.root / "bin/mariadb").chmod(0o755)
    node("before")
    node("before")
    assert (node.root / "restored").read_text() == "INSERT\n"
    ended = (node.root / "ended").read_text()
    assert f"update `lab_job_table` set state=7, time_end={at} where time_end=0 and time_start>0;" in ended
    assert ended.count("update") == 3
    assert not [path.name for path in node.folder.iterdir() if "restore" in path.name]


def test_slurmdbd_does_not_start_without_what_is_to_be_restored(node: Node) -> None:
    node("database")
    (node.folder / "restore.sql.gz").write_text("damaged")
    node("before", code=1)
    assert (node.folder / "restore.sql.gz").exists()
