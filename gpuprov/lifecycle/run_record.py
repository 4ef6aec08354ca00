"""Put on record when containers of `gpuprov run` had GPUs, before the engine forgets it, and sum it up later.

The record decides nothing: who holds which GPU is said by the engine alone.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.names import name_of_run
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_GPUS, LABEL_IMAGE, LABEL_SUBMITTER
from gpuprov.drivers.registry import prepare_command
from gpuprov.machine.survey import survey
from gpuprov.roles.usage import UNKNOWN, Use, Uses
from gpuprov.shapes.base import changed, read
from gpuprov.shapes.run_span import RunSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.job_times import JobTimes
    from gpuprov.machine.base import Host

Mark = tuple[float, bool]  # seconds since 1970, and whether the command began then, or else ended
_SEEN_S: Final = 3600.0  # how often it is written down that one still runs
_LOST: Final = "they count up to when they were last seen to run"


def note_runs(driver: Driver, names: Collection[str], host: Host, *, reporter: Reporter) -> None:
    """Record when the commands of containers ran, as far as the engine knows.

    What cannot be recorded is said, and no error: the containers go on.
    """
    try:
        _note(driver, names, host)
    except (GpuprovError, OSError) as error:
        _warn(error, names, reporter)


@contextmanager
def on_record(
    driver: Driver, names: Collection[str], host: Host, *, reporter: Reporter, held_s: float | None = None
) -> Iterator[None]:
    """Record the same at the begin of a block and at its end, when the containers are gone.

    What the engine does not remember of their ends is taken from this process's clock.

    Args:
        driver: Their engine.
        names: What their engine calls them.
        host: This one.
        reporter: Is told what is not on record, once.
        held_s: When one that is there and has not begun is taken to begin; None where it is left out.
    """
    before: tuple[RunSpan, ...] = ()
    said = False
    try:
        before = _note(driver, names, host, held_s=held_s)
    except (GpuprovError, OSError) as error:
        said = True
        _warn(error, names, reporter)
    try:
        yield
    finally:
        try:
            _note_ends(driver, names, host, before)
        except (GpuprovError, OSError) as error:
            if not said:
                _warn(error, names, reporter)


def _note(driver: Driver, names: Collection[str], host: Host, *, held_s: float | None = None) -> tuple[RunSpan, ...]:
    times = driver.read_job_times(names)
    spans = tuple(span for one in times for span in spans_of(one, now_s=time.time(), held_s=held_s))
    host.run_records.add(spans)
    return spans


def _note_ends(driver: Driver, names: Collection[str], host: Host, before: tuple[RunSpan, ...]) -> None:
    now_s = time.time()
    there = driver.read_job_times(names)
    spans = [span for one in there for span in spans_of(one, before, now_s=now_s)]
    on_their_own = {one.id for one in there if one.there} | {span.id for span in spans if span.ended is not None}
    gone = [span for span in before if span.ended is None and span.id not in on_their_own]
    host.run_records.add([*_news(spans, before), *(changed(span, ended=now_s, seen=now_s) for span in gone)])


def _warn(error: GpuprovError | OSError, names: Collection[str], reporter: Reporter) -> None:
    why = error.evidence if isinstance(error, GpuprovError) else str(error)
    if isinstance(error, PermissionError):
        why = f"{why}; once: {prepare_command('docker')}"
    which = ", ".join(map(name_of_run, names))
    reporter.warn(f"`gpuprov usage` may lack GPU hours of {which}, which could not be put on record: {why}")


def spans_of(
    times: JobTimes, known: Iterable[RunSpan] = (), *, now_s: float, held_s: float | None = None
) -> tuple[RunSpan, ...]:
    """The spans of one container, of what its engine and the record know; none where it has no GPU.

    Args:
        times: What the engine says.
        known: What is on record, also of others.
        now_s: When it said so.
        held_s: As of `note_runs`.
    """
    labels = times.labels
    gpus = tuple(filter(None, labels.get(LABEL_GPUS, "").split(",")))
    if not gpus:
        return ()
    known = [span for span in known if span.id == times.id]
    marks = [*times.marks, *(mark for span in known for mark in _marks_of(span))]
    if not marks and held_s is not None and times.there:
        marks = [(held_s, True)]
    seen = now_s if times.running else max((span.seen for span in known), default=0.0)
    told = {
        "id": times.id,
        "name": name_of_run(times.name),
        "person": labels.get(LABEL_SUBMITTER, UNKNOWN),
        "image": labels.get(LABEL_IMAGE, ""),
        "gpus": list(gpus),
        "simulated": labels.get(LABEL_ACCESS) == "simulated",
    }
    spans = []
    for began, ended in join_marks(marks):
        span = {**told, "began": began, "ended": ended, "seen": ended or max(began, seen)}
        try:
            spans.append(read(RunSpan, span))
        except ValueError:  # labels that somebody else has written
            return ()
    return tuple(spans)


def _marks_of(span: RunSpan) -> tuple[Mark, ...]:
    return ((span.began, True),) if span.ended is None else ((span.began, True), (span.ended, False))


def join_marks(marks: Iterable[Mark]) -> list[tuple[float, float | None]]:
    """From when to when something ran, of moments that are there several times, and slightly different.

    Between two starts of which no end is known in between, it ran: an engine that restarts a command does so at once.
    """
    spans: list[tuple[float, float | None]] = []
    began: float | None = None
    for second, begins in sorted(marks, key=lambda mark: (mark[0], not mark[1])):
        if begins and began is None:
            began = second
        elif not begins and began is not None:
            spans.append((began, second))
            began = None
    return spans if began is None else [*spans, (began, None)]


def _news(spans: Iterable[RunSpan], known: Iterable[RunSpan]) -> list[RunSpan]:
    """Those that say more than what is on record."""
    there = {(span.id, span.began): span for span in known}
    found = []
    for span in spans:
        old = there.get((span.id, span.began))
        if old is None or old.ended != span.ended or (span.ended is None and span.seen - old.seen > _SEEN_S):
            found.append(span)
    return found


def uses_of_runs(host: Host, window: tuple[float, float]) -> Uses:
    """What containers of `gpuprov run` on this host had in a window of time, in seconds since 1970.

    What its engines know is added to the record, so that what was told once is told again.
    """
    notes = []
    try:
        recorded = host.run_records.read(window[0])  # before the engines are asked: what is on record was there then
    except PermissionError:
        return Uses(uses=(), notes=("containers of `gpuprov run` are not counted: this user may not use Docker",))
    except OSError as error:
        recorded = None
        notes.append(f"the record of `gpuprov run` cannot be read, and only what the engines know is counted: {error}")
    known = recorded.spans if recorded else ()
    if recorded and recorded.damaged:
        notes.append(f"{recorded.damaged} lines of the record of `gpuprov run` are damaged, and left out")
    seen = survey(host.engines, lambda driver: driver.read_job_times())
    notes += [
        f"{name} does not answer: containers of `gpuprov run` count as far as is on record" for name in seen.silent
    ]
    times = {one.id: one for found in seen.answers.values() for one in found}
    spans = _spans(times, known, now_s=time.time())
    try:
        host.run_records.add(_news((span for found in spans.values() for span in found if span.id in times), known))
    except OSError as error:
        notes.append(f"what the engines know of `gpuprov run` could not be put on record: {error}")
    uses = [_use(found, times.get(identity), window, host.name) for identity, found in spans.items()]
    lost = [found for identity, found in spans.items() if not seen.errors and _is_lost(found, times.get(identity))]
    if lost:
        notes.append(
            f"when {len(lost)} containers of `gpuprov run` ended is not known, such as {lost[0][-1].name}: {_LOST}"
        )
    simulated = any(spans[identity][0].simulated for identity, use in zip(spans, uses, strict=True) if use)
    return Uses(uses=tuple(use for use in uses if use), notes=tuple(notes), simulated=simulated)


def _spans(times: Mapping[str, JobTimes], known: Iterable[RunSpan], *, now_s: float) -> dict[str, tuple[RunSpan, ...]]:
    """By container, all that is known of it."""
    recorded: dict[str, list[RunSpan]] = {}
    for span in known:
        recorded.setdefault(span.id, []).append(span)
    found = {identity: spans_of(one, recorded.get(identity, ()), now_s=now_s) for identity, one in times.items()}
    for identity, lines in recorded.items():
        if not found.get(identity):
            found[identity] = _joined(lines)
    return {identity: spans for identity, spans in found.items() if spans}


def _joined(lines: list[RunSpan]) -> tuple[RunSpan, ...]:
    """The spans of a container of which the record alone knows."""
    seen = max(span.seen for span in lines)
    marks = join_marks(mark for span in lines for mark in _marks_of(span))
    return tuple(changed(lines[-1], began=began, ended=ended, seen=ended or seen) for began, ended in marks)


def _is_lost(spans: tuple[RunSpan, ...], times: JobTimes | None) -> bool:
    """Whether a container runs no more, and nobody knows since when."""
    return spans[-1].ended is None and not (times and times.running)


def _use(spans: tuple[RunSpan, ...], times: JobTimes | None, window: tuple[float, float], host: str) -> Use | None:
    """What one container had in the window; None where it did not run then."""
    running = bool(times and times.running)
    last = spans[-1]
    ends = [span.ended if span.ended is not None else window[1] if running else span.seen for span in spans]
    within = [
        max(0.0, min(end, window[1]) - max(span.began, window[0]))
        for span, end in zip(spans, ends, strict=True)
        if end > window[0] and int(span.began) <= window[1]  # now is a whole second, and one may have begun in it
    ]
    if not within:
        return None
    return Use(
        job=last.name,
        submitted=int(spans[0].began),
        person=last.person,
        account=UNKNOWN,
        nodes=(host,),
        gpus=dict.fromkeys(last.gpus, 1),
        seconds=int(sum(within)),
        running=running,
    )
