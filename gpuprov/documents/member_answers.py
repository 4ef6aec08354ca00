"""What the gpuprov of another host answers, read back strictly: a document of the right version may still be wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpuprov.cluster.foreign_gpus import ForeignUse
from gpuprov.cluster.gpu_board import GpuBoard
from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    is_list,
    is_string,
    items_of,
    matches,
    number_in,
    or_none,
    pick,
    text_of,
)
from gpuprov.core.errors import GpuprovError, HostNotReady
from gpuprov.core.excerpt import excerpt
from gpuprov.gpu.allocate import Lease
from gpuprov.gpu.lost import LostGpu
from gpuprov.gpu.models import Gpu, HostGpus, MigInstance
from gpuprov.planes.over_hosts.host_look import HostLook
from gpuprov.shapes.base import Shape, read
from gpuprov.shapes.engine import EngineFacts
from gpuprov.shapes.nodes import NodeRow, Nodes
from gpuprov.spec.models import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.core.answer_kinds import Accepts

Answer = TypeVar("Answer")
Told = TypeVar("Told", bound=Shape)

_WORD: Final = text_of(300)
_WORDS: Final = text_of(10_000)
_MANY: Final = number_in(0, 2**63)
_FEW: Final = number_in(0, 1_000_000)
_UUID: Final = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)
_ENGINE: Final[Accepts] = lambda value: value in ENGINES  # noqa: E731 - a kind, as those beside it
_SHARING: Final[Accepts] = lambda value: value in ("exclusive", "shared")  # noqa: E731
_MAPPING: Final[Accepts] = lambda value: isinstance(value, dict)  # noqa: E731
_NUMBER: Final[Accepts] = lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)  # noqa: E731
_ERROR: Final[Mapping[str, Accepts]] = {
    **dict.fromkeys(("what", "evidence", "fix"), _WORDS),
    "exit_code": number_in(1, 255),
}
_GPU: Final[Mapping[str, Accepts]] = {
    "uuid": matches(_UUID),
    "label": or_none(_WORD),
    "index": or_none(_FEW),
    "minor": or_none(_FEW),
    "device": or_none(_WORD),
    "pci": or_none(_WORD),
    "mig": _MAPPING,
    "model": or_none(_WORD),
    "memory_bytes": or_none(_MANY),
    "compute_capability": or_none(matches(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}"))),
    "present": is_bool,
    "driver": or_none(_WORD),
    "simulated": or_none(is_bool),
    "sharing": or_none(_SHARING),
    "holders": is_list,
}


def read_look(told: Mapping[str, Any], host: str) -> HostLook:
    """The answer to `look`.

    Raises:
        HostNotReady: It is none.
    """
    return strictly(lambda: _look(told), host)


def read_rows(told: Mapping[str, Any], host: str) -> tuple[NodeRow, ...]:
    """The nodes in the answer to `list`.

    Raises:
        HostNotReady: It is none.
    """
    return read_answer(Nodes, told, host).nodes


def read_lines(told: Mapping[str, Any], key: str, host: str) -> tuple[str, ...]:
    """The lines under a key, such as `changed` of the answer to `up` or `down`, and `plan` of that to `plan`.

    Raises:
        HostNotReady: There are none in it, not even an empty list.
    """

    def lines() -> tuple[str, ...]:
        found = told.get(key)
        if not items_of(_WORDS)(found):
            raise ValueError(f"{key} is not a list of lines")
        return tuple(found or ())

    return strictly(lines, host)


def read_answer(kind: type[Told], told: Mapping[str, Any], host: str) -> Told:
    """A shape in the answer of a host.

    Raises:
        HostNotReady: It is none.
    """
    return strictly(lambda: read(kind, told), host)


def strictly(act: Callable[[], Answer], host: str) -> Answer:
    """What is read of an answer.

    Raises:
        HostNotReady: It is none.
    """
    try:
        return act()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise HostNotReady(
            f"{host} gave an unexpected answer",
            evidence=excerpt(str(error)),
            fix=f"bring gpuprov there up to date: gpuprov host add {host}",
        ) from error


def _look(told: Mapping[str, Any]) -> HostLook:
    values = fields_of(
        told,
        "gpuprov.host/v1",
        {
            **dict.fromkeys(("host", "gpuprov", "machine", "kernel"), _WORD),
            "clock_s": _NUMBER,
            "disk_free_bytes": _MANY,
            "limits": _MAPPING,
            "engines": is_list,
            "nodes": is_list,
            "gpus": or_none(_MAPPING),
            "gpu_error": or_none(_MAPPING),
        },
    )
    _, _, machine, kernel, clock_s, free, limits, engines, nodes, gpus, gpu_error = values
    if not all(is_string(check) and or_none(_MANY)(limit) for check, limit in limits.items()):
        raise ValueError("limits are not numbers")
    said = [
        pick(engine, {"engine": _ENGINE, "facts": or_none(_MAPPING), "error": or_none(_MAPPING)}) for engine in engines
    ]
    return HostLook(
        machine=machine,
        kernel=kernel,
        clock_s=float(clock_s),
        disk_free_bytes=free,
        limits=limits,
        engines={name: read(EngineFacts, facts) for name, facts, _ in said if facts is not None},
        silent={name: _error(error) for name, _, error in said if error is not None},
        nodes=_rows(nodes),
        board=_board(gpus) if gpus is not None else None,
        gpu_error=_error(gpu_error) if gpu_error is not None else None,
    )


def _error(told: object) -> GpuprovError:
    what, evidence, fix, _ = pick(told, _ERROR)
    return GpuprovError(what, evidence=evidence, fix=fix)


def _rows(told: object) -> tuple[NodeRow, ...]:
    if not isinstance(told, list):
        raise ValueError("nodes is not a list")  # noqa: TRY004 - all that is wrong in an answer is a ValueError
    return tuple(read(NodeRow, row) for row in told)


def _board(told: Mapping[str, Any]) -> GpuBoard:
    _, simulated, reason, driver, gpus, foreign, waiting, lost, silent = fields_of(
        told,
        "gpuprov.gpus/v1",
        {
            "host": _WORD,
            "simulated": is_bool,
            "reason": _WORDS,
            "driver": _WORD,
            "gpus": is_list,
            "foreign": is_list,
            "waiting": items_of(_WORDS),
            "lost": is_list,
            "silent": is_list,
        },
    )
    rows = [dict(zip(_GPU, pick(gpu, _GPU), strict=True)) for gpu in gpus]
    seen = HostGpus(
        simulated=simulated,
        reason=reason,
        driver_version=driver,
        cuda_driver_version=None,
        gpus=tuple(_gpu(row) for row in rows if row["present"]),
        lost=tuple(map(_lost, lost)),
    )
    silences = [dict(zip(("engine", *_ERROR), pick(one, {"engine": _ENGINE, **_ERROR}), strict=True)) for one in silent]
    return GpuBoard(
        host=seen,
        leases=_leases(rows),
        waiting=tuple(waiting),
        silent={one["engine"]: GpuprovError(one["what"], evidence=one["evidence"], fix=one["fix"]) for one in silences},
        foreign=tuple(map(_foreign, foreign)),
    )


def _lost(told: object) -> LostGpu:
    numbers, words = or_none(_FEW), or_none(_WORD)
    index, minor, pci, uuid, model, why = pick(
        told, {"index": numbers, "minor": numbers, "pci": words, "uuid": words, "model": words, "why": _WORDS}
    )
    return LostGpu(index=index, minor=minor, pci=pci or "", uuid=uuid or "", model=model or "", why=why)


def _gpu(row: Mapping[str, Any]) -> Gpu:
    ids = or_none(_FEW)
    enabled, index, gpu_instance, compute_instance = pick(
        row["mig"], {"enabled": or_none(is_bool), "index": ids, "gpu_instance": ids, "compute_instance": ids}
    )
    lacks = [key for key in ("index", "minor", "pci", "model") if row[key] is None]
    if lacks:
        raise ValueError(f"a GPU that exists has no {lacks[0]}")
    part = MigInstance(
        index=index or 0,
        uuid=row["uuid"],
        gpu_instance=gpu_instance or 0,
        compute_instance=compute_instance or 0,
        memory_bytes=row["memory_bytes"],
    )
    major, _, minor = (row["compute_capability"] or "").partition(".")
    return Gpu(
        index=row["index"],
        uuid=row["uuid"],
        minor=row["minor"],
        pci=row["pci"],
        model=row["model"],
        memory_bytes=row["memory_bytes"],
        compute_capability=(int(major), int(minor)) if major else None,
        mig_enabled=bool(enabled),
        mig=(part,) if index is not None else (),
    )


def _leases(rows: list[dict[str, Any]]) -> tuple[Lease, ...]:
    """Each node's, from the holders of each GPU, by node."""
    held: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        for holder in row["holders"]:
            words = ("node", "host", "cluster", "engine", "status")
            key = pick(holder, {**dict.fromkeys(words, _WORD), "sharing": _SHARING})
            held.setdefault(tuple(key), []).append(row["uuid"])
    return tuple(
        Lease(
            node=node,
            host=host,
            cluster=cluster,
            engine=engine,
            status=status,
            sharing="exclusive" if sharing == "exclusive" else "shared",
            gpus=tuple(gpus),
        )
        for (node, host, cluster, engine, status, sharing), gpus in sorted(held.items())
    )


def _foreign(told: object) -> ForeignUse:
    node, host, engine, copy_of, devices = pick(
        told, {"node": _WORD, "host": _WORD, "engine": _ENGINE, "copy_of": or_none(_WORD), "devices": items_of(_WORD)}
    )
    return ForeignUse(
        node=node,
        host=host,
        engine=engine,
        copy_of=copy_of or "",
        devices=tuple(devices),
        words=f"a copy of {copy_of}" if copy_of else "which gpuprov did not create",
        stop=f"stop it on {host}",
    )
