"""Bytes in a request, which are in base64 there."""

from __future__ import annotations

import base64

from gpuprov.core.errors import UsageError


def bytes_of(text: str, key: str) -> bytes:
    """What is under a key of a request.

    Raises:
        UsageError: It is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UsageError("the request cannot be served", evidence=f"{key}: {error}", fix="gpuprov host list") from error
