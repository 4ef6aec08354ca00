"""Where the URL of the workers' broker is, and what kombu is told of such a broker.

It has a password in it: it is no argument and not in the environment.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, Final

from gpuwork.errors import BrokerError
from gpuwork.untrusted_files import read_limited

BROKER: Final = Path("/etc/gpuwork/broker")
_MOST_BYTES: Final = 4096
_URL: Final = re.compile(r"[a-z][a-z0-9.+-]{0,60}://[!-~]{0,2000}")
_REDIS: Final = ("redis", "rediss", "sentinel")
_KEPT_S: Final = 365 * 24 * 3600


def transport_options(url: str) -> dict[str, Any]:
    """What kombu is told beside the URL; each transport knows its own options."""
    scheme = url.partition("://")[0]
    if "amqp" in scheme:
        return {"confirm_publish": True}
    if scheme in _REDIS:  # longer than any run: after this time it delivers again what somebody is at
        return {"visibility_timeout": _KEPT_S}
    return {}


def read_broker(file: Path) -> str:
    """The URL in a file, which has one line.

    Raises:
        BrokerError: There is none; the message does not show what is there instead.
    """
    content = read_limited(file, limit=_MOST_BYTES)
    url = (content or b"").decode(errors="replace").strip()
    if not _URL.fullmatch(url):
        raise BrokerError(
            "the broker of the workers is not known",
            evidence=f"{file} " + ("cannot be read" if content is None else "is not one line with a URL"),
            fix=f"ls -l {file}",
        )
    if file.stat().st_mode & stat.S_IROTH:
        raise BrokerError(
            "the broker's password is not protected",
            evidence=f"{file} can be read by all accounts",
            fix=f"chmod 600 {file}; and change the password",
        )
    return url
