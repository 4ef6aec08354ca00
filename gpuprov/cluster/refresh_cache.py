"""What images are built from, made anew before it is a week old, and what the distribution has published since."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from gpuprov.cluster.build_image import FRESH_TOOLS
from gpuprov.cluster.image_parts import ImageParts
from gpuprov.core.errors import GpuprovError
from gpuprov.provision.cache_age import forget_older
from gpuprov.provision.kept_bases import suites_of
from gpuprov.provision.rootfs import default_cache
from gpuprov.provision.security_index import fetch_index
from gpuprov.spec.suites import SUITES

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.cluster.build_image import BuildTools
    from gpuprov.core.reporter import Reporter
    from gpuprov.machine.base import Host
    from gpuprov.provision.recipe import Recipe


def refresh_cache(
    recipe: Recipe, host: Host, *, reporter: Reporter, cache: Path | None = None, tools: BuildTools = FRESH_TOOLS
) -> tuple[str, ...]:
    """Make the parts of a recipe's image anew; what else is in the cache is made again when a build needs it.

    Nothing old goes before the new is there.

    Returns:
        What was changed.

    Raises:
        HostNotReady: The distribution's mirror or the package index failed; what was there is kept.
    """
    folder, began = cache or default_cache(), time.time()
    parts = ImageParts(recipe, folder, reporter, rootfs=tools.rootfs, wheels=tools.wheels)
    with host.image_lock(reporter), reporter.phase("refresh"):
        fetch_index(recipe.base, ubuntu=SUITES[recipe.base].ubuntu, cache=folder)
        for suite in sorted(suites_of(folder) - {recipe.base}):
            look_for_updates(suite, reporter=reporter, cache=folder)
        wheels = parts.early_wheels(threading.Event())
        base = parts.base()
        removed = forget_older(folder, began, keep={wheel.parent for wheel in wheels})
    changed = ("fetched the lists of security updates", f"built {base.name}")
    return (*changed, *(f"removed {name}" for name in removed))


def look_for_updates(base: str, *, reporter: Reporter, cache: Path | None = None) -> None:
    """Fetch the list of security updates of a suite; where that fails, say so: an image is as good without."""
    suite = SUITES.get(base)
    if suite is None:
        return
    try:
        fetch_index(base, ubuntu=suite.ubuntu, cache=cache or default_cache())
    except GpuprovError as error:
        reporter.note(f"{error.what}; `image list` compares with an older list, if there is one")
