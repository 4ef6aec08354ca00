"""A start of a container that the policy touches: what the policy makes of it, or why it refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.runtime.edit import take_back
from gpuprov.runtime.follow import follow_rules, lacking_mounts
from gpuprov.runtime.judge import judge, require_allowed
from gpuprov.runtime.rules import read_rules
from gpuprov.runtime.surroundings import observe_surroundings
from gpuprov.runtime.targets import make_folders, make_targets

if TYPE_CHECKING:
    from gpuprov.runtime.request import Spec
    from gpuprov.runtime.rules import PolicyMount, Rules


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A container as the policy wants it.

    Attributes:
        spec: Its config.json.
        mounts: That it gets.
        refusal: Why it is not started; None where it is.
    """

    rules: Rules
    spec: Spec
    mounts: tuple[PolicyMount, ...] = ()
    refusal: GpuprovError | None = None

    def is_done(self, found: Spec) -> bool:
        """Whether the policy has nothing against what was found, and nothing to do."""
        return self.refusal is None and self.spec == found and not self.rules.remove

    def carry_out(self, rootfs: Path) -> Spec:
        """Make places for its mounts, and hand over what is to be written.

        Raises:
            GpuprovError: The policy refuses it, or there can be no such place.
        """
        if self.refusal is not None:
            raise self.refusal
        for mount in self.mounts:
            source = Path(mount.source)
            if not source.exists():
                raise HostNotReady(
                    f"the policy mounts {mount.source}, which is not there",
                    evidence=f"at {mount.target}",
                    fix=f"ls -ld {mount.source}; gpuprov gate status",
                )
            (make_folders if source.is_dir() else make_targets)(rootfs, [mount.target])
        return self.spec


def plan_start(found: Spec, *, folder: Path, container: str, data_root: str, bundle: Path) -> Plan:
    """Judge a container, and have it follow the policy; what an earlier start added is taken back before.

    Args:
        found: Its config.json.
        folder: Of the runtime's own files.
        container: Its id.
        data_root: The folder of the daemon's volumes.
        bundle: The folder of config.json.

    Raises:
        HostNotReady: The policy cannot be read.
    """
    rules = read_rules(folder)
    plain = take_back(found)
    allowed = rules.refuse.mounts_outside or ()
    around = observe_surroundings(plain, container=container, data_root=data_root, allowed=allowed, bundle=bundle)
    try:
        require_allowed(judge(plain, rules.refuse, around))
        return Plan(rules=rules, spec=follow_rules(plain, rules)[0], mounts=lacking_mounts(plain, rules))
    except GpuprovError as error:
        return Plan(rules=rules, spec=plain, refusal=error)
