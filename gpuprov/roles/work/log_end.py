"""The end of a job's log, from the beginning of a line on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.jobs import JobLog

MOST_LOG_BYTES: Final = 4_000_000
_FIRST_BYTES: Final = 65_536  # that are looked through for the last lines; more if these are too few
_MORE: Final = 8


def read_end(controller: JobController, job: str, *, tail: int | None = None) -> list[JobLog]:
    """The last 4 MB of a log, or its last lines; at least one piece.

    Raises:
        UsageError: There is no such job, or there are several of that id.
    """
    first = controller.read_log(job, 0)
    room = MOST_LOG_BYTES if tail is None else min(_FIRST_BYTES, MOST_LOG_BYTES)
    while True:
        begin = max(0, first.size - room)
        pieces = [first] if begin == 0 else [controller.read_log(job, begin)]
        while pieces[-1].next < first.size and not pieces[-1].whole:
            piece = controller.read_log(job, pieces[-1].next)
            if piece.next == pieces[-1].next:  # half a character stands at the end
                break
            pieces.append(piece)
        kept = _from_a_line(pieces, tail, is_cut=begin > 0)
        if kept is not None or room >= MOST_LOG_BYTES or begin == 0:
            return kept or pieces
        room = min(MOST_LOG_BYTES, room * _MORE)


def _from_a_line(pieces: list[JobLog], tail: int | None, *, is_cut: bool) -> list[JobLog] | None:
    """The pieces from the beginning of a line on; None if there are not so many lines."""
    text = "".join(piece.text for piece in pieces)
    if tail is None:
        at = text.find("\n") + 1 if is_cut else 0
    else:
        at = len(text) - (text.endswith("\n"))
        for _ in range(tail):
            at = text.rfind("\n", 0, max(at, 0))
            if at < 0:
                break
        if at < 0 and is_cut:
            return None
        at += 1
    return _without(pieces, at)


def _without(pieces: list[JobLog], count: int) -> list[JobLog]:
    """Without so many characters at the beginning."""
    for number, piece in enumerate(pieces):
        if count < len(piece.text) or number == len(pieces) - 1:
            start = (piece.start or 0) + len(piece.text[:count].encode())
            return [changed(piece, start=min(start, piece.next), text=piece.text[count:]), *pieces[number + 1 :]]
        count -= len(piece.text)
    return pieces
