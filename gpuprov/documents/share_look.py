"""What a host sees of a shared folder, as it tells another host, and as that reads it back strictly."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuprov.cluster.share_look import ShareLook
from gpuprov.core.answer_kinds import fields_of, is_bool, is_string, matches, number_in, text_of
from gpuprov.documents.envelope import document
from gpuprov.documents.member_answers import strictly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

_SCHEMA: Final = "gpuprov.share-look/v1"
_USER: Final = number_in(0, 2**32)
_KINDS: Final[Mapping[str, Accepts]] = {
    "kind": matches(re.compile("absent|folder|file|link|hidden")),
    "at": text_of(4096),
    "owner": _USER,
    "account": _USER,
    "filesystem": text_of(4096),
    "mark": text_of(200),
    "empty": is_bool,
}


def share_look_document(look: ShareLook, *, host: str) -> dict[str, Any]:
    """What `read_share_look` reads; for other hosts alone."""
    return document("share-look", host=host, **asdict(look))


def read_share_look(told: Mapping[str, Any], *, host: str) -> ShareLook:
    """The answer to `share`.

    Raises:
        HostNotReady: It is none.
    """

    def read() -> ShareLook:
        kinds = {"host": is_string, **_KINDS}
        values = dict(zip(kinds, fields_of(told, _SCHEMA, kinds), strict=True))
        values.pop("host")
        return ShareLook(**values)

    return strictly(read, host)
