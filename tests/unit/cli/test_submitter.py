"""Who submitted is recorded as far as it can be known, shown, and called a claim where it is one."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.machine import submitter as here
from gpuprov.shapes.base import read, write
from gpuprov.shapes.submitter import VARIABLE, Submitter
from gpuwork.jobs import submitter as in_nodes
from gpuwork.jobs.submitter import find_submitter, read_submitter

if TYPE_CHECKING:
    from pathlib import Path


ME = pwd.getpwuid(os.getuid()).pw_name
NOBODY = pwd.getpwnam("nobody")
SSH = {"SSH_CONNECTION": "192.0.2.7 4711 192.0.2.1 22"}


def describe(tmp_path: Path, login: str, environment: dict[str, str], user: int) -> tuple[Any, ...]:
    (tmp_path / "loginuid").write_text(login)
    said = here.get_submitter("hoff", environment=environment, login=tmp_path / "loginuid", user=user)
    told = write(said)
    assert read(Submitter, told) == said, "the program in the node takes it"
    return tuple(told.values())


@pytest.mark.parametrize(
    ("login", "environment", "user", "told"),
    [
        ("4294967295", {}, 0, ("root", "hoff", "user", None)),
        ("4294967295", {}, NOBODY.pw_uid, ("nobody", "hoff", "user", None)),
        ("4294967295", {"SUDO_USER": "alice"}, 0, ("alice", "hoff", "claim", None)),
        ("4294967295", {"SUDO_USER": "alice"}, NOBODY.pw_uid, ("nobody", "hoff", "user", None)),
        (str(NOBODY.pw_uid), {"SUDO_USER": "alice"}, 0, ("nobody", "hoff", "login", None)),
        ("0", SSH, 0, ("root", "hoff", "login", "192.0.2.7")),
        ("123456789", {}, 0, ("123456789", "hoff", "login", None)),
        ("", {"SUDO_USER": "\x1b[2J", "SSH_CONNECTION": "\n"}, 0, ("root", "hoff", "user", None)),
    ],
)
def test_a_kernel_is_believed_before_a_variable(
    tmp_path: Path, login: str, environment: dict[str, str], user: int, told: tuple[Any, ...]
) -> None:
    assert describe(tmp_path, login, environment, user) == told


@pytest.mark.parametrize("told", ["", "{}", "[]", '"root"', '{"name": "a", "name": "b"}', "x" * 5000])
def test_what_is_no_submitter_counts_as_none(tmp_path: Path, told: str) -> None:
    assert find_submitter({VARIABLE: told}) is None
    (tmp_path / in_nodes.FILE).write_text(told)
    assert read_submitter(tmp_path) is None


def test_without_gpuprov_it_is_the_account_or_what_sudo_says(tmp_path: Path) -> None:
    own, by_sudo = find_submitter({}), find_submitter({"SUDO_USER": "alice", **SSH})
    assert own is not None
    assert by_sudo is not None
    assert (own.name, own.known_by) == (ME, "user")
    assert (by_sudo.name, by_sudo.known_by, by_sudo.ssh_from) == ("alice", "claim", "192.0.2.7")
    os.mkfifo(tmp_path / in_nodes.FILE)
    assert read_submitter(tmp_path) is None
