"""Where the page of a cluster's queue can be opened, as `queue page` tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.core.relay import HERE
from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from gpuprov.planes.work.queue_page import QueuePage


def queue_page_document(page: QueuePage, *, port: int, cluster: str, host: str) -> dict[str, Any]:
    """With the password, which a program needs as well."""
    return document(
        "queue-page",
        host=host,
        cluster=cluster,
        node=page.node,
        address=f"http://{HERE}:{port}/",
        user=page.user,
        password=page.password,
    )
