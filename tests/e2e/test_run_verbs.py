"""Containers of `gpuprov run` that stay, on Docker: as the page shows them, their leases, restarts, ports and users."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.test_refusals import has_three_parts
from tests.transcript import is_as_shown, read_transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov

PAGE = (Path(__file__).parents[2] / "docs/gpus.md").read_text()
MARK = "gpte-run"
GPU = 61  # which no other test leases, and which others do not miss
PORT = 18461
BUDGET_S = 30.0
SERVE = ("python3", "-m", "http.server", "8000")


@dataclass(frozen=True, kw_only=True)
class Bay:
    """A host with many GPUs, and containers whose names begin with `mark`."""

    gpuprov: Gpuprov
    docker: Any
    image: str
    mark: str

    def __call__(self, *argv: str, expect: int = 0, **variables: str) -> Finished:
        return self.gpuprov(*argv, expect=expect, variables={"GPUPROV_SIMULATED_GPUS": "64", **variables})

    def begin(self, name: str, *options: str, command: tuple[str, ...], expect: int = 0, **variables: str) -> Finished:
        argv = ("run", "--name", f"{self.mark}-{name}", "--detach", *options, "--image", self.image, "--", *command)
        return self(*argv, expect=expect, **variables)

    def row(self, name: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self("--json", "run", "ps").document["runs"]
        (found,) = (row for row in rows if row["name"] == f"{self.mark}-{name}")
        return found

    def until(self, name: str, state: str) -> dict[str, Any]:
        """Its row once it is in that state."""
        deadline_s = time.monotonic() + BUDGET_S
        while (row := self.row(name))["state"] != state:
            assert time.monotonic() < deadline_s, row
            time.sleep(0.2)
        return row

    def holders(self) -> list[str]:
        (gpu,) = (row for row in self("--json", "gpus").document["gpus"] if row["index"] == GPU)
        return [holder["node"] for holder in gpu["holders"]]

    def log(self, name: str, *options: str) -> str:
        return self("run", "logs", f"{self.mark}-{name}", *options).stdout

    def sweep(self) -> None:
        for item in self.docker.containers(all=True, filters={"label": "gpuprov.role=job"}):
            for name in item["Names"]:
                if name.startswith(f"/{self.mark}-"):
                    with suppress(Exception):
                        self.docker.remove_container(item["Id"], force=True)


@pytest.fixture(scope="module")
def bay(gpuprov: Gpuprov, docker: Any) -> Iterator[Bay]:
    from tests.contract.engines import DockerSite

    made = Bay(gpuprov=gpuprov, docker=docker, image=DockerSite().base_image(), mark=MARK)
    made.sweep()
    yield made
    made.sweep()


def test_the_page_shows_what_happens(bay: Bay) -> None:
    section = PAGE.partition("### Containers that stay")[2].partition("\n### ")[0]
    own = {"IMAGE": bay.image, "train": f"{bay.mark}-train", "1": f"gpu{GPU + 1}"}
    for typed in read_transcript(section):
        words = [own.get(word, word) for word in shlex.split(typed.command)]
        said = bay(*words[1:]).stdout.replace(f"{bay.mark}-", "")
        if words[2] == "ps":  # beside those of others
            said = "\n".join(line for line in said.splitlines() if line.startswith(("NAME", "train ")))
        assert is_as_shown(said, typed.shown), typed.command


def test_its_gpu_is_its_own_as_long_as_it_exists_and_docker_brings_it_back_with_it(bay: Bay) -> None:
    program = f"open('/dev/nvidia{GPU}')"
    lines = (
        "import os",
        "try:",
        f" {program}",
        "except OSError as error:",
        " print(error.errno, flush=True)",
        "os._exit(7)",
    )
    command = ("python3", "-c", "\n".join(lines))
    bay.begin("train", "--gpus", f"gpu{GPU}", "--restart", "on-failure:2", command=command)
    row = bay.until("train", "exited")
    assert (row["exit_code"], row["detached"], row["devices"]) == (7, True, [f"/dev/nvidia{GPU}"])
    assert bay.log("train") == "6\n6\n6\n", "ENXIO: let in, three times, and no driver behind it"
    node = f"{bay.mark}-train.run"
    assert bay.holders() == [node]
    refused = bay.begin("eval", "--gpus", f"gpu{GPU}", command=("true",), expect=2)
    has_three_parts(refused)
    assert f"{node} (exclusive, docker, stopped)" in refused.stderr
    assert "gpuprov run ps" in refused.stderr
    bay.docker.start(node)
    assert bay.holders() == [node]
    bay.until("train", "exited")
    assert bay("run", "rm", f"{bay.mark}-train").stdout == f"removed {bay.mark}-train\n"
    assert bay.holders() == []


def test_port_user_variables_and_name_are_as_asked_and_taken_ones_are_refused_together(
    bay: Bay, tmp_path: Path
) -> None:
    (tmp_path / "vars").write_text("OF_FILE=1\n")
    options = ("--publish", f"{PORT}:8000", "--user", "1000:1000", "--restart", "unless-stopped")
    variables = ("-e", "HERE", "-e", "LANG", "--env-file", str(tmp_path / "vars"))
    shell = f"id -u; hostname; echo $HERE $OF_FILE; cd /tmp; exec {shlex.join(SERVE)}"
    bay.begin("web", *options, *variables, command=("sh", "-c", shell), HERE="of this shell")
    deadline_s = time.monotonic() + BUDGET_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=5) as answer:
                assert answer.status == 200
            break
        except OSError:
            assert time.monotonic() < deadline_s, bay.log("web")
            time.sleep(0.2)
    assert bay.log("web").splitlines()[:3] == ["1000", f"{bay.mark}-web", "of this shell 1"]
    assert bay.row("web")["ports"] == [{"host_port": PORT, "node_port": 8000, "listen": "127.0.0.1"}]
    refused = bay.begin("web", "--publish", f"0.0.0.0:{PORT}:1", command=("true",), expect=2)
    has_three_parts(refused)
    assert "2 things are wrong with the command; nothing was started" in refused.stderr
    assert bay("run", "rm", f"{bay.mark}-web", expect=2).stderr.startswith(f"error: {bay.mark}-web has not ended")
    assert bay("run", "stop", f"{bay.mark}-web").stdout == f"stopped {bay.mark}-web\n"
    assert bay.row("web")["state"] == "exited", "Docker does not start it again"
    bay("run", "rm", f"{bay.mark}-web.run")


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--user", "nobody-has-this"), "unable to find user nobody-has-this"), (("--publish", "192.0.2.1:18462:1"), "")],
)
def test_what_docker_refuses_at_the_start_leaves_nothing(bay: Bay, options: tuple[str, ...], words: str) -> None:
    refused = bay.begin("odd", *options, command=("true",), expect=4)
    has_three_parts(refused)
    assert words in refused.stderr
    assert bay.begin("odd", command=("true",)).stdout == f"{bay.mark}-odd\n", "the name is free"
    bay("run", "rm", "--force", f"{bay.mark}-odd")


def test_its_gpu_hours_stay_on_record_whoever_ends_it_and_starts_it_again(bay: Bay) -> None:
    hours, once = (f"{word}-{os.getpid()}" for word in ("hours", "once"))  # earlier runs of this test are on record

    def counted(name: str) -> dict[str, Any]:
        told = bay("--json", "usage", "--by", "job").document
        found: dict[str, Any]
        (found,) = (row for row in told["rows"] if row["name"].startswith(f"{bay.mark}-{name}"))
        assert (found["cluster"], told["simulated"], bool(found["person"])) == ("(jobs)", True, True)
        return found

    began_s = time.monotonic()
    bay.begin(hours, "--gpus", f"gpu{GPU}", command=("sleep", "600"))
    assert counted(hours)["running"] == 1
    bay("run", "stop", f"{bay.mark}-{hours}")  # sleep takes the signal at once
    ended = counted(hours)
    assert (ended["running"], ended["jobs"]) == (0, 1)
    bay.docker.start(f"{bay.mark}-{hours}.run")
    time.sleep(2)  # which is counted
    assert counted(hours)["running"] == 1
    bay.docker.remove_container(f"{bay.mark}-{hours}.run", force=True)  # behind gpuprov's back
    found = counted(hours)
    assert ended["gpu_seconds"] + 1 <= found["gpu_seconds"] <= time.monotonic() - began_s + 1
    assert counted(hours) == found
    bay("run", "--name", f"{bay.mark}-{once}", "--gpus", f"gpu{GPU}", "--image", bay.image, "--", "sleep", "1.1")
    assert counted(once)["gpu_seconds"] >= 1


def test_logs_are_followed_until_the_end_and_by_both_streams(bay: Bay) -> None:
    bay.begin("talk", command=("sh", "-c", "echo one; echo two >&2; sleep 1; echo three; exit 3"))
    followed = bay("run", "logs", "--follow", f"{bay.mark}-talk")
    assert followed.stdout == "one\nthree\n"
    assert "two\n" in followed.stderr
    assert bay.log("talk", "--tail", "1") == "three\n"
    assert bay.until("talk", "exited")["exit_code"] == 3
    bay("run", "rm", f"{bay.mark}-talk")


def test_a_command_has_the_standard_input_or_the_terminal_of_who_types_it(bay: Bay) -> None:
    words = [str(bay.gpuprov.program), "-q", "run", "--name", f"{bay.mark}-in", "--image", bay.image]
    environment = {**bay.gpuprov.environment, "GPUPROV_SIMULATED_GPUS": "64"}
    sorting = [*words, "-i", "--", "sh", "-c", "sort; exit 3"]
    piped = subprocess.run(
        sorting, input=b"b\na\n", capture_output=True, check=False, env=environment, timeout=BUDGET_S
    )
    assert (piped.returncode, piped.stdout) == (3, b"a\nb\n"), piped.stderr
    ours, its = os.openpty()
    asking = [*words, "-it", "--", "sh", "-c", "tty; read word; echo got $word; exec sleep 600"]
    with subprocess.Popen(asking, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        _read_until(ours, "/dev/pts/0")
        os.write(ours, b"this\n")
        _read_until(ours, "got this")
        os.write(ours, b"\x03")  # which ends the command
        assert process.wait(BUDGET_S) == 130
    os.close(ours)
    assert f"{bay.mark}-in" not in [row["name"] for row in bay("--json", "run", "ps").document["runs"]]


def _read_until(descriptor: int, words: str) -> None:
    said = ""
    while words not in said:
        assert select.select([descriptor], [], [], BUDGET_S)[0], said
        said += os.read(descriptor, 4096).decode()


def test_a_name_is_no_node_s_and_a_command_may_be_called_as_a_verb(bay: Bay) -> None:
    bay.begin("both", command=("sleep", "600"))
    shown = bay("show", f"{bay.mark}-both", expect=2)
    assert f"{bay.mark}-both is a container of `gpuprov run`" in shown.stderr
    assert "gpuprov run rm" in bay("rm", f"{bay.mark}-both").stderr
    assert bay.row("both")["state"] == "running"
    listed = bay("run", "--image", bay.image, "--", "logs", expect=127)
    assert "logs" in listed.stderr
    assert bay("run", "rm", "--force", f"{bay.mark}-both").stdout == f"removed {bay.mark}-both\n"
