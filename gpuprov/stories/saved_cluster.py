"""`cluster save` and `cluster restore`: what cannot be made again of a cluster, in one archive.

The archive is one of tar: saved.json, the spec as a file of `cluster up -f`, this user's ssh keys, what accounting has
on record, and where that is asked for, what is in the folder that the nodes share. Images and nodes are made anew.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from gpuprov import __version__
from gpuprov.cluster.secrets import key_folder, remove_keys
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import name_cluster, node_name
from gpuprov.core.outcome import Outcome
from gpuprov.core.own_folders import make_own_folder
from gpuprov.core.redact import hide_secrets
from gpuprov.core.whole_file import replace_file
from gpuprov.fleet.clusters import ask_clusters
from gpuprov.fleet.recorded_spec import find_recorded
from gpuprov.lifecycle.cluster_order import ClusterOrder, resolve_engine
from gpuprov.machine.packed_folder import pack_folder, unpack_folder
from gpuprov.roles.registry import load_draft, role_of
from gpuprov.shapes.base import changed, parse_json, write
from gpuprov.shapes.cluster_spec import API_VERSION
from gpuprov.shapes.faults import find_faults
from gpuprov.shapes.saved import SavedCluster
from gpuprov.spec.serialize import plain_spec
from gpuprov.spec.shared_folder import ACCOUNT_UID, folder_of
from gpuprov.stories.cluster_up import bring_up

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.report_file import ReportFile
    from gpuprov.drivers.base import Driver
    from gpuprov.fleet.done import BroughtUp
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.machine.folders import FolderLook
    from gpuprov.shapes.cluster_spec import ClusterSpec

SAVED: Final = "saved.json"
SPEC: Final = "spec.yaml"
KEYS: Final = ("id_ed25519", "id_ed25519.pub")
SHARED: Final = "shared"
FIGURES: Final = "accounting"
_MOST_BYTES: Final = 4 * 2**20  # of each of the first parts
_MOST_FIGURES_BYTES: Final = 8 * 2**30  # the node that wrote them may write anything; years of a lab are some 100 MiB


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What was read of one.

    Attributes:
        texts: The first parts, by name.
    """

    path: Path
    saved: SavedCluster
    texts: dict[str, str]


def save_cluster(fleet: Fleet, name: str, file: ReportFile, *, shared: bool) -> Outcome:
    """Write the archive of a cluster; the cluster goes on meanwhile.

    Args:
        file: Is new, and only this user can read it.
        shared: Whether to take the files of the folder that the nodes share.

    Raises:
        UsageError: There is no such cluster, or no such folder that could be taken.
        GpuprovError: Its engine does not answer, or the file cannot be written.
    """
    spec, driver, state = find_recorded(fleet, name, verb=f"gpuprov cluster save {file.path}")
    folder, figures = folder_of(spec), None
    if shared:
        _require_folder(spec, folder)
    if shared or spec.accounting:
        _require_root(f"cluster save {'--shared ' if shared else ''}{file.path}", name)
    if spec.accounting and driver and state:
        figures = role_of(spec.nodes.role).save_figures(driver, state)
    saved = SavedCluster(
        host=fleet.here.name,
        cluster=name,
        gpuprov=__version__,
        saved=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        first_user=_first_user(driver, spec) if driver else 0,
        shared=shared,
        figures=figures is not None,
    )
    parts = {
        SAVED: json.dumps(write(saved), indent=2),
        SPEC: write_spec(spec),
    }
    keys = [key_folder(name) / key for key in KEYS]
    if all(os.access(key, os.R_OK) for key in keys):
        parts |= {key.name: key.read_text(encoding="ascii") for key in keys}
    with file.drafted() as draft:
        with tarfile.open(draft, "w") as archive:
            for part, text in parts.items():
                _add(archive, part, text.encode())
        if figures:
            pack_folder(figures.source, draft, name=FIGURES, part="./saved", most_bytes=_MOST_FIGURES_BYTES)
        if shared:
            with fleet.reporter.phase("shared folder"):
                pack_folder(folder, draft, name=SHARED)
    for node in _not_ordered(spec, state):
        fleet.reporter.note(f"{node} is not in the archive: it is from create-node or clone, and no part of the spec")
    what = {
        "its spec": True,
        "ssh keys": KEYS[0] in parts,
        "GPU hours": figures is not None,
        f"the files of {folder}": shared,
    }
    saved_parts = ", ".join(part for part, there in what.items() if there)
    return Outcome(changed=(f"saved cluster {name} to {file.path}: {saved_parts}",))


def recorded_spec(fleet: Fleet, name: str) -> ClusterSpec:
    """The spec that a cluster was last brought up with; the password of its broker is hidden.

    Raises:
        UsageError: There is no such cluster, or it was never brought up.
        GpuprovError: Its engine does not answer.
    """
    spec = find_recorded(fleet, name, verb="gpuprov cluster spec").spec
    broker = spec.worker.broker and hide_secrets(spec.worker.broker)
    return changed(spec, worker=changed(spec.worker, broker=broker))


def write_spec(spec: ClusterSpec) -> str:
    """A spec as a file of `cluster up -f`, with every key. Pure."""
    return yaml.safe_dump({"version": API_VERSION, **plain_spec(spec)}, sort_keys=False, allow_unicode=True)


def restore_cluster(fleet: Fleet, path: Path, *, engine: str | None) -> BroughtUp:
    """Make a cluster as it was saved, and prove its nodes; what a run that fails has made is removed again.

    Args:
        path: The archive.
        engine: Which is to have it, in place of the spec's.

    Raises:
        UsageError: It is no such archive, the cluster exists, or its folder is not empty; nothing was changed.
        GpuprovError: Something refused or failed.
    """
    archive = read_archive(path)
    name = archive.saved.cluster
    if name in [one.name for one in ask_clusters(fleet)[0]]:
        raise UsageError(
            f"the cluster {name} exists, so it is not restored",
            evidence=f"{path} was saved on {archive.saved.host} at {archive.saved.saved}",
            fix=name_cluster("gpuprov cluster status", name) + f"; or remove it first: gpuprov cluster down {name}",
        )
    keys = key_folder(name)
    had_keys = keys.exists()
    make_own_folder(keys, variable="XDG_DATA_HOME")
    order = ClusterOrder(file=keys / SPEC, engine=engine, verify=True, moved=True)
    unpacked: list[str] = []
    try:
        replace_file(keys / SPEC, archive.texts[SPEC], mode=0o600)
        _require_name(load_draft(keys / SPEC).spec.name, archive)
        for key in KEYS:
            if key in archive.texts and not had_keys:
                replace_file(keys / key, archive.texts[key], mode=0o600)
        if archive.saved.shared or archive.saved.figures:
            _unpack(fleet, archive, order, unpacked)
        return bring_up(fleet, order)
    except BaseException:
        for folder in unpacked:
            fleet.here.folders.set_aside(folder)
            fleet.here.folders.clear(folder)
        if not had_keys:
            remove_keys(name)
        raise
    finally:
        (keys / SPEC).unlink(missing_ok=True)


def read_archive(path: Path) -> Archive:
    """The parts of an archive but the folder.

    Raises:
        UsageError: It is none, or of another form.
    """
    try:
        texts = _read_parts(path)
        told = parse_json(texts[SAVED])
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", evidence=str(error), fix=f"ls -l {path.parent}") from error
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        raise _refuse(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(told, dict) or SPEC not in texts:
        raise _refuse(path, f"{SAVED} is no object, or {SPEC} is missing")
    values, faults = find_faults(SavedCluster, told, file=SAVED)
    if faults:
        raise _refuse(path, "\n".join(map(str, faults)))
    return Archive(path=path, saved=SavedCluster(**values), texts=texts)


def _read_parts(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    begun = False  # the folders, which come last
    with tarfile.open(path, "r:") as archive:
        for member in archive:  # to its end: one that was cut off is refused before anything is made
            begun = begun or member.name not in (SAVED, SPEC, *KEYS)
            if begun:
                continue
            content = archive.extractfile(member) if member.isreg() and member.size <= _MOST_BYTES else None
            if content is None:
                raise ValueError(f"{member.name} is no file of at most {_MOST_BYTES} bytes")
            texts[member.name] = content.read().decode()
    return texts


def _require_name(name: str, archive: Archive) -> None:
    """Whoever edits the spec in an archive must not change another cluster by it."""
    if name != archive.saved.cluster:
        evidence = f"{SPEC} names {name}, {SAVED} names {archive.saved.cluster}"
        raise UsageError(
            f"{archive.path} is of two clusters",
            evidence=evidence,
            fix=f"take the spec out: tar -xf {archive.path} {SPEC}; then: gpuprov cluster up -f {SPEC}",
        )


def _refuse(path: Path, evidence: str) -> UsageError:
    return UsageError(
        f"{path} is no archive of a cluster",
        evidence=evidence,
        fix="write one: gpuprov cluster save FILE",
    )


def _not_ordered(spec: ClusterSpec, state: ClusterState | None) -> list[str]:
    ordered = {node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)}
    return [node.name for node in state.nodes if node.name not in ordered] if state else []


def _first_user(driver: Driver, spec: ClusterSpec) -> int:
    return 0 if spec.nodes.privileged else driver.owner_on_host(0)


def _require_folder(spec: ClusterSpec, folder: str) -> None:
    if not folder or spec.hosts:
        raise UsageError(
            f"no files are saved with cluster {spec.name}",
            evidence=f"its hosts share {folder}, which is on a file server" if folder else "its nodes share no folder",
            fix=f"without --shared: gpuprov cluster save FILE {spec.name}",
        )


def _require_root(command: str, name: str) -> None:
    if os.geteuid() != 0:
        raise HostNotReady(
            "the files that nodes share can only be saved and restored by root",
            evidence=f"uid {os.geteuid()}",
            fix=f"sudo {sys.argv[0]} {command} {name}".rstrip(),
        )


def _unpack(fleet: Fleet, archive: Archive, order: ClusterOrder, unpacked: list[str]) -> None:
    """Put the files into the folder of the cluster that is about to be made; tells `unpacked` what is there then."""
    _require_root(f"cluster restore {archive.path}", "")
    spec = load_draft(order.file or archive.path).spec
    driver = resolve_engine(fleet.here, order.engine, order, reporter=fleet.reporter)
    places = [
        *([_Place(SHARED, folder_of(spec), ACCOUNT_UID)] if archive.saved.shared else []),
        *(
            _Place(FIGURES, folder.source, folder.uid, mode=0o700)
            for folder in role_of(spec.nodes.role).outliving_folders(spec.name)
            if archive.saved.figures
        ),
    ]
    looks = {place.part: fleet.here.folders.look(place.folder) for place in places}
    if FIGURES in looks and looks[FIGURES].kind == "folder" and not looks[FIGURES].empty:
        places = [place for place in places if place.part != FIGURES]
        fleet.reporter.note(
            "the figures of an earlier cluster of that name are there, and go on; those saved stay aside"
        )
    for place in places:
        _require_empty(looks[place.part], place.folder, spec.name)
    for place in places:
        with fleet.reporter.phase(place.part):
            owner = place.uid if spec.nodes.privileged else driver.owner_on_host(place.uid)
            if fleet.here.folders.look(place.folder).kind == "absent":
                unpacked.append(place.folder)
            fleet.here.folders.make(place.folder, owner=owner, mode=place.mode)
            moved = _first_user(driver, spec) - archive.saved.first_user
            unpack_folder(archive.path, place.folder, name=place.part, moved=moved)


@dataclass(frozen=True)
class _Place:
    """Where a part of an archive goes, and whose that is in the nodes."""

    part: str
    folder: str
    uid: int
    mode: int = 0o750


def _require_empty(seen: FolderLook, folder: str, cluster: str) -> None:
    if seen.kind != "absent" and not (seen.kind == "folder" and seen.empty):
        raise UsageError(
            f"the files of cluster {cluster} are not restored: {folder} has something in it",
            evidence=f"{seen.at} is a {seen.kind} of user {seen.owner}",
            fix=f"look at it, and move it away: sudo ls -la {folder}",
        )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
    archive.addfile(member, io.BytesIO(content))
