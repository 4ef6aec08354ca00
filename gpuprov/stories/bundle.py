"""`bundle`: what a bug report needs, in one archive without secrets; whatever is missing is named in it."""

from __future__ import annotations

import io
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeVar, cast

from gpuprov import __version__
from gpuprov.cluster.build_image import OWNER
from gpuprov.cluster.order_label import read_order
from gpuprov.cluster.secrets import private_keys
from gpuprov.core.bundle_parts import MOST_BYTES
from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.printable import printable, printable_json
from gpuprov.core.redact import hide_secrets, secret_values
from gpuprov.core.reporter import Silent
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, LABEL_SPEC
from gpuprov.lifecycle.bundle import cluster_parts, engine_parts, node_parts
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.machine.bundle import host_parts
from gpuprov.machine.survey import survey
from gpuprov.roles.registry import roles_of
from gpuprov.spec.serialize import load_spec_json
from gpuprov.spec.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpuprov.core.report_file import ReportFile
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.lifecycle.bundle import Parts
    from gpuprov.machine.base import Host
    from gpuprov.roles.secret_file import SecretFile
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.cluster_spec import ClusterSpec

Collection = TypeVar("Collection")
FOLDER = "gpuprov-bundle"
PART_S = 60.0
_WORKERS = 16
_README = """\
gpuprov {version}, {when} UTC. Created by `gpuprov bundle`; secrets are replaced by (hidden).
Review it before you share it: it contains names, addresses and paths of this machine.

Parts:
{parts}

Missing:
{missing}
"""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the parts come from.

    Attributes:
        engines: Those that may have nodes; the parts of one that does not respond are missing.
        host: The machine.
        root: Where its files are looked up.
        run_logs: Folder of the logs of gpuprov's runs.
        environment: Whose secret values are taken out.
    """

    engines: tuple[Engine, ...]
    host: Host
    root: Path
    run_logs: Path
    environment: Mapping[str, str]


@dataclass(kw_only=True)
class Collected:
    """Text by part, and for each part that is missing the reason."""

    parts: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def take(self, parts: Parts) -> None:
        """Collect each part, side by side; none of them stops the others."""
        names = list(parts)
        for name, (text, reason) in zip(
            names, ask_side_by_side([_careful(name, parts[name]) for name in names], workers=_WORKERS), strict=True
        ):
            if text is None:
                self.missing[name] = reason
            else:
                self.parts[name] = text


def make_bundle(file: ReportFile, sources: Sources, *, reporter: Reporter) -> Collected:
    """Collect everything there is, take secrets out, write one archive in one step.

    Raises:
        HostNotReady: The file cannot be written.
    """
    collected = Collected()
    secrets = [*secret_values(sources.environment)]
    with suppress(GpuprovError):  # a user without a home folder has no keys
        secrets += private_keys()
    with reporter.phase("engines"):
        doors = [door for door in sources.host.engines if door.name in sources.engines]
        seen = survey(doors, _look)
    collected.missing |= {engine: _in_a_line(error) for engine, error in {**seen.absent, **seen.errors}.items()}
    there = list(seen.answers.values())
    with reporter.phase("collect"):  # all at once: most of it waits, for a node that hangs for long
        of_host = host_parts(sources.host, sources.engines, root=sources.root, run_logs=sources.run_logs)
        of_engines = [partial(_parts_of_engine, engine, sources.host) for engine in there]
        parts = [*ask_side_by_side(of_engines, workers=_WORKERS), of_host]
        collected.take({name: collect for some in parts for name, collect in some.items()})
    with reporter.phase("secrets"):
        for engine in there:
            secrets += _variables(engine.nodes, engine.networks)
        keys = _role_keys(there)
    hide = partial(hide_secrets, known=secrets, keys=keys)
    collected.parts = {name: _shown(name, hide(text)) for name, text in collected.parts.items()}
    collected.missing = {name: hide(reason) for name, reason in collected.missing.items()}
    with reporter.phase("write"):
        file.write(pack_bundle(collected, now_s=time.time()))
    return collected


def _shown(name: str, text: str) -> str:
    """A part as a terminal may show it, JSON as JSON."""
    return printable_json(text) if name.endswith(".json") else printable(text)


def pack_bundle(collected: Collected, *, now_s: float) -> bytes:
    """The archive, with a list of what is in it and what is missing first; `now_s` is seconds since 1970."""
    readme = _README.format(
        version=__version__,
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now_s)),
        parts="\n".join(sorted(collected.parts)) or "none",
        missing="\n".join(f"{name}: {reason}" for name, reason in sorted(collected.missing.items())) or "nothing",
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in [("README.txt", readme), *sorted(collected.parts.items())]:
            content = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mtime, member.mode = len(content), int(now_s), 0o600
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _careful(name: str, collect: Callable[[], str]) -> Callable[[], tuple[str | None, str]]:
    """The same, in time and without an error."""

    def attempt() -> tuple[str | None, str]:
        try:
            text = _in_time(collect)
            return text if name.endswith(".json") else text[-MOST_BYTES:], ""  # half a document can be read by nobody
        except GpuprovError as error:
            return None, _in_a_line(error)
        except PermissionError as error:
            return None, f"this user may not read it: {error.filename or error} (fix: sudo gpuprov bundle)"
        except Exception as error:  # noqa: BLE001 - a fault of ours is what a bug report may be about
            return None, f"unexpected {type(error).__name__}: {error}".replace("\n", " ")

    return attempt


def _in_time(collect: Callable[[], Collection]) -> Collection:
    """What it returns, or raises; one that hangs is left alone, and ends with this process."""
    answers: SimpleQueue[tuple[Collection | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            answers.put((collect(), None))
        except BaseException as error:  # noqa: BLE001 - raised again below
            answers.put((None, error))

    Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=PART_S)
    except Empty:
        raise TimedOut("it hangs", evidence=f"there was no result within {PART_S:g} s", fix="gpuprov doctor") from None
    if error is not None:
        raise error
    return cast("Collection", answer)


def _in_a_line(error: GpuprovError) -> str:
    return f"{error.what}: {error.evidence} (fix: {error.fix})".replace("\n", " ")


@dataclass(frozen=True, kw_only=True)
class _There:
    """What an engine has."""

    driver: Driver
    nodes: Sequence[NodeState]
    networks: Sequence[NetworkState]

    @property
    def ours(self) -> list[NodeState]:
        """Its nodes that are gpuprov's."""
        return [node for node in self.nodes if node.ours]


def _look(driver: Driver) -> _There:
    nodes = sorted(driver.list_nodes(), key=lambda node: node.name)
    return _There(driver=driver, nodes=nodes, networks=driver.list_networks())


def _parts_of_engine(there: _There, host: Host) -> Parts:
    """Those of an engine, its clusters and their nodes."""
    driver = there.driver

    def plan(spec: ClusterSpec) -> tuple[str, ...]:
        return preview_changes(driver, spec, host, reporter=Silent())

    parts = dict(engine_parts(driver, there.nodes, there.networks))
    clusters = {labels[LABEL_CLUSTER] for labels in _labels(there.ours, there.networks)} - {OWNER}
    for cluster in sorted(clusters):
        parts |= _parts_of(driver, cluster, plan, host)
    for node in there.ours:
        parts |= node_parts(driver, node)
    return parts if clusters else {**parts, f"{driver.name}/clusters": partial(_no_cluster, driver)}


def _no_cluster(driver: Driver) -> str:
    raise EngineError(f"{driver.name} has no gpuprov cluster", evidence="nothing has its label", fix="gpuprov list")


def _parts_of(driver: Driver, cluster: str, plan: Callable[[ClusterSpec], Sequence[str]], host: Host) -> Parts:
    """Those of a cluster; where it cannot be read, one that says so."""
    try:
        return _in_time(lambda: cluster_parts(driver, cluster, plan, host=host.name))
    except GpuprovError as error:
        return {f"{driver.name}/clusters/{cluster}": partial(_fail, error)}


def _fail(error: GpuprovError) -> str:
    raise error


def _labels(nodes: Iterable[NodeState], networks: Iterable[NetworkState]) -> Iterator[Mapping[str, str]]:
    """The labels of all that is ours."""
    yield from (node.labels for node in nodes if node.ours)
    yield from (network.labels for network in networks if network.ours)


def _variables(nodes: Iterable[NodeState], networks: Iterable[NetworkState]) -> Iterator[bytes]:
    """Secret values of variables that nodes have, foreign ones too, or that nodes and clusters are to have."""
    for node in nodes:
        yield from secret_values(node.environment)
        order = read_order(node)
        yield from secret_values(read_variables(order.environment if order else ()))
    for network in networks:
        if network.ours and LABEL_SPEC in network.labels:
            with suppress(GpuprovError):  # of another version; its label is searched as any document
                spec = load_spec_json(network.labels[LABEL_SPEC], cluster=network.labels[LABEL_CLUSTER])
                yield from secret_values(read_variables(spec.nodes.environment))


def _role_keys(engines: Iterable[_There]) -> frozenset[bytes]:
    """The roles' keys, to be looked for and taken out; a node that cannot be read shows none of its own either.

    What has not the size of a key is none, and is not looked for: a node could have other nodes' words hidden with it.
    """
    reads = [
        partial(_pull, engine.driver, node.name, file)
        for engine in engines
        for node in engine.ours
        for role in roles_of([node.labels.get(LABEL_ROLE, "")])
        for file in role.secret_files
    ]
    return frozenset(key for key in ask_side_by_side(reads, workers=_WORKERS) if key is not None)


def _pull(driver: Driver, node: str, file: SecretFile) -> bytes | None:
    with suppress(GpuprovError):
        return file.key_in(driver.pull(node, file.path, most_bytes=file.most_bytes))
    return None
