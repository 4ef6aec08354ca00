"""A site's `sssd.conf` as files of the nodes, and what their image needs for it."""

from __future__ import annotations

import hashlib
from typing import Final

from gpuprov.core.fingerprint import fingerprint
from gpuprov.drivers.base import File
from gpuprov.spec.sssd import complete_sssd

CONF: Final = "/etc/sssd/sssd.conf"
MORE: Final = "/etc/sssd/conf.d/gpuprov.conf"
APPLIED: Final = "/etc/gpuprov/sssd"  # a digest of the others, written last; of none where there is no directory
SERVICE: Final = "sssd"
ASK: Final = "/usr/lib/gpuprov/ask-sssd"


def sssd_files(text: str | None, *, shared: bool) -> tuple[File, ...]:
    """What a node has of a site's directory; where there is none, the mark that says so.

    Args:
        text: The site's sssd.conf, which has no problems; None where the cluster has none.
        shared: Whether the node has the folder that nodes share.
    """
    files: tuple[File, ...] = ()
    if text is not None:
        contents = {CONF: text, MORE: complete_sssd(text, shared=shared)}
        files = tuple(File(path=path, content=said.encode(), mode=0o600) for path, said in contents.items())
    digest = fingerprint({file.path: hashlib.sha256(file.content).hexdigest() for file in files})
    return (*files, File(path=APPLIED, content=f"{digest}\n".encode()))


def is_about_sssd(file: File) -> bool:
    """Whether it is one of these files."""
    return file.path in (CONF, MORE, APPLIED)
