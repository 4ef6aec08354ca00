"""`--processes N`: the tests are collected once, and N processes that are forked then run them.

To collect the tests takes as much of a processor as to run the quick ones, and with pytest-xdist every process does so.
Each process has some modules in a row, so that what tests share is made once, and afterwards helps the others.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.tmpdir import TempPathFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NUMBER_BYTES = 4
UNDO_S = 30.0  # for what tests have begun to be undone


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", metavar="N", type=int, default=1, help="run the tests in N processes")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests, unless one process shall, or pytest itself has to say why none is run."""
    count = session.config.getoption("processes")
    if count < 2 or not session.items or session.testsfailed or session.config.option.collectonly:
        return None
    groups = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    queues = [queue_of(numbers) for numbers in divide([len(group) for group in groups], count)]
    base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def work(own: int, connection: Connection) -> None:
        move_in(session.config, base / f"process{own}")
        session.config.pluginmanager.register(Told(session.config, connection))
        run_all(session, chain.from_iterable(groups[number] for number in taken(queues[own])), connection)
        for others in (*queues[own + 1 :], *queues[:own]):
            for number in taken(others):  # one by one: what is taken before its time waits for what this process runs
                run_all(session, iter(groups[number]), connection)

    gc.freeze()  # what all share is neither looked through for garbage nor copied by it
    forked = [fork(own, work) for own in range(count)]
    try:
        Collected(session).follow(forked)
    finally:
        end(forked)
        for queue in queues:
            os.close(queue)
    return True


def divide(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Numbers of groups with so many tests each, in a row, for so many processes. Pure."""
    parts: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for number, size in enumerate(sizes):
        parts[min(count - 1, before * count // sum(sizes))].append(number)
        before += size
    return parts


def queue_of(numbers: Sequence[int]) -> int:
    """A pipe that holds the numbers. Who reads one has taken it; no lock is held by who dies."""
    reader, writer = os.pipe()
    os.write(writer, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in numbers))
    os.close(writer)
    return reader


def taken(queue: int) -> Iterator[int]:
    """Take numbers from the queue until it is empty."""
    while piece := os.read(queue, NUMBER_BYTES):
        yield int.from_bytes(piece, "big")


def move_in(config: pytest.Config, folder: Any) -> None:
    """Have what processes cannot share: folders for tests, files for what they print; and say nothing."""
    config.option.basetemp = str(folder)
    config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)  # type: ignore[attr-defined]
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.unregister(name="terminalreporter")


class Told:
    """Tells the process that all were forked from what becomes of tests."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._connection.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def run_all(session: pytest.Session, items: Iterator[pytest.Item], connection: Connection) -> None:
    """Run tests as they are taken: the one after each has to be known by then, for what both share."""
    item = next(items, None)
    try:
        while item is not None:
            following = next(items, None)
            connection.send((item.nodeid, item.location, False))
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            connection.send((item.nodeid, item.location, True))
            item = following
    finally:
        session._setupstate.teardown_exact(None)


@dataclass(eq=False)
class Process:
    """A process that was forked.

    Attributes:
        running: The test that it runs.
        status: How it ended, None until it has.
    """

    pid: int
    sentinel: int
    connection: Connection
    running: str = ""
    status: int | None = None


def fork(own: int, work: Callable[[int, Connection], None]) -> Process:
    """Have the work done in a process of its own."""
    reader, writer = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            reader.close()
            work(own, writer)
            status = 0
        except (KeyboardInterrupt, BrokenPipeError):
            status = 130
        except BaseException:  # noqa: BLE001 - whatever it is, it is told, and ends this process alone
            traceback.print_exc()
        finally:
            os._exit(status)
    writer.close()
    return Process(pid, os.pidfd_open(pid), reader)


class Collected:
    """What the processes have told, handed on as if the tests had run here."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._hook = session, session.config.hook
        self._done: set[str] = set()

    def follow(self, forked: Sequence[Process]) -> None:
        """Hear all processes out. What none of them has run has failed."""
        while left := [process for process in forked if process.status is None]:
            for ready in wait([end for process in left for end in (process.connection, process.sentinel)]):
                process = next(process for process in left if ready in (process.connection, process.sentinel))
                if not self._hear(process) and ready == process.sentinel:
                    process.status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        ends = {process.running: process.status for process in forked if process.status}
        for item in self._session.items:
            if item.nodeid not in self._done:
                status = ends.get(item.nodeid)
                why = "it was not run" if status is None else f"the process that ran it ended with status {status}"
                report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
                self._hook.pytest_runtest_logreport(report=report)

    def _hear(self, process: Process) -> bool:
        """Whether there was anything to hear."""
        heard = False
        with suppress(EOFError):
            while process.connection.poll():
                self._take(process, process.connection.recv())
                heard = True
        return heard

    def _take(self, process: Process, message: Any) -> None:
        if isinstance(message, tuple):
            name, location, ended = message
            process.running = "" if ended else name
            if ended:
                self._done.add(name)
                self._hook.pytest_runtest_logfinish(nodeid=name, location=location)
            return
        config = self._session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=message)
        self._hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


def end(forked: Sequence[Process]) -> None:
    """End those that still run, as Ctrl-C does, and at last by force."""
    left = [process for process in forked if process.status is None]
    for process in left:
        signal.pidfd_send_signal(process.sentinel, signal.SIGINT)
    for process in left:
        if not wait([process.sentinel], UNDO_S):
            signal.pidfd_send_signal(process.sentinel, signal.SIGKILL)
        os.waitpid(process.pid, 0)
    for process in forked:
        process.connection.close()
        os.close(process.sentinel)
