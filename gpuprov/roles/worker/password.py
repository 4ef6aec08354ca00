"""The password of a cluster's broker: made once, kept in the nodes alone, and brought from node to node."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError
from gpuprov.core.names import name_cluster
from gpuprov.roles.secret_file import SecretFile
from gpuprov.roles.worker.facts import ACCOUNT, BROKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.drivers.base import Driver

_BYTES: Final = 32
_URL: Final = re.compile(rf"amqp://{ACCOUNT}:([0-9a-f]{{{2 * _BYTES}}})@".encode())
BROKER_FILE: Final = SecretFile(path=BROKER, least_bytes=1, most_bytes=4096, pattern=_URL)


def new_password() -> bytes:
    """For a cluster without nodes."""
    return secrets.token_hex(_BYTES).encode()


def read_password(driver: Driver, holders: Sequence[str], *, cluster: str) -> bytes:
    """The password that the first of these nodes has which has one; it is one of ours, or none.

    Raises:
        EngineError: None of the nodes has one.
    """
    found = "no password"
    for holder in holders:
        try:
            content = driver.pull(holder, BROKER, most_bytes=BROKER_FILE.most_bytes)
        except EngineError as error:
            found = error.evidence
            continue
        password = BROKER_FILE.key_in(content)
        if password:
            return password
        found = f"{BROKER} does not begin with the URL of a broker of this cluster"
    again = f"gpuprov cluster down {cluster}; gpuprov cluster up"
    raise EngineError(
        f"{holders[0]} does not have the broker's password, and neither does any other node",
        evidence=found,
        fix=name_cluster(f"create the cluster again; results stay in the shared folder: {again}", cluster),
    )
