"""Tars into nodes of another host and out of them, over a stand-in for ssh and a whole gpuprov with a fake engine."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.nodes_elsewhere import NodesElsewhere
from gpuprov.core.errors import EngineError, TimedOut, Unreachable, UsageError
from gpuprov.drivers.node_trees import ITEM, WHOLE
from gpuprov.link import trees
from gpuprov.link.hosts import HostsBySsh
from gpuprov.link.trees import read_tree_there, write_tree_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuprov.link.connection import SshConnection
    from gpuprov.link.members import MemberProcesses
    from tests.conftest import Recording
    from tests.fakes.ssh import FakeSsh

pytestmark = pytest.mark.slow

ADDRESS = "192.0.2.11"
PLACE = ("lxd", "c000", "/opt/project")


def tar_of(content: bytes) -> bytes:
    """As `Driver.write_tree` takes it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, inside in ((ITEM, content), (WHOLE, b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(inside)
            tar.addfile(entry, io.BytesIO(inside))
    return made.getvalue()


def pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 50_000):
        yield content[start : start + 50_000]


def script(*lines: str) -> str:
    """A program that stands for `gpuprov member-tree`."""
    code = "\n".join(("import json, os, sys, time", *lines))
    return f"exec python3 -c '{code}' \"$@\""


def test_what_is_written_comes_whole_and_can_be_read_again(ssh: FakeSsh, hoff: SshConnection, tmp_path: Path) -> None:
    there = tmp_path / "there"
    ssh.reach(ADDRESS, member=script(
        f'if sys.argv[2] == "write": open("{there}", "wb").write(sys.stdin.buffer.read())',
        f'else: sys.stdout.buffer.write(open("{there}", "rb").read()); sys.stdout.flush()',
        'sys.stderr.write(json.dumps({"said": " ".join(sys.argv[1:])}) + chr(10))',
    ))  # fmt: skip
    content = tar_of(bytes(range(256)) * 20_000)
    write_tree_there(hoff, PLACE, pieces(content))
    assert there.read_bytes() == content
    came: list[bytes] = []
    assert read_tree_there(hoff, PLACE, came.append) == "member-tree read lxd c000 /opt/project"
    assert b"".join(came) == content


def test_a_whole_gpuprov_there_serves_it(
    ssh: FakeSsh, hoff: SshConnection, tmp_path: Path, world_member: Callable[..., str]
) -> None:
    (tmp_path / "world").mkdir()
    ssh.reach(ADDRESS, member=world_member(tmp_path / "world", "hoff", nodes=1))
    write_tree_there(hoff, PLACE, pieces(tar_of(b"train")))
    with pytest.raises(EngineError, match="hoff: ") as caught:
        write_tree_there(hoff, ("lxd", "c009", "/opt/project"), pieces(tar_of(b"train")))
    assert "c009" in f"{caught.value.what} {caught.value.evidence}"
    with pytest.raises(EngineError, match="hoff: "):
        read_tree_there(hoff, ("lxd", "c009", "/opt/project"), lambda _: None)


def test_nodes_there_are_asked_over_the_protocol_and_that_leaves_no_log(
    ssh: FakeSsh, members: MemberProcesses, hoff: SshConnection, tmp_path: Path, recording: Recording,
    world_member: Callable[..., str],
) -> None:  # fmt: skip
    (tmp_path / "world").mkdir()
    ssh.reach(ADDRESS, member=world_member(tmp_path / "world", "hoff", nodes=1))
    hosts = HostsBySsh(members=members, reporter=recording)
    there = NodesElsewhere(hosts, hoff.machine, "lab", "lxd")
    assert [(node.name, node.host) for node in there.list_nodes()] == [("c000", "hoff")]
    result = there.run("c000", ["nothing"], timeout_s=9.0)
    assert (result.exit_code, result.stdout) == (127, "nothing: not found\n"), "as a fake node says it"
    assert not list((tmp_path / "world").glob("log/*")), "who follows a job asks every second"
    with pytest.raises(EngineError, match="hoff: ") as caught:
        there.run("c009", ["true"], timeout_s=9.0)
    assert "c009" in f"{caught.value.what} {caught.value.evidence}"
    assert len(list((tmp_path / "world").glob("log/*"))) == 1
    assert there.attach_argv("c000", ["true"], environment={"A": "1"})[-2:] == [
        "root@192.0.2.11",
        "/opt/gpuprov/current/bin/gpuprov exec --engine lxd c000 -- env A=1 true",
    ]


def test_what_making_the_tar_raises_is_passed_on_and_the_host_sees_no_end(
    ssh: FakeSsh, hoff: SshConnection, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    ssh.reach(ADDRESS, member=script(f'open("{there}", "wb").write(sys.stdin.buffer.read())'))

    def broken() -> Iterator[bytes]:
        yield tar_of(b"train")[:700]
        raise UsageError("a file is too large", evidence="5 GiB", fix="leave it out")

    with pytest.raises(UsageError, match="too large"):
        write_tree_there(hoff, PLACE, broken())
    assert WHOLE.encode() not in (there.read_bytes() if there.exists() else b"")


def test_an_error_there_is_one_here_and_ends_the_copy(ssh: FakeSsh, hoff: SshConnection) -> None:
    error = '{"what": "no space left", "evidence": "full", "fix": "df -h", "exit_code": 4}'
    ssh.reach(ADDRESS, member=f"printf '%s\\n' 'a warning' '{error}' >&2; exit 4")
    with pytest.raises(EngineError) as caught:
        write_tree_there(hoff, PLACE, pieces(tar_of(bytes(10_000_000))))
    assert (caught.value.what, caught.value.fix) == ("hoff: no space left", "on hoff: df -h")
    ssh.reach(ADDRESS, member=f"printf '%s\\n' '{error.replace('4}', '6}')}' >&2; exit 6")
    with pytest.raises(TimedOut, match="hoff: no space left"):
        read_tree_there(hoff, PLACE, lambda _: None)


@pytest.mark.parametrize("says", ["", "nonsense", "[1]", '{"said": 1, "more": 2}'])
def test_a_copy_without_its_last_line_has_failed(ssh: FakeSsh, hoff: SshConnection, says: str) -> None:
    ssh.reach(ADDRESS, member=f"printf '%s\\n' '{says}' >&2")
    with pytest.raises(EngineError, match="the gpuprov on hoff did not copy"):
        read_tree_there(hoff, PLACE, lambda _: None)


def test_a_host_that_is_away_or_falls_silent_is_not_waited_for(
    ssh: FakeSsh, hoff: SshConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.fail(ADDRESS, "ssh: connect to host 192.0.2.11 port 22: No route to host")
    with pytest.raises(Unreachable):
        write_tree_there(hoff, PLACE, pieces(tar_of(b"train")))
    monkeypatch.setattr(trees, "silence_limit_s", lambda: 0.5)
    ssh.reach(ADDRESS, member="exec sleep 60")
    with pytest.raises(Unreachable):
        write_tree_there(hoff, PLACE, pieces(tar_of(bytes(10_000_000))))
    with pytest.raises(Unreachable):
        read_tree_there(hoff, PLACE, lambda _: None)
