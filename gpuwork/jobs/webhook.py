"""Posts the JSON document on stdin to a URL. A process of its own, so that a time limit covers all of it."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

_SILENCE_S: Final = 10.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a POST would become a GET, perhaps of another scheme."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401  (as urllib has it)
        """None: the answer counts as an error."""


def main(url: str) -> None:
    """The program; why it failed is its last line."""
    asked = urllib.request.Request(  # noqa: S310  (the scheme was checked)
        url, data=sys.stdin.buffer.read(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        urllib.request.build_opener(_NoRedirect).open(asked, timeout=_SILENCE_S).close()
    except urllib.error.HTTPError as error:
        sys.exit(f"the answer was {error.code} {error.reason}")
    except (OSError, HTTPException, ValueError) as error:
        sys.exit(f"no answer: {getattr(error, 'reason', error)}")
