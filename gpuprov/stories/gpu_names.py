"""Short names of GPUs, as people know them from `gpuprov gpus` and /dev: `nvidia0`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpuprov.fleet.fleet import Fleet
    from gpuprov.machine.base import Host


def name_gpus(uuids: Collection[str], fleet: Fleet) -> Mapping[str, str]:
    """The names of some GPUs, by UUID; hosts are asked only for those that this machine does not have.

    Args:
        uuids: Of GPUs or MIG instances.
        fleet: Where they may be.
    """
    names = _names_here(fleet.here)
    if fleet.others and not names.keys() >= set(uuids):
        from gpuprov.fleet.questions.gpus import GPUS
        from gpuprov.shapes.orders import GpusOrder

        for board in fleet.ask(GPUS, GpusOrder(mode="auto")).answers.values():
            names |= {held.uuid: f"nvidia{held.minor}" for held in board.gpus if held.minor is not None}
    return names


def _names_here(host: Host) -> dict[str, str]:
    try:
        return {gpu.uuid: f"nvidia{gpu.minor}" for gpu in host.all_gpus("auto").units}
    except GpuprovError:  # a table has other names for them
        return {}
