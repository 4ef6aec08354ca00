"""What a role adds to a node image; apart from the recipe itself, which tables of nodes do not need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.spec.sssd import LABEL_SSSD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.assets import Brought

Init = Literal["systemd", "runit"]

# What workers need; tzdata, because an image has no time zones and kombu asks for UTC.
SHAPES = "msgspec>=0.20,<1"  # what gpuwork reads and writes is made with it
_SSSD: Final = "sssd"
_SSSD_PACKAGES: Final = ("libnss-sss", "libpam-sss", "sssd-common", "sssd-krb5", "sssd-ldap")
WORKERS = ("celery>=5.7,<6", "tzdata", SHAPES)


@dataclass(frozen=True, kw_only=True)
class RoleRecipe:
    """What a role adds to the image of its nodes.

    Attributes:
        roles: Ansible roles, after the common ones.
        packages: Debian packages besides those that its roles install.
        templates: Folders of gpuprov's templates that the roles read.
        brings: Packages of gpuprov's that the roles install, besides the smoke kernels.
        requirements: Python packages, as pip writes them, besides CUDA's.
        with_init: Those of the roles whose tasks depend on what starts the services of a node.
        given: Other variables of roles, by role.
        labels: Of the image: each with the shell line that prints its value in the builder.
    """

    roles: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    brings: tuple[Brought, ...] = ()
    requirements: tuple[str, ...] = ()
    with_init: tuple[str, ...] = ()
    given: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def variables(self, init: Init) -> dict[str, Mapping[str, object]]:
        """Of these roles, by role, for nodes with that init."""
        return {**{role: {f"{role}_init": init} for role in self.with_init}, **self.given}

    def extended(self, role: str, packages: Sequence[str], *, labels: Mapping[str, str] | None = None) -> RoleRecipe:
        """The same with one more Ansible role, whose tasks depend on what starts the services of a node."""
        return replace(
            self,
            roles=(*self.roles, role),
            packages=(*self.packages, *packages),
            with_init=(*self.with_init, role),
            labels={**self.labels, **(labels or {})},
        )


def with_sssd(recipe: RoleRecipe) -> RoleRecipe:
    """The same for a cluster that has a site's directory; packages of other providers than these are in its spec."""
    return recipe.extended(_SSSD, _SSSD_PACKAGES, labels={LABEL_SSSD: f"echo {_SSSD}"})
