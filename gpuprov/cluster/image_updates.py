"""Which images lack security updates, by what dpkg had in them and what the distribution has published since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.excerpt import few
from gpuprov.drivers.base import LABEL_PACKAGES
from gpuprov.provision.package_versions import lacking_updates, read_versions
from gpuprov.provision.security_index import read_index

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.engine import ImageState

REFRESH: Final = "sudo gpuprov host prepare --refresh"
DAY_S: Final = 24 * 3600.0
STALE_S: Final = 7 * DAY_S
_NAMED: Final = 5


@dataclass(frozen=True, kw_only=True)
class ImageUpdates:
    """The security updates of an image.

    Attributes:
        state: Whether it has all that were published; `unknown` if that cannot be determined.
        recorded: Whether the image says what is in it, as those of an earlier gpuprov do not.
        lacking: The packages that have an update.
        looked: When somebody last looked what was published, in seconds since the epoch; None for never.
    """

    state: Literal["current", "lacking", "unknown"]
    recorded: bool = True
    lacking: tuple[str, ...] = ()
    looked: float | None = None

    def describe(self) -> str:
        """The cell of a table."""
        return f"lacks {len(self.lacking)}" if self.lacking else self.state


def updates_of(image: ImageState, cache: Path) -> ImageUpdates:
    """What an image lacks of the updates that were published when somebody last looked."""
    packages = read_versions(image.labels.get(LABEL_PACKAGES, ""))
    index = read_index(packages.suite, cache) if packages else None
    if packages is None or index is None:
        return ImageUpdates(state="unknown", recorded=packages is not None)
    lacking = lacking_updates(packages.versions, index.versions)
    return ImageUpdates(state="lacking" if lacking else "current", lacking=lacking, looked=index.fetched)


def update_notes(found: Sequence[ImageUpdates], now: float) -> tuple[str, ...]:
    """What to do about images that lack updates, or of which nobody knows."""
    notes = []
    lacking = sorted({package for updates in found for package in updates.lacking})
    if lacking:
        count = sum(updates.state == "lacking" for updates in found)
        notes.append(
            f"{count} of {len(found)} images lack security updates ({few(lacking, _NAMED)}); to build a new one: "
            "gpuprov image build --refresh"
        )
    earlier = sum(not updates.recorded for updates in found)
    if earlier:
        notes.append(f"{earlier} of {len(found)} images are of an earlier gpuprov and do not say what they have")
    if any(updates.state == "unknown" and updates.recorded for updates in found):
        notes.append(f"unknown: security updates of the image's suite were never fetched: {REFRESH}")
    looked = min((updates.looked for updates in found if updates.looked is not None), default=None)
    if looked is not None and now - looked >= STALE_S:
        notes.append(f"security updates were last looked for {(now - looked) / DAY_S:.0f} days ago: {REFRESH}")
    return tuple(notes)
