"""The packages of the distribution in an image, as its label records them, and which lack a security update."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.debian_version import older_version

if TYPE_CHECKING:
    from collections.abc import Mapping

# The suite in the first line, then a package in each.
ASK_VERSIONS: Final = (
    '. /etc/os-release && echo "$ID $VERSION_CODENAME" && '
    "dpkg-query --show --showformat '${db:Status-Abbrev} ${Package} ${Version}\\n' | sed -n 's/^ii  *//p'"
)
_MOST_BYTES: Final = 4_000_000


@dataclass(frozen=True, kw_only=True)
class PackageVersions:
    """What dpkg has in an image.

    Attributes:
        suite: Of the distribution, such as bookworm.
        ubuntu: Whether it is Ubuntu's; else it is Debian's.
        versions: Of each package, by name.
    """

    suite: str
    ubuntu: bool
    versions: Mapping[str, str]


def dump_versions(answer: str) -> str:
    """The text of a label, from what a shell in the image answers to ASK_VERSIONS."""
    return base64.b64encode(zlib.compress(answer.encode(), 9)).decode()


def read_versions(label: str) -> PackageVersions | None:
    """Read what `dump_versions` wrote; None for anything else."""
    try:
        reader = zlib.decompressobj()
        answer = reader.decompress(base64.b64decode(label, validate=True), _MOST_BYTES).decode()
        first, *lines = answer.splitlines()
        identity, suite = first.split()
        versions = dict(line.split() for line in lines)
    except (binascii.Error, zlib.error, ValueError):
        return None
    return PackageVersions(suite=suite, ubuntu=identity == "ubuntu", versions=versions) if versions else None


def lacking_updates(installed: Mapping[str, str], published: Mapping[str, str]) -> tuple[str, ...]:
    """The packages of which a newer version was published."""
    common = sorted(installed.keys() & published.keys())
    return tuple(name for name in common if older_version(installed[name], published[name]))
