"""Nodes for whatever their user does with them: nothing hands them work."""

from __future__ import annotations

from gpuprov.roles.base import Role


class PlainRole(Role):
    """A node with its GPUs, its networks and the smoke kernels, and no service of gpuprov's."""

    name = "plain"
    title = "plain"
