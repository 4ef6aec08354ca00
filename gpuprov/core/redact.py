"""Take secrets out of text that leaves the machine: those that are known, and what looks like one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

HIDDEN = "(hidden)"
SHORTEST = 8  # bytes; what is shorter would be found in innocent words
_PART = r"[\w.-]{0,64}"  # bounded: a long line of a log must not take minutes
_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|credential)s?"
# Secret at a name's end only (DB_PASS, PGPASS, MYSQL_PWD, SIGNING_KEY), and neither a shell's PWD nor a `bypass`.
_ENDS = (
    r"(?:(?<=[_.-])(?:pass|pwd)"
    r"|(?-i:(?<=[A-Z0-9])(?:(?<!BY)(?<!COM)PASS|(?<!OLD)PWD)|(?<=_)KEY|(?<![\w.-])PASS(?==|\Z)))"
)
_NAME_END = rf"(?:{_WORDS}{_PART}|{_ENDS})"  # from the word that makes it secret; what is before need not be matched
_NAME = rf"{_PART}{_NAME_END}"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
# KEY=, -eKEY=, --env=KEY=; no --option=
_ANY_ASSIGNMENT = re.compile(r"\A(?P<name>(?:--[^=]*=|(?!--))[^=]*=).+", re.DOTALL)
_SECRET_OPTION = re.compile(rf"--{_NAME}", re.IGNORECASE)
_ASSIGNED = rf"(?:--[\w-]{{1,64}}=)?{_NAME}="  # --env=NAME= too
_ASSIGNMENT = re.compile(rf"(?P<keep>{_ASSIGNED}).+", re.IGNORECASE | re.DOTALL)
_IN_SINGLE = r"[^']*(?:'\"'\"'[^']*)*"  # of a shell's word, which may hold a quote as '"'"'
_IN_DOUBLE = r'(?:[^"\\]|\\.)*'
_IN_INNER = r'(?:[^"\\]|\\\\(?:\\["\\]|[^"\\]))*'  # of a string of JSON that is itself a string of JSON


@cache  # most runs write nothing in which they would be looked for
def _patterns() -> tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    """What looks like a secret in text, each with what is put in its place."""
    return (
        (
            re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
            HIDDEN,
        ),
        (re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]{0,31}://)[^\s/@]+@", re.IGNORECASE), rf"\g<keep>{HIDDEN}@"),
        (re.compile(r"(?P<keep>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
        # "name": "value" of JSON, quotes kept; then 'name=value', "name=value" and \\"name=value\\", which end with
        # their quote; a line that is name=value; name=value, name: value and --name value in the midst of text
        (re.compile(rf'(?P<keep>"{_NAME}"\s*:\s*"){_IN_DOUBLE}(?=")', re.IGNORECASE | re.DOTALL), rf"\g<keep>{HIDDEN}"),
        (re.compile(rf"(?P<keep>'{_ASSIGNED}){_IN_SINGLE}(?=')", re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
        # also without its end: if every start looked for an end in vain, a long line would take hours
        (re.compile(rf'(?P<keep>\\"{_ASSIGNED}){_IN_INNER}', re.IGNORECASE), rf"\g<keep>{HIDDEN}"),
        (
            re.compile(rf'(?P<keep>(?<!\\)"{_ASSIGNED}){_IN_DOUBLE}(?=")', re.IGNORECASE | re.DOTALL),
            rf"\g<keep>{HIDDEN}",
        ),
        (
            re.compile(
                rf"(?P<keep>^[ \t]*(?:- |export )?{_NAME}=)(?:'{_IN_SINGLE}'|\"{_IN_DOUBLE}\")?[^\r\n]*",
                re.IGNORECASE | re.MULTILINE,
            ),
            rf"\g<keep>{HIDDEN}",
        ),
        (
            re.compile(
                rf"(?P<keep>{_NAME_END}'?\s*[=:]\s*)(?:'{_IN_SINGLE}'|\"{_IN_DOUBLE}\"|(?:[^\s\"'\\]|\\[^\s\"'])+)",
                re.IGNORECASE,
            ),
            rf"\g<keep>{HIDDEN}",
        ),
        (
            re.compile(rf"(?P<keep>(?<![\w.-])--{_NAME}\s+)(?:'{_IN_SINGLE}'|[^\s\"'-][^\s\"']*)", re.IGNORECASE),
            rf"\g<keep>{HIDDEN}",
        ),
        # tokens that their services gave a mark
        (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|AKIA)[\w-]{16,}"), HIDDEN),
        # the first part is consumed also where the others are missing, so that no other match begins within it
        (
            re.compile(r"\beyJ[\w-]{10,}(?P<rest>\.[\w-]{10,}\.[\w-]*)?"),
            lambda found: HIDDEN if found["rest"] else found[0],
        ),
    )


# Nothing above is found in so short a text that has neither a space nor a colon nor a `=`: most words of commands.
_HARMLESS = re.compile(r"[^\s:=]{0,15}")
# Nor in a text that has none of these, of which one is in whatever the patterns find: most lines of logs. They are
# folded, and those that a pattern finds in any case have no `i`, of which it knows one more than folding does.
_SUSPICIOUS = (
    *("token", "secret", "pass", "pwd", "key", "credent", "://", "bearer", "bas"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hub_pat_", "glpat-", "hf_", "xox", "akia", "eyj"),
)


def is_secret(name: str) -> bool:
    """Whether the name of a variable or key says that its value is secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def secret_values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Values of the variables whose names say that they are secret."""
    return tuple(value.encode() for name, value in environment.items() if value and is_secret(name))


def hide_command(argv: Sequence[str]) -> str:
    """A command in one line, without the values of KEY=VALUE, whatever the key, and what else looks like a secret."""
    return " ".join(hide_in_words(_ANY_ASSIGNMENT.sub(rf"\g<name>{HIDDEN}", word) for word in argv))


def hide_secrets(text: str, known: Iterable[bytes] = (), *, keys: Iterable[bytes] = ()) -> str:
    """The text with known secrets (as they are, quoted, in hexadecimal or base64) and what looks like one replaced.

    Args:
        text: Any text, JSON too, which stays JSON.
        known: Secrets, of which each line is looked for as well; those of fewer than 8 bytes are not looked for.
        keys: Binary secrets, which have no lines: who could choose one could otherwise have any text hidden.
    """
    secrets = tuple(known)
    forms = {form for secret in (*secrets, *keys) for form in _forms(secret)}
    forms |= {form for secret in secrets for line in _lines(secret) for form in _quoted(line)}
    for form in sorted(forms, key=lambda form: (-len(form), form)):  # one may begin with another
        text = text.replace(form, HIDDEN)
    if _HARMLESS.fullmatch(text):
        return text
    folded = text.casefold()
    if not any(mark in folded for mark in _SUSPICIOUS):
        return text
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


def hide_in_words(words: Iterable[str]) -> list[str]:
    """A command's arguments without secrets: an argument NAME=VALUE ends with the argument, whatever its value is."""
    hidden, follows = [], False
    for word in words:
        hidden.append(HIDDEN if follows else _hide_in_word(word))
        follows = _SECRET_OPTION.fullmatch(word) is not None
    return hidden


def hide_in_document(document: object) -> object:
    """A document as JSON has them without secrets, also those in strings that are documents themselves.

    What is below a secret name is hidden whatever it is; strings that are NAME=VALUE are as in `hide_in_words`.
    """
    if isinstance(document, str):
        return _hide_in_string(document)
    if isinstance(document, Mapping):
        return {key: (_hide_all if is_secret(str(key)) else hide_in_document)(part) for key, part in document.items()}
    if isinstance(document, (list, tuple)):
        return [hide_in_document(part) for part in document]
    return document


def _hide_all(document: object) -> object:
    if isinstance(document, Mapping):
        return {key: _hide_all(part) for key, part in document.items()}
    if isinstance(document, (list, tuple)):
        return [_hide_all(part) for part in document]
    return HIDDEN if isinstance(document, str) and document else document


def _hide_in_string(text: str) -> str:
    if text.startswith(("{", "[")):
        try:
            document = json.loads(text)
            hidden = hide_in_document(document)
            return text if hidden == document else json.dumps(hidden, separators=(",", ":"))
        except (ValueError, RecursionError):  # no JSON, or nested so deeply that nobody wrote it to be read
            return _hide_in_word(text)
    return _hide_in_word(text)


def _hide_in_word(word: str) -> str:
    assigned = _ASSIGNMENT.fullmatch(word)
    return assigned["keep"] + HIDDEN if assigned else hide_secrets(word)


def _forms(secret: bytes) -> Iterator[str]:
    """How the secret may stand in text as a whole: plain, quoted or encoded."""
    if len(secret) < SHORTEST:
        return
    yield from _quoted(secret.decode("utf-8", "replace"))
    encoded = base64.b64encode(secret).decode()
    yield from (secret.hex(), secret.hex().upper(), encoded, encoded.rstrip("="))


def _lines(secret: bytes) -> list[str]:
    """The lines of a secret that are not the frame of a key."""
    lines = secret.decode("utf-8", "replace").splitlines()
    return [line for line in lines if len(line) >= SHORTEST and not line.startswith("-----")]


def _quoted(text: str) -> Iterator[str]:
    """The text plain, and as shell, Python and JSON (in JSON) quote it."""
    yield from (text, text.replace("'", "'\"'\"'"), repr(text)[1:-1])
    for quoted in (text, json.dumps(text)[1:-1]):
        yield json.dumps(quoted)[1:-1]
        yield json.dumps(quoted, ensure_ascii=False)[1:-1]
