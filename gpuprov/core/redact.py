"""Take secrets out of text that leaves the machine: those that are known, and what looks like one."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "(hidden)"
SHORTEST = 8  # bytes; what is shorter would be found in innocent words
_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|credential)s?"
_NAME = rf"[\w.-]{{0,64}}{_WORDS}[\w.-]{{0,64}}"  # bounded: a long line of a log must not take minutes
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(r"\A(?P<name>(?:--[^=]*=|(?!--))[^=]*=).+", re.DOTALL)  # KEY=, -eKEY=, --env=KEY=; no --option=
_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE), rf"\g<keep>{HIDDEN}@"),
    (re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
    # "name": "value" of JSON, quotes kept; then name=value, name: value and --name value
    (re.compile(rf'(?P<keep>"{_NAME}"\s*:\s*")(?:[^"\\]|\\.)+(?=")', re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
    (
        re.compile(rf"(?P<keep>\b{_NAME}\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s\"',;]+)", re.IGNORECASE),
        rf"\g<keep>{HIDDEN}",
    ),
    (re.compile(rf"(?P<keep>--{_NAME}\s+)(?:'[^']*'|[^\s\"'-][^\s\"']*)", re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
    # tokens that their services gave a mark
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|AKIA)[\w-]{16,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), HIDDEN),
)


def secret_values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Values of the variables whose names say that they are secret."""
    return tuple(value.encode() for name, value in environment.items() if value and _SECRET_NAME.fullmatch(name))


def hide_command(argv: Sequence[str]) -> str:
    """A command in one line, without the values of KEY=VALUE, whatever the key, and what else looks like a secret."""
    return hide_secrets(" ".join(_ASSIGNED.sub(rf"\g<name>{HIDDEN}", word) for word in argv))


def hide_secrets(text: str, known: Iterable[bytes] = ()) -> str:
    """The text with known secrets (as they are, in hexadecimal or base64) and what looks like one replaced.

    Args:
        text: Any text, JSON too, which stays JSON.
        known: Secrets; those of fewer than 8 bytes are not looked for.
    """
    for secret in known:
        for form in _forms(secret):
            text = text.replace(form, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _forms(secret: bytes) -> tuple[str, ...]:
    if len(secret) < SHORTEST:
        return ()
    plain = secret.decode("utf-8", "replace")
    lines = [line for line in plain.splitlines() if len(line) >= SHORTEST and not line.startswith("-----")]
    encoded = base64.b64encode(secret).decode()
    return (plain, *lines, secret.hex(), secret.hex().upper(), encoded, encoded.rstrip("="))
