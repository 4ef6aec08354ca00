"""The settings of a user: what verbs are about where nothing else is said."""

from __future__ import annotations

from gpuprov.shapes.base import Shape
from gpuprov.shapes.choices import Engine
from gpuprov.shapes.cluster_spec import ClusterName


class Settings(Shape, frozen=True, kw_only=True):
    """What a settings file may say."""

    engine: Engine | None = None
    cluster: ClusterName | None = None
