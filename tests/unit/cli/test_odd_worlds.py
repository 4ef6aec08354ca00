"""Every way in which the streams and folders of a process may be odd, times verbs: an exit code that means something.

Each case is a process of its own, which is forked from this one: it has its streams as a shell would give it them.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.session import Session
from gpuprov.cli.stdout import explain_lost_result
from gpuprov.core.errors import HostNotReady
from gpuprov.core.own_folders import home_folder, make_own_folder, own_folder
from tests.fakes.doors import door_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.machine.base import Host
    from tests.fakes.world import World

pytestmark = pytest.mark.slow

STDOUT, STDERR = 1, 2
LOST, UNREAD = 3, 1
VERBS = {
    "--version": (),
    "--help": (),
    "list": (),
    "list --json": (),
    "show": ("c000",),
    "gpus": (),
    "cluster status": ("lab",),
    "cluster plan": ("--name", "lab", "-n", "2"),
    "inventory": ("--list",),
    "image list": (),
    "completion": ("bash",),
    "explain": ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus",),
}


def close_stdout() -> None:
    os.close(STDOUT)
    sys.stdout = None


def close_all() -> None:
    os.closerange(0, 3)
    sys.stdin = sys.stdout = sys.stderr = None


def write_to(path: str, encoding: str = "utf-8") -> None:
    os.dup2(os.open(path, os.O_WRONLY), STDOUT)
    sys.stdout = io.TextIOWrapper(io.FileIO(STDOUT, "w", closefd=False), encoding=encoding)


def break_pipe() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    os.dup2(writes, STDOUT)
    sys.stdout = io.TextIOWrapper(io.FileIO(STDOUT, "w", closefd=False), encoding="utf-8")


def no_home() -> None:
    write_to(os.devnull)
    os.environ |= {"HOME": "/proc/none", "XDG_RUNTIME_DIR": "/proc/none"}


# What a shell does to the process, and how every verb ends in it; None for as it ends with a usual stdout
WORLDS: dict[str, tuple[Callable[[], None], int | None]] = {
    ">&-": (close_stdout, None),
    "<&- >&- 2>&-": (close_all, None),
    ">/dev/full": (lambda: write_to("/dev/full"), LOST),
    "| true": (break_pipe, UNREAD),
    "PYTHONIOENCODING=ascii": (lambda: write_to(os.devnull, "ascii"), None),
    "HOME=/proc/none": (no_home, None),
}


def in_child(act: Callable[[], int], said: Path) -> int:
    """The exit code of a process that does this; what it says on stderr goes into a file."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), STDERR)
            sys.stderr = io.TextIOWrapper(io.FileIO(STDERR, "w", closefd=False), write_through=True)
            code = act()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_in(world: Callable[[], None], argv: list[str], host: Host | None, said: Path) -> int:
    def act() -> int:
        world()
        sys.argv = ["gpuprov", *argv]
        return main(host=host)

    return in_child(act, said)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("odd", WORLDS)
def test_every_verb_ends_in_words_in_an_odd_world(world: World, logs: Path, tmp_path: Path, odd: str) -> None:
    world.begin_with(2)
    world.driver.name = "lxd"
    world.host.engines = (door_of(world.driver),)
    enter, expected = WORLDS[odd]
    for verb, arguments in VERBS.items():
        argv = [*verb.split(), *arguments]
        said = tmp_path / verb.replace(" ", "-")
        code = run_in(enter, argv, world.host, said)
        words = said.read_text()
        usual = run_in(lambda: write_to(os.devnull), argv, world.host, said) if expected is None else expected
        assert code == usual, (verb, words)
        assert "Traceback" not in words, (verb, words)
        if expected == LOST:
            assert "error: the result could not be written to stdout\nevidence: /dev/full: No space left" in words
            assert "df -h" not in words, "no disk is full"
            assert "fix: append to the command: > FILE" in words
    assert not [log for log in logs.glob("*.log") if "unexpected" in log.read_text()]


def test_no_other_file_gets_the_number_of_a_closed_stream(world: World, tmp_path: Path) -> None:
    def act() -> int:
        close_all()
        sys.argv = ["gpuprov", "--version"]
        main(host=world.host)
        with (tmp_path / "mine").open("w") as file:
            return file.fileno()

    assert in_child(act, tmp_path / "said") > STDERR


def test_what_an_encoding_lacks_is_spelled_out_and_json_stays_json(tmp_path: Path) -> None:
    text, document = tmp_path / "text", tmp_path / "document"
    for path, as_json in ((text, False), (document, True)):
        path.touch()

        def act(path: Path = path, *, as_json: bool = as_json) -> int:
            write_to(str(path), "ascii")
            from gpuprov.cli.stdout import leave_streams, prepare_streams

            prepare_streams()
            session = Session()
            session.as_json, session.quiet = as_json, True
            session.show({"name": "Zoë"}, "Zoë")
            leave_streams()
            return 0

        assert in_child(act, tmp_path / "said") == 0
    assert text.read_bytes() == rb"Zo\xeb" + b"\n"
    assert json.loads(document.read_bytes())["name"] == "Zoë"


def test_a_full_disk_is_one_and_another_device_is_none(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    result = tmp_path / "result"
    result.touch()
    assert explain_lost_result(full, str(result)).fix.startswith(f"df -h {tmp_path}  # free some space")
    assert "df -h" not in explain_lost_result(full, "/dev/full").fix


@pytest.mark.parametrize(
    ("tail", "code"), [(">&-", 0), (">/dev/full", LOST), ("| true; exit ${PIPESTATUS[0]}", UNREAD)]
)
def test_the_installed_command_in_a_shell(tail: str, code: int) -> None:
    program = Path(sys.executable).with_name("gpuprov")
    wait = "sleep 0.2; " if "true" in tail else ""
    done = subprocess.run(
        ["bash", "-c", f"({wait}{program} completion bash) {tail}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_the_user_that_cannot_be_made_is_told_with_what_moves_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostNotReady) as caught:
        make_own_folder(tmp_path / "file/keys", variable="XDG_DATA_HOME")
    assert str(tmp_path / "file") in caught.value.evidence
    assert caught.value.fix.startswith("export XDG_DATA_HOME=")


def test_an_account_without_a_home_folder_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    with pytest.raises(HostNotReady, match="no home folder") as caught:
        home_folder()
    assert caught.value.fix.startswith("export HOME=")
    assert own_folder("XDG_DATA_HOME", ".local/share", {"XDG_DATA_HOME": str(tmp_path)}) == tmp_path
    assert own_folder("XDG_DATA_HOME", ".local/share", {"HOME": "/home/ada"}) == Path("/home/ada/.local/share")
