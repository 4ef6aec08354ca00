"""ssh from node to node: all nodes have one key that follows from the munge key, and trust each other's names."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.slurm.job_ssh import HOST_KEY, SERVER_FILE, ssh_files
from gpuprov.shapes.whole import Member
from gpuwork.jobs.leftovers import SLURM_NODE_VARIABLE, SLURM_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import File

MUNGE = bytes(range(128))
MEMBERS = (
    Member(name="c000", address="10.0.3.2", private_address="10.0.5.1", role="slurm"),
    Member(name="c001", address="", private_address="10.0.5.2", role="slurm"),
)


def by_path(munge: bytes = MUNGE) -> dict[str, File]:
    return {file.path: file for file in ssh_files(munge, MEMBERS)}


def test_the_key_follows_from_the_munge_key_and_only_root_reads_it() -> None:
    first, again, other = by_path(), by_path(), by_path(MUNGE[::-1])
    assert first == again
    assert first[HOST_KEY.path].content != other[HOST_KEY.path].content
    assert (first[HOST_KEY.path].mode, first[HOST_KEY.path].uid) == (0o600, 0)
    assert MUNGE not in first[HOST_KEY.path].content
    assert [path for path, file in first.items() if file.mode == 0o600] == [HOST_KEY.path]


@pytest.mark.parametrize("byte", range(0, 250, 50))
def test_the_length_is_that_of_a_secret_file(byte: int) -> None:
    length = len(by_path(bytes([byte]) * 128)[HOST_KEY.path].content)
    assert HOST_KEY.least_bytes <= length <= HOST_KEY.most_bytes


def test_all_names_and_addresses_of_the_nodes_are_trusted_and_no_others() -> None:
    files = by_path()
    names = ["c000", "c000-private", "10.0.3.2", "10.0.5.1", "c001", "c001-private", "10.0.5.2"]
    assert files["/etc/ssh/shosts.equiv"].content.decode().splitlines()[1:] == names
    (line,) = files["/etc/ssh/ssh_known_hosts"].content.decode().splitlines()[1:]
    known, key = line.split(" ", 1)
    assert known.split(",") == names
    assert files[f"{HOST_KEY.path}.pub"].content.decode() == f"{key}\n"


def test_accounts_can_trust_no_other_host_by_files_of_their_own() -> None:
    said = by_path()[SERVER_FILE].content.decode().splitlines()
    assert {"IgnoreRhosts yes", "IgnoreUserKnownHosts yes", f"HostKey {HOST_KEY.path}"} <= {*said}


def test_what_a_job_starts_on_another_node_has_the_marks_by_which_it_ends_there() -> None:
    client = by_path()["/etc/ssh/ssh_config.d/gpuprov-jobs.conf"].content.decode()
    assert f"SendEnv {SLURM_VARIABLE}\n" in client
    assert f"Host c001 c001-private 10.0.5.2\n    SetEnv {SLURM_NODE_VARIABLE}=c001\n" in client
    assert f"AcceptEnv {SLURM_VARIABLE} {SLURM_NODE_VARIABLE}\n" in by_path()[SERVER_FILE].content.decode()


@pytest.mark.slow
def test_openssh_reads_the_key(tmp_path: Path) -> None:
    files, path = by_path(), tmp_path / "key"
    path.write_bytes(files[HOST_KEY.path].content)
    path.chmod(0o600)
    said = subprocess.run(["ssh-keygen", "-y", "-f", path], check=True, capture_output=True, timeout=30).stdout
    assert said == files[f"{HOST_KEY.path}.pub"].content
