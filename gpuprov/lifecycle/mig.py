"""`gpuprov host mig apply`: cut this host's GPUs as a file of mig-parted says, where nobody uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.cluster.gpu_board import look_at_gpus
from gpuprov.cluster.leases import Neighbours
from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.core.names import is_run_name, name_of_run
from gpuprov.core.outcome import Outcome
from gpuprov.gpu.allocate import CONTAINERS, Lease, fold_leases
from gpuprov.gpu.mig import HostMig
from gpuprov.gpu.mig_config import MigWish, describe, find_differences, place_parts
from gpuprov.machine.cdi_file import renew_cdi_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.gpu.mig_config import MigGpu
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode

    OpenMig = Callable[[Host, HostGpus], HostMig]

_AGAIN: Final = "sudo gpuprov host mig apply FILE"


def open_mig(host: Host, gpus: HostGpus) -> HostMig:
    """MIG on the GPUs of a host."""
    return HostMig(gpus, host.root)


def apply_mig(
    host: Host,
    mode: GpuMode,
    wishes_of: Callable[[Sequence[MigGpu]], Mapping[int, MigWish]],
    *,
    reporter: Reporter,
    connect: OpenMig = open_mig,
) -> Outcome:
    """Cut each GPU that is not as wanted, one after the other; whatever would refuse it is looked at before.

    Args:
        wishes_of: Says by index how GPUs are to be.
        connect: Reaches NVML.

    Raises:
        HostNotReady: Somebody holds or uses such a GPU, has no MIG, or NVML refuses.
        UsageError: A GPU has no such profile, or no room for the parts.
    """
    with host.lock(reporter):
        gpus = host.gpus(mode)
        mig = connect(host, gpus)
        seen = mig.read()
        wanted = wishes_of(seen)
        differ = [gpu for gpu in seen if gpu.index in find_differences(wanted, seen)]
        for gpu in differ:
            _require_mig(gpu)
            place_parts(gpu, wanted[gpu.index])
        if differ:
            _require_unused(differ, gpus, host)
        changed = tuple(_change(gpu, wanted[gpu.index], mig) for gpu in differ)
        renewed = renew_cdi_file(host, reporter=reporter, mode=mode)
    return Outcome(changed=(*changed, *renewed))


def _require_mig(gpu: MigGpu) -> None:
    if gpu.enabled is None:
        raise HostNotReady(
            f"GPU {gpu.index} has no MIG",
            evidence=gpu.model,
            fix="name the GPUs that have it in `devices`, or their model in `device-filter`",
        )
    if gpu.pending != gpu.enabled:
        raise _needs_reset(gpu, enabled=bool(gpu.pending))


def _needs_reset(gpu: MigGpu, *, enabled: bool) -> HostNotReady:
    return HostNotReady(
        f"MIG of GPU {gpu.index} is {'on' if enabled else 'off'} only after the GPU is reset",
        evidence=f"{gpu.model} does not change its mode at once: a program holds it, such as nvidia_drm or DCGM",
        fix=f"nvidia-smi --gpu-reset -i {gpu.index}, or reboot; then {_AGAIN}",
    )


def _require_unused(differ: Sequence[MigGpu], gpus: HostGpus, host: Host) -> None:
    """No lease, no foreign instance and no process is on any of these; engines that do not respond may hold them."""
    board = look_at_gpus(gpus, Neighbours(host))
    indexes = {gpu.index for gpu in differ}
    held = [row for row in board.rows if row.gpu is not None and row.gpu.index in indexes and row.holders]
    if held:
        row = held[0]
        raise HostNotReady(
            f"GPU {row.gpu.label if row.gpu else row.uuid} is held, so MIG stays as it is",
            evidence=fold_leases(row.holders, Lease.whose),
            fix=f"free it: {_release(row.holders[0])}; then {_AGAIN}",
        )
    if board.silent:
        engine, error = next(iter(board.silent.items()))
        raise HostNotReady(
            f"{engine} does not respond, and its nodes may hold GPUs, so MIG stays as it is",
            evidence=f"{error.what}: {error.evidence}",
            fix=error.fix,
        )
    paths = {f"/dev/nvidia{gpu.minor}" for gpu in gpus.gpus if gpu.index in indexes}
    foreign = next((use for use in board.foreign if paths & set(use.devices)), None)
    if foreign:
        raise HostNotReady(
            f"{foreign.node} can open a GPU, so MIG stays as it is", evidence=str(foreign), fix=foreign.stop
        )
    used = next((gpu for gpu in differ if gpu.processes), None)
    if used:
        pids = ",".join(map(str, used.processes))
        raise HostNotReady(
            f"GPU {used.index} is used by processes, so MIG stays as it is",
            evidence=f"process {pids}",
            fix=f"ps -fp {pids}    # end them, then {_AGAIN}",
        )


def _release(holder: Lease) -> str:
    """What removes a holder."""
    if holder.cluster == CONTAINERS:
        return f"{holder.engine} rm -f {holder.node}"
    if is_run_name(holder.node):
        return f"gpuprov run rm --force {name_of_run(holder.node)}"
    return f"gpuprov rm {holder.node}"


def _change(gpu: MigGpu, wish: MigWish, mig: HostMig) -> str:
    """Cut one GPU anew; where a part cannot be made, those that were there are there again."""
    before = MigWish(enabled=bool(gpu.enabled), devices=gpu.devices)
    if gpu.parts:
        mig.clear(gpu.index)
    if gpu.enabled != wish.enabled and not mig.set_mode(gpu.index, enabled=wish.enabled):
        raise _needs_reset(gpu, enabled=wish.enabled)
    try:
        _create(gpu.index, wish, mig)
    except GpuprovError as error:
        raise HostNotReady(
            error.what,
            evidence=f"{error.evidence}; GPU {gpu.index} {_restore(gpu.index, before, mig)}",
            fix=error.fix,
        ) from error
    was, now = describe(enabled=before.enabled, devices=before.devices), str(wish)
    return f"changed GPU {gpu.index} from {was} to {now}"


def _create(index: int, wish: MigWish, mig: HostMig) -> None:
    """Place and make the parts; where they can be is known only once MIG is on."""
    if not wish.devices:
        return
    parts = place_parts(_read_one(index, mig), wish)
    if parts is None:
        raise HostNotReady(f"NVML does not say where GPU {index} can be cut", fix="nvidia-smi mig -lgipp")
    mig.create(index, parts)


def _restore(index: int, before: MigWish, mig: HostMig) -> str:
    try:
        mig.clear(index)
        if _read_one(index, mig).enabled != before.enabled:
            mig.set_mode(index, enabled=before.enabled)
        _create(index, before, mig)
    except GpuprovError as error:
        return f"could not be brought back to {before}: {error.evidence}"
    return f"is again as it was: {before}"


def _read_one(index: int, mig: HostMig) -> MigGpu:
    return next(gpu for gpu in mig.read() if gpu.index == index)
