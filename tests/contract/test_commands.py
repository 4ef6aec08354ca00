from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.execution import piped
from gpuprov.core.waiting import Wait
from tests.contract.engines import FIND_PROCESS, Bench, refused

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver


def test_streams_and_status_are_told_apart(driver: Driver, node: str) -> None:
    result = driver.run(node, ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")


@pytest.mark.parametrize("timeout_s", [None, 30.0])
@pytest.mark.parametrize(
    ("argv", "exit_code"),
    [(["true"], 0), (["false"], 1), (["sh", "-c", "exit 255"], 255), (["/no/such/program"], 127), (["no-such"], 127)],
)
def test_the_exit_status_is_the_command_s(
    driver: Driver, node: str, argv: list[str], exit_code: int, timeout_s: float | None
) -> None:
    assert driver.run(node, argv, timeout_s=timeout_s).exit_code == exit_code


def test_arguments_arrive_unchanged(driver: Driver, node: str) -> None:
    odd = ["", " ", "a b", "$HOME", "'", '"', "\\", "ünï", "two\nlines", "*", "--", "-n", ";true"]
    result = driver.run(node, ["python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *odd])
    assert result.stdout.strip() == ascii(odd)


def test_output_that_is_no_text_is_replaced(driver: Driver, node: str) -> None:
    assert driver.run(node, ["printf", "a\\377b"]).stdout == "a\ufffdb"


def test_much_output_arrives_whole(driver: Driver, node: str) -> None:
    result = driver.run(node, ["python3", "-c", "print('0123456789' * 200_000)"])
    assert len(result.stdout) == 2_000_001


ECHO = "import sys; text = sys.stdin.read(); print(text * 2); print(len(text), file=sys.stderr); sys.exit(3)"


@pytest.mark.parametrize("timeout_s", [None, 30.0])
def test_a_command_reads_what_it_is_given(driver: Driver, node: str, timeout_s: float | None) -> None:
    text = "ünï\n" * 50_000
    result = driver.run(node, ["python3", "-c", ECHO], stdin=text.encode(), timeout_s=timeout_s)
    assert (result.exit_code, result.stdout, result.stderr) == (3, f"{text}{text}\n", f"{len(text)}\n")


def test_a_command_that_writes_much_while_it_reads(driver: Driver, node: str) -> None:
    line = "import sys\nwhile part := sys.stdin.read(9999):\n    sys.stdout.write(part)\n    sys.stderr.write(part)"
    result = driver.run(node, ["python3", "-c", line], stdin=b"x" * 3_000_000)
    assert (len(result.stdout), len(result.stderr)) == (3_000_000, 3_000_000)


def test_a_command_need_not_read_what_it_is_given(driver: Driver, node: str) -> None:
    result = driver.run(node, ["sh", "-c", "echo done; exit 4"], stdin=b"x" * 3_000_000)
    assert (result.exit_code, result.stdout) == (4, "done\n")


def test_a_command_that_reads_is_ended_in_its_time(driver: Driver, node: str) -> None:
    with pytest.raises(TimedOut, match="sleep"):
        driver.run(node, ["sleep", "60"], stdin=b"x", timeout_s=1.0)


def test_environment_and_folder(driver: Driver, node: str) -> None:
    result = driver.run(node, ["sh", "-c", "echo $GPT $PATH; pwd"], environment={"GPT": "ünï x"}, cwd="/usr")
    assert result.stdout.startswith("ünï x /")
    assert result.stdout.splitlines()[1] == "/usr"


def test_a_node_s_environment_is_its_commands(bench: Bench) -> None:
    environment = {"GPT_LIST": "GPU-1,GPU-2", "GPT_ODD": "a=b 'c' \"d\" ü $HOME"}
    name = bench.create(start=True, environment=environment)
    state = bench.driver.find_node(name)
    assert state
    assert dict(state.environment) == environment
    line = "import os; print(ascii([os.environ['GPT_ODD'], os.environ['GPT_LIST']]))"
    assert bench.python(name, line) == ascii([environment["GPT_ODD"], environment["GPT_LIST"]])
    assert bench.driver.run(name, ["sh", "-c", "echo $GPT_ODD"], environment={"GPT_ODD": "own"}).stdout == "own\n"
    listed = next(node for node in bench.driver.list_nodes() if node.name == name)
    assert dict(listed.environment) in ({}, environment)


@pytest.mark.parametrize("line", ["sleep {0}", "sleep {0} & wait", "trap '' TERM INT HUP; sleep {0}"])
def test_a_command_that_takes_too_long_is_killed_in_the_node(bench: Bench, node: str, line: str) -> None:
    seconds = f"42{abs(hash(line)) % 10_000}.5"
    started = time.monotonic()
    with refused(TimedOut):
        bench.driver.run(node, ["sh", "-c", line.format(seconds)], timeout_s=0.5)
    assert time.monotonic() - started < 10
    assert bench.python(node, FIND_PROCESS.format(seconds=seconds)) == "0"


def test_output_before_the_timeout_is_evidence(driver: Driver, node: str) -> None:
    with pytest.raises(TimedOut) as caught:
        driver.run(node, ["sh", "-c", "echo so far >&2; sleep 4711"], timeout_s=0.5)
    assert "so far" in caught.value.evidence


def test_a_status_of_137_is_no_timeout(driver: Driver, node: str) -> None:
    assert driver.run(node, ["sh", "-c", "kill -9 $$"], timeout_s=30).exit_code in (137, -9)
    assert driver.run(node, ["sh", "-c", "exit 137"], timeout_s=30).exit_code == 137


def test_forty_commands_on_eight_threads(driver: Driver, node: str) -> None:
    def ask(number: int) -> tuple[int, str, str]:
        result = driver.run(node, ["sh", "-c", f"echo {number}; echo e{number} >&2; exit {number}"], timeout_s=60)
        return result.exit_code, result.stdout, result.stderr

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == [(n, f"{n}\n", f"e{n}\n") for n in range(40)]


def test_a_stopped_node_runs_nothing(bench: Bench) -> None:
    name = bench.create()
    with refused(EngineError):
        bench.driver.run(name, ["true"])


def test_attach_names_node_and_command(driver: Driver, node: str) -> None:
    argv = driver.attach_argv(node, ["echo", "a b"], environment={"K": "v w"})
    assert node in [part.removeprefix("local:") for part in argv]
    assert argv[-2:] == ["echo", "a b"]
    assert "K=v w" in argv


@pytest.mark.usefixtures("real")
def test_a_command_has_this_process_s_streams_and_its_ctrl_c(driver: Driver, node: str, tmp_path: Path) -> None:
    """Streams that are no terminal. Docker's client sends no signal on."""
    sent = bytes(range(256)) * 4000
    (tmp_path / "sent").write_bytes(sent)
    end = "exit 5" if driver.name == "docker" else 'trap "exit 5" INT; sleep 60 >/dev/null 2>&1 & wait'
    script = f'cat; echo "$WORD" >&2; {end}'
    program = (
        "import os, sys, threading; from gpuprov.drivers.registry import open_driver;"
        f"driver = open_driver({driver.name!r}); soon = threading.Timer(3, os.kill, (os.getpid(), 2)); soon.start();"
        f"code = driver.attach({node!r}, sys.argv[1:], environment={{'WORD': 'a b'}}); soon.cancel(); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "sh", "-c", script]
    with (tmp_path / "sent").open("rb") as source:
        ran = subprocess.run(command, check=False, stdin=source, capture_output=True, timeout=60)
    assert (ran.stdout == sent, ran.stderr.decode(), ran.returncode) == (True, "a b\n", 5)


@pytest.mark.usefixtures("real")
def test_a_command_that_is_not_there_is_named_and_a_full_disk_is_no_lost_connection(driver: Driver, node: str) -> None:
    program = (
        "import sys; from gpuprov.core.errors import GpuprovError; from gpuprov.cli.stdout import prepare_streams\n"
        "from gpuprov.drivers.registry import open_driver\n"
        "prepare_streams()\n"
        "try:\n"
        f"    sys.exit(open_driver({driver.name!r}).attach({node!r}, sys.argv[1:], environment={{}}))\n"
        "except GpuprovError as error:\n"
        "    sys.exit(error.what)"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(
        [*command, "no-such-command"], check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert (ran.returncode, b"no-such-command" in ran.stderr) == (127, True), ran.stderr
    if driver.name != "docker":  # its client writes itself
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                [*command, "echo"],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=60,
            )
        assert b"could not be written to stdout" in ran.stderr


@pytest.mark.usefixtures("real")
def test_a_command_whose_reader_goes_is_ended(driver: Driver, node: str) -> None:
    """In a Docker container it is not: its client only goes."""
    program = (
        "import sys; from gpuprov.drivers.registry import open_driver;"
        f"sys.exit(open_driver({driver.name!r}).attach({node!r}, ['yes', '31415'], environment={{}}))"
    )
    with piped([sys.executable, "-c", program]) as command:
        assert command.stdout.readline() == b"31415\n"
        command.stdout.close()
        command.stdin.close()
        assert command.process.wait(60)
    if driver.name == "docker":
        driver.run(node, ["pkill", "-x", "yes"])
    Wait(what="its end", timeout_s=30, fix="look").until(
        lambda: driver.run(node, ["pgrep", "-x", "yes"]).exit_code, lambda code: code == 1
    )


@pytest.mark.usefixtures("real")
def test_every_byte_passes_where_a_command_is_given_pipes(driver: Driver, node: str) -> None:
    sent = bytes(range(256)) * 4000
    argv = driver.attach_argv(node, ["cat"], environment={}, piped=True)
    with piped(argv) as command:

        def send() -> None:
            command.stdin.write(sent)
            command.stdin.close()

        Thread(target=send).start()
        assert command.stdout.read() == sent
        assert command.process.wait(60) == 0


@pytest.mark.usefixtures("real")
def test_commands_are_root_s_and_leave_no_log_behind(bench: Bench, node: str) -> None:
    assert bench.sh(node, "id -u; echo $HOME; pwd").split() == ["0", "/root", "/root"]


def test_the_console_log_is_text(bench: Bench, node: str) -> None:
    assert isinstance(bench.driver.logs(node), str)
