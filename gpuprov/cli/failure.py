"""How every verb ends with an error: the log, the words on stderr, the document on stdout, the exit code."""

from __future__ import annotations

import errno
import re
import tempfile
from typing import TYPE_CHECKING, Any

from gpuprov.cli.session import plain, tell
from gpuprov.core.error_document import error_document, error_parts
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import shorten
from gpuprov.core.exhaustion import explain_exhaustion
from gpuprov.core.names import name_cluster

if TYPE_CHECKING:
    from gpuprov.cli.session import Session, Shown
    from gpuprov.core.errors import GpuprovError

EXIT_UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h: none of the codes that mean something here


def fail(session: Session, error: GpuprovError, *, result: Shown | None = None, text: str = "") -> int:
    """Say what failed and return the exit code.

    Args:
        session: Where it is said.
        error: What failed.
        result: The verb's own document, where there is one in spite of the error, which is put into it.
        text: The same result for people.
    """
    _say_which(session, error)
    if text and not session.as_json:
        session.show({}, text)
    return _end(session, error, error_parts(error), words=str(error), result=result)


def _say_which(session: Session, error: GpuprovError) -> None:
    """Add where the name in question is from, if it was not typed; and name the cluster in the commands of the fix."""
    error.fix = name_cluster(error.fix, session.cluster)
    for name, source in session.implied.items():
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", error.what):
            error.evidence = "; ".join(filter(None, (error.evidence, f"{name} is named by {source}")))


def fail_unexpectedly(session: Session, error: Exception) -> int:
    """What nobody foresaw: one line, and the path of the log with the traceback; or what the host has run out of."""
    exhausted = explain_exhaustion(error, temporary=tempfile.gettempdir()) if isinstance(error, OSError) else None
    if exhausted is not None:
        return fail(session, exhausted)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return fail(session, UsageError("a file name is too long", evidence=str(error), fix="use a shorter name"))
    parts = unexpected_parts(session, error)
    return _end(session, error, parts, words=f"{parts['what']}\n{parts['evidence']}")


def unexpected_parts(session: Session, error: Exception) -> dict[str, Any]:
    """What nobody foresaw, in three parts; the evidence is the log with the traceback."""
    line = str(error).strip().split("\n", maxsplit=1)[0]
    none = "no log could be written; run the command again with sudo"
    return {
        "what": shorten(f"unexpected {type(error).__name__}: {line}"),
        "evidence": f"traceback: {session.log.path}" if session.log.path else none,
        "fix": "report the error and attach that file",
        "exit_code": EXIT_UNEXPECTED,
    }


def _end(
    session: Session,
    error: Exception,
    parts: dict[str, Any],
    *,
    words: str,
    result: Shown | None = None,
) -> int:
    session.log.error(error)
    tell(f"error: {words}\n")
    if session.as_json:
        session.show(error_document(parts) if result is None else {**plain(result), "error": parts}, "")
    return int(parts["exit_code"])
