"""The page of the queue: what Flower reads, and the password that it asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.services import status_command
from gpuprov.core.errors import EngineError
from gpuprov.core.names import name_cluster
from gpuprov.roles.secret_file import SecretFile
from gpuprov.roles.work.queue_page import QueuePage
from gpuprov.roles.worker.facts import FLOWER, PAGE_DIGITS, PAGE_PORT, PAGE_SERVICE, PAGE_USER

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

_LINE: Final = re.compile(rb'(?s:.*?)^basic_auth = \["gpuprov:([0-9a-f]{32})"\]$', re.MULTILINE)
PAGE_FILE: Final = SecretFile(path=FLOWER, least_bytes=PAGE_DIGITS, most_bytes=4096, pattern=_LINE)


def read_page(driver: Driver, node: str, *, cluster: str) -> QueuePage:
    """The page that a node shows; its password is one of ours, or none.

    Raises:
        EngineError: The node has no such file.
    """
    found = f"{FLOWER} has no password of gpuprov's"
    try:
        key = PAGE_FILE.key_in(driver.pull(node, FLOWER, most_bytes=PAGE_FILE.most_bytes))
    except EngineError as error:
        key, found = None, error.evidence
    if key is None:
        fix = name_cluster("write the file again: gpuprov cluster up", cluster)
        raise EngineError(f"{node} has no page of the queue", evidence=found, fix=fix)
    return QueuePage(
        node=node,
        port=PAGE_PORT,
        user=PAGE_USER,
        password=key.decode(),
        fix=status_command(driver, node, PAGE_SERVICE),
    )
