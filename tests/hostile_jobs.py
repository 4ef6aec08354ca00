"""What a job can leave in place of each file that is read below the folder of jobs, and what others notice of it.

Each state is made in a store of its own, by an account that is not root, and looked at by the program for jobs in a
process of its own, which has a limit of time and memory.
"""

from __future__ import annotations

import io
import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuwork.jobs.cli import main
from gpuwork.jobs.store import parse_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT: Final = 65534
LIMIT_S: Final = 20.0
SLOW_S: Final = 1.5  # processor time that no verb may need, on a busy machine too
MOST_BYTES: Final = 2 * 1024**3
MOST_KIB: Final = 150 * 1024  # more than before the first verb
MOST_SAID: Final = 20_000
DAY: Final = "2026-01-01T00:00:00Z"
SECRET: Final = "root:not-to-be-read"
BAD: Final = "2"  # the submission that has the state; 1 and 3 are others'
RUN: Final = "runs/0"
FILES: Final = (
    "order.json", "submitted.json", "submitter.json", "cancelled", "ended", ".lock", "slots", "next", "slurm", "run.sh",
    "runs", RUN, f"{RUN}/done.json", f"{RUN}/.done.json.part", f"{RUN}/state.json", f"{RUN}/cancelled", f"{RUN}/.alive",
    f"{RUN}/.lock", f"{RUN}/.kills", f"{RUN}/log.txt", f"{RUN}/work", ".cancelled.part", "x" * 255, f"runs/{'x' * 255}",
)  # fmt: skip
TOLD: Final = ("order.json", "submitted.json", f"{RUN}/done.json")  # each row says what is wrong with these
STORE_FILES: Final = (".lock", ".code", ".held", ".gone", ".keeper", "999999999", "4")
RECORD: Final[dict[str, Any]] = {
    "schema": "gpuprov.job-run/v1", "version": 1, "state": "done", "tries": 1, "failed": 0, "lost": 0, "node": "c001",
    "gpus": [], "simulated": False, "image": None, "started": DAY, "ended": DAY, "exit_status": 0, "reason": None,
}  # fmt: skip
ORDER: Final[dict[str, Any]] = {
    "schema": "gpuprov.job-order/v1", "version": 1, "command": ["true"], "function": None, "arguments": {},
    "project": None, "name": None, "count": None, "at_most": None, "time_limit_s": None, "memory_bytes": None,
    "gpus": 1, "retries": 0,
}  # fmt: skip
SUBMITTED: Final[dict[str, Any]] = {
    "schema": "gpuprov.job-submission/v1", "version": 1, "submitted": DAY, "code": None, "system": "workers",
    "chunks": [],
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What others noticed of a state: nothing, if `faults` is empty."""

    faults: tuple[str, ...]
    slowest_s: float


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """A new folder that the account can reach; in memory, where there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        yield Path(place)


def make_store(folder: Path) -> Path:
    """Three submissions: one has ended, the second has done so too, the last one waits."""
    store = folder / "jobs"
    for number in ("1", BAD, "3"):
        run = store / number / RUN
        (run if number != "3" else run.parent).mkdir(parents=True)
        write(store / number / "order.json", ORDER)
        write(store / number / "submitted.json", SUBMITTED)
        if number != "3":
            write(run / "done.json", RECORD)
            (run / "log.txt").write_text(f"log of {number}\n")
    return store


def write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document) + "\n")


def _document_of(path: Path) -> dict[str, Any]:
    return {"order.json": ORDER, "submitted.json": SUBMITTED}.get(path.name, RECORD)


def _link(path: Path, target: object) -> None:
    path.symlink_to(str(target))


def _bind(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name[:100])
    if len(path.name) > 100:
        Path(path.name[:100]).rename(path.name)
    os.chdir(before)


def _device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(5, 0))


def _many_names(path: Path) -> None:
    path.mkdir()
    for number in range(500):
        (path / f"{number:0250}").mkdir()


def _deep_folders(path: Path) -> None:
    before = Path.cwd()
    path.mkdir()
    os.chdir(path)
    for _ in range(1500):
        Path("deep").mkdir()
        os.chdir("deep")
    os.chdir(before)


def _big(path: Path) -> None:
    told = json.dumps({**_document_of(path), "node": "x" * 4 * 1024**2})
    path.write_text(told)


def _no_permission(path: Path) -> None:
    write(path, _document_of(path))
    path.chmod(0)


def _shut_folder(path: Path) -> None:
    path.mkdir()
    (path / "held").touch()
    path.chmod(0)


def _twice(path: Path) -> None:
    path.write_text("{" + ",".join(f'"key{number % 25000}":1' for number in range(50000)) + "}")


def _many_gpus(path: Path) -> None:
    write(
        path, {**_document_of(path), "gpus": [f"GPU-{number:012}" for number in range(12000)], "reason": "x" * 100000}
    )


def _nan(path: Path) -> None:
    path.write_text(json.dumps({**_document_of(path), "tries": float("nan"), "version": float("inf")}))


def _huge_number(path: Path) -> None:
    path.write_text('{"version": 1e999, "tries": ' + "9" * 5000 + "}")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1024**3)


STATES: Final[dict[str, Callable[[Path], object]]] = {
    "nothing": lambda _path: None,
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a folder without permission": _shut_folder,
    "a folder with 500 long names": _many_names,
    "1,500 folders, each within another": _deep_folders,
    "a link to itself": lambda path: _link(path, path.name),
    "a link to a file of root's": lambda path: _link(path, path.parents[len(path.parts) - 3] / "nothing"),
    "a link to the same file of another job": lambda path: _link(path, "/proc/self/cwd"),
    "a link to /dev/zero": lambda path: _link(path, "/dev/zero"),
    "a socket": _bind,
    "a device": _device,
    "4 MiB in one value": _big,
    "1 GiB of holes": _sparse,
    "no permission": _no_permission,
    "50,000 keys, each twice": _twice,
    "12,000 GPUs": _many_gpus,
    "a list 100,000 deep": lambda path: path.write_text("[" * 100000),
    "NaN and Infinity": _nan,
    "numbers that are too large": _huge_number,
    "bytes that are no UTF-8": lambda path: path.write_bytes(b'{"node": "\xff\xfe\x00\xd8"}'),
    "an empty file": Path.touch,
}


def look_at(folder: Path, place: str, state: str) -> Seen:
    """Make a state in place of a file, and have others use the program for jobs.

    Args:
        folder: Empty; the account may write there.
        place: Below the submission, or with a leading `/` below the store.
        state: Which of the states.
    """
    store = make_store(folder)
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    path = store / place[1:] if place.startswith("/") else store / BAD / place
    _clear(path)
    if state == "a link to a file of root's":
        _link(path, secret)
    elif state == "a link to the same file of another job":
        _link(path, store / "1" / place if not place.startswith("/") else store / "1")
    else:
        STATES[state](path)
    subprocess.run(["chown", "-hR", str(ACCOUNT), str(store), str(folder)], check=True)
    os.chown(secret, 0, 0)
    before = secret.read_text()
    seen = _in_process(_User(store), place, state)
    subprocess.run(["rm", "-rf", str(store)], check=True)  # also what Python cannot remove
    changed = () if secret.read_text() == before else ("a file of root's was changed",)
    return Seen(faults=(*seen.faults, *changed), slowest_s=seen.slowest_s)


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


class _User:
    """Somebody else, who types verbs, and notes what is wrong with them and how long each takes of the processor."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.faults: list[str] = []
        self.slowest_s = 0.0

    def ask(self, verb: str, *arguments: str, stdin: str = "", code: int | None = 0) -> dict[str, Any]:
        """The answer of a verb."""
        began, sys.stdin = time.process_time(), io.TextIOWrapper(io.BytesIO(stdin.encode()))
        with redirect_stdout(io.StringIO()) as out:
            status = main(["--folder", str(self._store), "--broker", __file__, verb, *arguments])
        took_s, said = time.process_time() - began, out.getvalue()
        self.slowest_s = max(self.slowest_s, took_s)
        self.expect(took_s < SLOW_S, f"{verb} took {took_s:.1f} s")
        self.expect(SECRET not in said, f"{verb} shows a file of root's")
        self.expect(
            len(said) < MOST_SAID or (verb, arguments) == ("logs", (BAD,)), f"{verb} prints {len(said)} characters"
        )
        self.expect(code in (None, status), f"{verb} {' '.join(arguments)}: exit code {status}: {said[:300]}")
        answer: dict[str, Any] = json.loads(
            said, parse_constant=lambda name: self.expect(is_so=False, fault=f"{verb} prints {name}")
        )
        return answer

    def expect(self, is_so: bool, fault: str) -> None:
        """Note a fault unless something is so."""
        if not is_so:
            self.faults.append(fault)

    def listed(self) -> dict[str, dict[str, Any]]:
        """Rows by submission."""
        return {parse_id(row["id"])[0]: row for row in self.ask("list").get("jobs", [])}

    def use(self, place: str, state: str) -> None:
        """Every verb for jobs of their own, then `cancel` and `rm` for the one that has the state."""
        jobs = self.listed()
        states = {number: jobs.get(number, {}).get("state") for number in "13"}
        self.expect(states == {"1": "done", "3": "waiting"}, f"others are listed as {states}")
        if place in TOLD and state != "nothing":
            self.expect(bool(jobs.get(BAD, {}).get("reason")), f"its row does not tell: {jobs.get(BAD)}")
        live = {row["id"] for row in self.ask("list", "--live").get("jobs", [])}
        self.expect("3" in live, f"list --live has {live}")
        self.ask("show", "1", "3")
        self.expect(self.ask("logs", "1").get("text") == "log of 1\n", "the log of another job is not shown")
        number = str(self.ask("submit", stdin=json.dumps(ORDER)).get("id"))
        for verb in ("cancel", "rm"):
            self.ask(verb, number)
        self.ask("cancel", "3")
        for verb in ("show", "logs"):
            self.ask(verb, BAD, code=None)
        if not place.startswith("/"):
            self._remove_bad(is_submitted=place != "submitted.json" or BAD in jobs)

    def _remove_bad(self, *, is_submitted: bool) -> None:
        if not is_submitted:
            return
        for verb in ("cancel", "rm"):
            self.ask(verb, BAD)
        after = set(self.listed())
        self.expect(after == {"1", "3"}, f"after rm there are {after}")
        left = [*self._store.glob(".gone/*"), *(self._store / BAD).iterdir()]
        self.expect(not left, f"rm left {left}")


def _in_process(user: _User, place: str, state: str) -> Seen:
    """Call it as the account, with limits."""
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        _be_account(reads, writes, lambda: user.use(place, state), user)
    os.close(writes)
    handle = os.pidfd_open(pid)
    said, until = b"", time.monotonic() + LIMIT_S
    while (left_s := until - time.monotonic()) > 0 and select.select([reads], [], [], left_s)[0]:
        piece = os.read(reads, 65536)
        if not piece:
            break
        said += piece
    os.close(reads)
    is_late = not select.select([handle], [], [], max(0, until - time.monotonic()))[0]
    if is_late:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(handle)
    if is_late or not said:
        return Seen(faults=(f"did not end in {LIMIT_S:g} s" if is_late else "ended without a word",), slowest_s=LIMIT_S)
    told = json.loads(said)
    return Seen(faults=tuple(told["faults"]), slowest_s=told["slowest_s"])


def _be_account(reads: int, writes: int, use: Callable[[], None], user: _User) -> None:
    """The process: nothing of the one that it was forked from runs in it afterwards."""
    try:
        os.close(reads)
        os.setgroups([])
        os.setresgid(ACCOUNT, ACCOUNT, ACCOUNT)
        os.setresuid(ACCOUNT, ACCOUNT, ACCOUNT)
        _stub_broker()
        began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        try:
            use()
        except BaseException:  # noqa: BLE001  (that is what is looked for)
            user.faults.append(f"a traceback: {traceback.format_exc()[-1500:]}")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began
        with os.fdopen(writes, "w") as pipe:
            user.expect(memory < MOST_KIB, f"needed {memory // 1024} MiB more")
            pipe.write(json.dumps({"faults": user.faults, "slowest_s": user.slowest_s}))
    finally:
        os._exit(0)


def _stub_broker() -> None:
    """Hand nothing in: what is looked at is how folders are read."""
    from gpuwork.jobs import workers

    vars(workers).update(read_broker=lambda _: "", make_app=lambda _: None, send_runs=lambda *_: None)
