"""What an image is made of before there is a builder: its base and its wheels, fetched side by side, and kept."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.follower import Follower
from gpuprov.provision.progress import hear_pip
from gpuprov.provision.rootfs import ensure_rootfs
from gpuprov.provision.wheels import ensure_wheels
from gpuprov.spec.suites import python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.provision.recipe import Recipe


class ImageParts:
    """The parts of one recipe's image, in a cache.

    Args:
        recipe: Of the image.
        cache: Where they are kept.
        reporter: Is told how far they are.
        rootfs: Makes a base.
        wheels: Fetches wheels.
    """

    def __init__(
        self,
        recipe: Recipe,
        cache: Path,
        reporter: Reporter,
        *,
        rootfs: Callable[..., Path] = ensure_rootfs,
        wheels: Callable[..., list[Path]] = ensure_wheels,
    ) -> None:
        self.recipe = recipe
        self._cache = cache
        self.reporter = reporter
        self._rootfs = rootfs
        self._wheels = wheels

    def base(self, stop: threading.Event | None = None) -> Path:
        """The root file system of a suite, with what the roles would install."""
        tell = partial(self.reporter.node, "packages")
        return self._rootfs(self.recipe.rootfs, cache=self._cache, tell=tell, stop=stop)

    def early_wheels(self, stop: threading.Event) -> list[Path]:
        """Those of the base's Python; none where that is not known before there is a node to ask."""
        python = python_of(self.recipe.base)
        return self.wheels(python, stop) if python else []

    def wheels(self, python: str, stop: threading.Event | None = None) -> list[Path]:
        """Those of a Python."""

        def hear(lines: Sequence[str]) -> None:
            state = hear_pip(lines)
            if state:
                self.reporter.node("wheels", state)

        follower = Follower(hear=hear, stop=stop or threading.Event())
        return self._wheels(self.recipe.requirements, python=python, cache=self._cache, follower=follower)
