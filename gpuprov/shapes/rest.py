"""Where Slurm's REST API is, and a token for it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Document
from gpuprov.shapes.words import HostName, Word

# A token of Slurm's: three parts in base64
TokenText = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,2000}(\.[A-Za-z0-9_-]{1,2000}){2}\Z")]


class RestShown(Document, frozen=True, kw_only=True, tag="gpuprov.rest/v1"):
    """What `gpuprov rest` prints as soon as the API can be asked.

    Attributes:
        host: Name of the host.
        node: That serves it.
        address: Can be asked on this host, until the command is ended.
        account: Whose tokens are: the value of the header X-SLURM-USER-NAME.
    """

    host: HostName
    cluster: HostName
    node: HostName
    address: Annotated[str, Meta(pattern=r"^http://127[.]0[.]0[.]1:[0-9]{1,5}/\Z")]
    account: Word


class Token(Document, frozen=True, kw_only=True, tag="gpuprov.token/v1"):
    """What `gpuprov token --json` prints.

    Attributes:
        host: Name of the host.
        account: Whose it is: the value of the header X-SLURM-USER-NAME.
        lifespan_s: For how many seconds it is good.
        token: The value of the header X-SLURM-USER-TOKEN.
    """

    host: HostName
    cluster: HostName
    account: Word
    lifespan_s: Annotated[int, Meta(ge=1)]
    token: TokenText
