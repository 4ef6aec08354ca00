"""What every test may ask for."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.gpu.simulate import SEED
from gpuprov.machine.local import SEED_VARIABLE
from tests.forwarding import bridges_let_through
from tests.only_run import only_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DRIVER = Path("/proc/driver/nvidia/version")
WITHOUT_GPU = pytest.StashKey[int]()
SHARED = "GPUPROV_TESTS_SHARE_ENGINES"  # set for the processes of a run that itself is alone on the engines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")
    parser.addoption(
        "--ledger", metavar="FILE", help="write what reliability tests counted and measured, one JSON a line"
    )
    parser.addoption("--counted", action="store_true", help="run only the tests that enter something into the ledger")


def pytest_configure() -> None:
    # Who is started in the background, or by nohup, ignores these, and so would every command that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.setdefault(SEED_VARIABLE, SEED)  # simulated GPUs have the same UUIDs on every machine that runs tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_for_long(items)
    if not config.getoption("--long"):
        leave_out(config, items, lambda item: item.get_closest_marker("long") is not None)
    if config.getoption("--counted"):
        leave_out(config, items, lambda item: "ledger" not in getattr(item, "fixturenames", ()))
    if not DRIVER.exists():
        config.stash[WITHOUT_GPU] = leave_out(config, items, lambda item: item.get_closest_marker("gpu") is not None)


def leave_for_long(items: list[pytest.Item]) -> None:
    """Of the cases of a test marked `sampled(N)`, one in N is in `make test`, on each engine; the others are long."""
    seen: Counter[tuple[str, object]] = Counter()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            call = getattr(item, "callspec", None)
            test = item.nodeid.partition("[")[0], call and call.params.get("whole_bench")
            if seen[test] % sampled.args[0]:
                item.add_marker(pytest.mark.long)
            seen[test] += 1


def pytest_collection() -> None:
    gc.disable()  # what is collected stays: looking through it again and again takes a fifth of the time


def pytest_collection_finish() -> None:
    gc.freeze()  # some hundred thousand objects that stay: no collection during a test need look at them
    gc.enable()


def leave_out(config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]) -> int:
    left_out = [item for item in items if unwanted(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not unwanted(item)]
    return len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Nobody shall take a run without a GPU for one with."""
    count = config.stash.get(WITHOUT_GPU, None)  # known to the workers alone where there are some
    if not DRIVER.exists() and count != 0:
        number = "" if count is None else f"{count} "
        terminalreporter.write_line(f"NOT RUN: {number}tests marked gpu: no NVIDIA driver here ({DRIVER} is absent)")


class Ledger:
    """What reliability tests counted and measured; benchmarks/reliability.py makes tables of it."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path).resolve() if path else None

    def add(self, kind: str, **row: object) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": kind, **row}) + "\n")


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Where a test enters what a table shall show."""
    return Ledger(request.config.getoption("--ledger"))


@contextmanager
def alone_on_engines() -> Iterator[None]:
    """This machine's engines are this run's alone, and the bridges that tests make there lead to the outside."""
    with only_run(), bridges_let_through():
        yield


def share_engines(config: pytest.Config) -> None:
    """Have the engines for this run alone, and let its processes share them."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.enter_context(alone_on_engines())
    os.environ[SHARED] = "yes"


@pytest.fixture(scope="session")
def real_engines() -> Iterator[None]:
    """The engines of this machine for this run alone."""
    with nullcontext() if SHARED in os.environ else alone_on_engines():
        yield


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs of a test in this process write their logs."""
    folder = tmp_path / "log"
    monkeypatch.setattr("gpuprov.cli.session.log_folder", lambda _environment, **_: folder)
    return folder


class Recording:
    """A reporter that remembers, as lines, what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.lines.append(f"begin {name}")
        yield
        self.lines.append(f"end {name}")

    def node(self, name: str, state: str) -> None:
        self.lines.append(f"node {name} {state}")

    def note(self, text: str) -> None:
        self.lines.append(f"note {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"warn {text}")


@pytest.fixture
def recording() -> Recording:
    """A reporter whose `lines` a test can look at."""
    return Recording()
