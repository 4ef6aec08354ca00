"""A value on the command line, read as YAML 1.2 reads a scalar: a number, true, false, null, or text."""

from __future__ import annotations

from typing import Final

from gpuprov.core.errors import UsageError
from gpuprov.shapes.scalar import read_scalar

_QUOTES: Final = ("'", '"')


def parse_scalar(text: str) -> bool | int | float | str | None:
    """The value; text in quotes is text, whatever stands in them.

    Raises:
        UsageError: The quotes are not closed, or the number is too large.
    """
    if text.startswith(_QUOTES):
        return _unquoted(text)
    value = read_scalar(text)
    if value in (float("inf"), float("-inf")):
        raise UsageError(f"{text:.80} is too large for a number", evidence="at most 1.8e308", fix=f"'\"{text:.80}\"'")
    return value


def _unquoted(text: str) -> str:
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        value = None
    if not isinstance(value, str):
        raise UsageError(
            f"{text[:80]!r} begins with a quote, but is not text in quotes",
            evidence="allowed: 'text' or \"text\" as YAML has it",
            fix="quote the quotes: NAME='\"text\"'",
        )
    return value
