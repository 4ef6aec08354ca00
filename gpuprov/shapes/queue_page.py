"""Where the page of a cluster's queue can be opened."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Document
from gpuprov.shapes.words import HostName, Word


class QueuePage(Document, frozen=True, kw_only=True, tag="gpuprov.queue-page/v1"):
    """What `gpuprov queue page` prints as soon as the page can be opened.

    Attributes:
        host: Name of the host.
        node: That shows the page.
        address: Can be opened on this host, until the command is ended.
        user: Of the page, for HTTP basic authentication.
    """

    host: HostName
    cluster: HostName
    node: HostName
    address: Annotated[str, Meta(pattern=r"^http://127[.]0[.]0[.]1:[0-9]{1,5}/\Z")]
    user: Word
    password: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
