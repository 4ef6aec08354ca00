"""All engines of a host queried side by side, each with a limit: one that hangs does not hold up the others."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, NotAllowed, TimedOut
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.drivers.registry import choose_engine, prepare_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.choices import Engine


ANSWER_S: Final = 10.0
PROBE_S: Final = 1.0  # where an engine hung a moment ago: not every command waits for it as long as the first one
KEPT_S: Final = 120.0  # that long is a moment
RUN_FOLDER = Path("/run/gpuprov")  # root's; other users have their own
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class EngineDoor:
    """How an engine of a host is reached.

    Attributes:
        installed: Whether it is there at all, so that its silence means something.
        load: Loads what `open` needs.
        names: Those of its nodes, sooner than it can be opened; it is opened where None.
    """

    name: str
    open: Callable[[], Driver]
    installed: Callable[[], bool]
    load: Callable[[], object] = lambda: None
    names: Callable[[], Sequence[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Survey(Generic[Answer]):
    """What the engines said; all three are by name, in the order in which the engines were asked.

    Attributes:
        answers: Of those that answered.
        errors: Of those that are installed and did not: nobody knows what they have. To some this user has no access.
        absent: Why those that are not on this machine did not: they have nothing.
    """

    answers: Mapping[str, Answer]
    errors: Mapping[str, GpuprovError]
    absent: Mapping[str, GpuprovError]

    @property
    def closed(self) -> Mapping[str, GpuprovError]:
        """Of `errors`, those of engines to which this user has no access."""
        return {name: error for name, error in self.errors.items() if isinstance(error, NotAllowed)}

    @property
    def silent(self) -> Mapping[str, GpuprovError]:
        """Of `errors`, the others: what this user could know, and does not."""
        return {name: error for name, error in self.errors.items() if name not in self.closed}

    @property
    def default(self) -> Engine:
        """The engine for what is new on this host: one that this user may use, if there is one."""
        return choose_engine({*self.answers, *self.silent} or {*self.closed})

    def require_answer(self) -> None:
        """Go on only where an engine has answered.

        Raises:
            GpuprovError: None has; it is what the default engine said, unless another one alone is installed.
        """
        if not self.answers:
            refusals = self.errors or self.absent
            raise self.refusal_of(self.default if self.default in refusals else next(iter(refusals), self.default))

    def refusal_of(self, engine: str) -> GpuprovError:
        """Why an engine has not answered; it is not on this machine if it was not even asked."""
        known = self.errors.get(engine) or self.absent.get(engine)
        return known or HostNotReady(
            f"{engine} is not on this host",
            evidence=f"its engines: {', '.join([*self.answers, *self.errors, *self.absent]) or 'none'}",
            fix=prepare_command(engine),
        )


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """Why an engine does not answer."""

    error: GpuprovError
    installed: bool


def default_engine(doors: Iterable[EngineDoor]) -> Engine:
    """The engine for what is new on a host; nobody is asked anything."""
    return choose_engine({door.name for door in doors if door.installed()})


def load_installed(doors: Iterable[EngineDoor]) -> None:
    """Load what opening these needs, of those that are there; what cannot be loaded says so when it is opened."""
    for door in doors:
        if door.installed():
            with suppress(ImportError):
                door.load()


def survey(
    doors: Sequence[EngineDoor], question: Callable[[Driver], Answer], *, timeout_s: float | None = None
) -> Survey[Answer]:
    """Open all engines and ask each the question, in a thread of its own.

    Args:
        question: Changes nothing: an engine that is late is left alone with it.
        timeout_s: How long an engine has for both; None for ANSWER_S, but for PROBE_S if it hung a moment ago.
    """
    load_installed(doors)  # here, for threads that load side by side take longer than one after the other
    return _ask_all(doors, lambda door: question(door.open()), timeout_s)


def open_in_time(door: EngineDoor) -> Driver:
    """Open one engine, which has as long for it as each where all are asked.

    Raises:
        TimedOut: It does not respond.
        GpuprovError: It cannot be opened.
    """
    seen = survey([door], lambda driver: driver, timeout_s=scaled_limit_s(ANSWER_S))
    seen.require_answer()
    return seen.answers[door.name]


def survey_names(doors: Sequence[EngineDoor], *, timeout_s: float) -> Mapping[str, Sequence[str]]:
    """Names of nodes by engine, of those that answer in time."""
    return _ask_all(doors, lambda door: door.names() if door.names else _names_in(door.open()), timeout_s).answers


def _names_in(driver: Driver) -> Sequence[str]:
    return [node.name for node in driver.list_nodes() if node.ours]


def _ask_all(
    doors: Sequence[EngineDoor], ask: Callable[[EngineDoor], Answer], timeout_s: float | None
) -> Survey[Answer]:
    limit_s = ANSWER_S if timeout_s is None else timeout_s
    hung = {door.name: silent_since_s(door.name) if timeout_s is None else None for door in doors}
    said: dict[str, Answer | _Refusal] = {}
    answers: SimpleQueue[tuple[str, Answer | _Refusal]] = SimpleQueue()

    def work(door: EngineDoor) -> None:
        answers.put((door.name, _ask(door, ask)))

    for door in doors:
        # a daemon, which ends with the process, also where the engine hangs
        Thread(target=work, args=(door,), name=f"ask {door.name}", daemon=True).start()
    now_s = time.monotonic()
    late_s = {name: now_s + (min(limit_s, PROBE_S) if since_s else limit_s) for name, since_s in hung.items()}
    with suppress(Empty):
        while late_s:
            name, answer = answers.get(timeout=max(0.0, max(late_s.values()) - time.monotonic()))
            said[name] = answer
            del late_s[name]
            if hung[name]:
                forget_silence(name)
    for name in late_s:
        if timeout_s is None and not hung[name]:
            remember_silence(name)
            hung[name] = silent_since_s(name)
        said[name] = _Refusal(error=_hangs(name, limit_s, since_s=hung[name]), installed=True)
    said = {door.name: said[door.name] for door in doors}
    refusals = {name: answer for name, answer in said.items() if isinstance(answer, _Refusal)}
    return Survey(
        answers={name: answer for name, answer in said.items() if not isinstance(answer, _Refusal)},
        errors={name: refusal.error for name, refusal in refusals.items() if refusal.installed},
        absent={name: refusal.error for name, refusal in refusals.items() if not refusal.installed},
    )


def _ask(door: EngineDoor, ask: Callable[[EngineDoor], Answer]) -> Answer | _Refusal:
    try:
        return ask(door)
    except GpuprovError as error:
        return _Refusal(error=error, installed=door.installed())
    except Exception as error:  # noqa: BLE001 - whatever it is, what that engine has is not known
        evidence = f"unexpected {type(error).__name__}: {error}"
        fix = f"gpuprov doctor --engine {door.name}"
        unknown = EngineError(f"{door.name} cannot be queried", evidence=evidence, fix=fix)
        return _Refusal(error=unknown, installed=True)


def _hangs(engine: str, limit_s: float, *, since_s: float | None) -> TimedOut:
    evidence = f"no response within {limit_s:g} s"
    if since_s:
        moments = (time.strftime("%H:%M:%S", time.localtime(moment_s)) for moment_s in (since_s, since_s + KEPT_S))
        evidence += " at {}; until {} it has {:g} s".format(*moments, min(limit_s, PROBE_S))
    return TimedOut(
        f"{engine} does not respond",
        evidence=evidence,
        fix=f"check the engine: gpuprov doctor --engine {engine}",
    )


def silent_since_s(engine: str) -> float | None:
    """When an engine did not answer in full time, in seconds since 1970; None if that is long ago, or never was."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            since_s = (folder / _name(engine)).lstat().st_mtime
            if 0 <= time.time() - since_s < KEPT_S:
                return since_s
    return None


def remember_silence(engine: str) -> None:
    """Write down that it did not answer; who cannot waits again the next time."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            (folder / _name(engine)).touch()


def forget_silence(engine: str) -> None:
    """It has answered."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            (folder / _name(engine)).unlink(missing_ok=True)


def _name(engine: str) -> str:
    return f"silent-{engine}"


def _folder() -> Path | None:
    if os.geteuid() == 0:
        return RUN_FOLDER
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(own) / "gpuprov" if own.startswith("/") else None
