"""Answers of an engine that did not come, or not whole: why, in the words of who saw it, and what had come of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.excerpt import excerpt
from gpuprov.core.silence_limit import more_patience, silence_limit_s

if TYPE_CHECKING:
    from collections.abc import Iterator

_AGAIN = "then run the same command again"


@contextmanager
def lost_answers(engine: str, request: str, *, limit_s: float | None = None) -> Iterator[None]:
    """Translate what requests and urllib3 raise in the block.

    Args:
        engine: Which is asked.
        request: What it is asked, in words.
        limit_s: How long it may say nothing; None for the usual limit.

    Raises:
        TimedOut: It said nothing for so long.
        EngineError: It went away, or said something else than was asked for.
    """
    import requests
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (requests.RequestException, HTTPError) as error:
        raise _explain(engine, request, error, limit_s) from error


def _explain(engine: str, request: str, error: Exception, limit_s: float | None) -> GpuprovError:
    import requests
    from urllib3.exceptions import ReadTimeoutError

    check = f"check whether the daemon is running: gpuprov doctor --engine {engine}"
    if isinstance(error, requests.exceptions.JSONDecodeError):
        return EngineError(
            f"{engine} did not answer in JSON: {request}",
            evidence=f"{error.msg}: {excerpt(error.doc) or 'an empty answer'}",
            fix=f"{check}; {_AGAIN}",
        )
    if isinstance(error, (requests.ReadTimeout, ReadTimeoutError)) or "Read timed out" in str(error):
        usual = f"; {more_patience(silence_limit_s())}" if limit_s is None else ""
        return TimedOut(
            f"{engine} did not respond within {limit_s or silence_limit_s():g} s: {request}",
            evidence=str(error),
            fix=f"{check}; {_AGAIN}{usual}",
        )
    return EngineError(
        f"the connection to {engine} was lost during {request}",
        evidence=str(error) or type(error).__name__,
        fix=f"{check}; {_AGAIN}",
    )


def require_document(said: Any, *keys: str, engine: str, request: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """What an engine answered, which has these keys.

    Raises:
        EngineError: It has not; the evidence is what was said.
    """
    if isinstance(said, dict) and all(key in said for key in keys):
        return said
    raise EngineError(
        f"{engine} gave an answer that gpuprov does not understand: {request}",
        evidence=f"it lacks {', '.join(keys)}: {excerpt(str(said))}",
        fix=f"check the version of {engine}: gpuprov doctor --engine {engine}",
    )
