"""The files of a cluster's nodes, those of their roles included, and which of them running nodes lack."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.cluster.files import present_member, render_hosts
from gpuprov.cluster.node_variables import variable_files
from gpuprov.cluster.people_files import is_about_people, people_files
from gpuprov.cluster.sssd_files import is_about_sssd, sssd_files
from gpuprov.cluster.whole import recorded_host, recorded_whole
from gpuprov.core.errors import EngineError, GpuprovError, TimedOut, UsageError
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_PEOPLE, LABEL_ROLE, ROLE_JOB
from gpuprov.lifecycle.image_age import replacing_command
from gpuprov.roles.base import spec_of
from gpuprov.roles.crew import Crew
from gpuprov.roles.registry import roles_of
from gpuprov.spec.shared_folder import folder_of
from gpuprov.spec.sssd import LABEL_SSSD, find_sssd_problems, read_sssd

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver, File
    from gpuprov.roles.base import Render, Role
    from gpuprov.shapes.engine import ImageState
    from gpuprov.shapes.whole import Member

_WORKERS = 8
_COMMAND_BUDGET_S = 15.0
# What has steps of its own, before those of roles, by its name in plans
_APART = {"people": is_about_people, "sssd": is_about_sssd}
_LOOK = """
for path; do  # what is not a regular file is not opened: sha256sum would wait for a FIFO
    [ ! -f "$path" ] || [ -L "$path" ] || { sha256sum -- "$path"; stat -c "%a %u:%g %n" -- "$path"; }
done
"""


@dataclass(frozen=True, kw_only=True)
class FilesSaid:
    """What a node said of files: the paths that it was asked for, and lines."""

    paths: frozenset[str]
    lines: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was read from a cluster's nodes.

    Attributes:
        state: The cluster as it was; under the lock, as it is.
        secrets: By role what it read, or why it could not.
        files: By running node what it said of its files.
    """

    state: ClusterState
    secrets: Mapping[str, bytes | GpuprovError]
    files: Mapping[str, FilesSaid] = field(default_factory=dict)

    def without(self, names: Collection[str]) -> Reading:
        """The same for nodes that have changed since: their files are to be read again."""
        return replace(self, files={name: said for name, said in self.files.items() if name not in names})

    def with_secret(self, role: str, secret: bytes) -> Reading:
        """The same with what a controller has said; where it has said nothing, what was read stays."""
        return replace(self, secrets={**self.secrets, role: secret}) if secret else self

    def secret(self, role: str) -> bytes:
        """What a role read; empty where it had no nodes.

        Raises:
            GpuprovError: It could not.
        """
        found = self.secrets.get(role, b"")
        if isinstance(found, GpuprovError):
            raise found
        return found


@dataclass(frozen=True, kw_only=True)
class SiteFile:
    """A site's sssd.conf.

    Attributes:
        nodes: Those of this host whose image takes it.
        text: None where the cluster has none, or it is not known here.
        kept: Whether it is not known here, so that nodes keep theirs.
    """

    nodes: frozenset[str] = frozenset()
    text: str | None = field(default=None, repr=False)
    kept: bool = False


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a cluster's nodes.

    Attributes:
        crew: The nodes.
        hosts: /etc/hosts, the same on all of them.
        roles: Those of the nodes, in the registry's order.
        rendering: By role, what renders its files for a member.
        variables: By node of this host.
        with_people: The nodes of this host that take accounts of people.
        site: The site's sssd.conf, and who takes it.
    """

    crew: Crew
    hosts: File
    roles: tuple[Role, ...]
    rendering: Mapping[str, Render]
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    with_people: frozenset[str] = frozenset()
    site: SiteFile = SiteFile()

    def of(self, name: str) -> tuple[File, ...]:
        """What is kept up to date on a node; who may log in is its user's to change after the first boot."""
        member = next(member for member in self.crew.members if member.name == name)
        variables = variable_files(self.variables.get(name, {}), simulated=member.simulated)
        render = self.rendering.get(member.role)
        own = render(member) if render else ()
        return (self.hosts, *variables, *self._people(member), *self._sssd(member), *own)

    def _people(self, member: Member) -> tuple[File, ...]:
        if member.name not in self.with_people:
            return ()
        spec = self.crew.spec
        login = member.name == spec.slurm.login
        directory = bool(spec.sssd) and member.name in self.site.nodes
        return people_files(spec.people, shared=self._shares(member), login=login, directory=directory)

    def _sssd(self, member: Member) -> tuple[File, ...]:
        if self.site.kept or member.name not in self.site.nodes:
            return ()
        return sssd_files(self.site.text, shared=self._shares(member))

    def _shares(self, member: Member) -> bool:
        shares = any(role.shares for role in self.roles if role.name == member.role)
        return shares and bool(folder_of(self.crew.spec))


def gather_files(
    driver: Driver,
    crew: Crew,
    state: ClusterState,
    images: Mapping[str, ImageState],
    reading: Reading | None = None,
    *,
    designs: Sequence[NodeDesign] = (),
) -> FileSet:
    """Find what the files are made from, such as keys in the nodes; changes nothing.

    Args:
        crew: The cluster's nodes as they are to be.
        images: Of new nodes, by role.
        reading: What was read from nodes before; None to read them now.
        designs: Of nodes that are new, or may be changed.

    Raises:
        UsageError: The cluster has people, and the image of a node is older than accounts of people are.
    """
    roles = roles_of(member.role for member in crew.members)
    rendering = {}
    for role in roles:
        read = partial(role.read_secret, driver, state) if reading is None else partial(reading.secret, role.name)
        rendering[role.name] = role.gather_files(driver, crew, state, images.get(role.name), read)
    hosts = render_hosts(crew.spec.name, crew.members)
    variables = {node.name: node.environment for node in state.nodes}
    variables |= {design.name: design.environment for design in designs}
    return FileSet(
        crew=crew,
        hosts=hosts,
        roles=roles,
        rendering=rendering,
        variables=variables,
        with_people=_find_with_people(crew, state, images),
        site=_find_site_file(crew, state, images),
    )


def _find_with_people(crew: Crew, state: ClusterState, images: Mapping[str, ImageState]) -> frozenset[str]:
    """The nodes of this host, or that are to be on it, whose image takes accounts of people."""
    labels = _labels_here(crew, state, images)
    without = sorted(name for name in labels if LABEL_PEOPLE not in labels[name])
    if without and crew.spec.people:
        raise UsageError(
            f"{fold(without)} cannot have accounts of people",
            evidence="the image was built by an earlier gpuprov",
            fix="replace nodes with an older image: "
            f"{replacing_command(crew.spec.name, spans=bool(crew.spec.hosts))}; then run the same command again",
        )
    return frozenset(labels.keys() - {*without})


def _find_site_file(crew: Crew, state: ClusterState, images: Mapping[str, ImageState]) -> SiteFile:
    """The site's sssd.conf, and the nodes of this host whose image takes it.

    Where it is not known, nodes that are there keep theirs. Over hosts, those know it that are sent it, and no other: a
    file of their own at that path may be another one.

    Raises:
        UsageError: It is not known, and a new node needs it.
    """
    labels = _labels_here(crew, state, images)
    nodes = frozenset(name for name in labels if LABEL_SSSD in labels[name])
    path = crew.spec.sssd
    if path is None or not nodes:
        return SiteFile(nodes=nodes)
    over_hosts = crew.sssd, "" if crew.sssd else "was not sent to this host"
    text, why = over_hosts if crew.spec.hosts else read_sssd(Path(path))
    why = why or "; ".join(find_sssd_problems(text))
    if not why:
        return SiteFile(nodes=nodes, text=text)
    if nodes - {node.name for node in state.nodes}:
        raise UsageError(
            f"the sssd.conf of cluster {crew.spec.name} is needed for a new node",
            evidence=f"{path} {why}",
            fix=f"ls -l {path}",
        )
    return SiteFile(nodes=nodes, kept=True)


def _labels_here(crew: Crew, state: ClusterState, images: Mapping[str, ImageState]) -> dict[str, Mapping[str, str]]:
    """The labels of the nodes of this host, and of the images of those that are to be on it."""
    labels = {node.name: node.labels for node in state.nodes if node.complete}
    new = [member for member in crew.members if member.name not in labels and member.role in images]
    labels |= {member.name: images[member.role].labels for member in new}
    here = {member.name for member in crew.members}
    return {name: found for name, found in labels.items() if name in here}


def present_crew(state: ClusterState, more: Sequence[Member] = ()) -> Crew:
    """The nodes of a cluster as they are, and `more` on this host; those on other hosts as recorded."""
    nodes = [node for node in state.nodes if node.complete and node.labels.get(LABEL_ROLE) != ROLE_JOB]
    here = (*map(present_member, nodes), *more)
    whole = recorded_whole(state)
    if whole is None:
        return Crew(spec=spec_of(state), members=tuple(sorted(here, key=lambda member: member.name)))
    host = recorded_host(state)
    cpus, memory_bytes = next(((known.cpus, known.memory_bytes) for known in whole.on(host)), (0, 0))
    whole = whole.with_host(host, here, cpus=cpus, memory_bytes=memory_bytes)
    return Crew(spec=spec_of(state), members=whole.reachable_members())


def look_at_files(driver: Driver, names: Iterable[str], files: Callable[[str], Sequence[File]]) -> dict[str, FilesSaid]:
    """What each running node says of its files; one that does not answer has none of them."""

    def look(name: str) -> tuple[str, FilesSaid]:
        paths = [file.path for file in files(name)]
        argv = ["sh", "-c", _LOOK, "sh", *paths]
        try:
            said = driver.run(name, argv, timeout_s=_COMMAND_BUDGET_S).stdout.splitlines()
        except (EngineError, TimedOut):
            said = []
        return name, FilesSaid(paths=frozenset(paths), lines=frozenset(said))

    with ThreadPoolExecutor(_WORKERS) as pool:
        return dict(pool.map(look, names))


def find_stale(
    driver: Driver,
    names: Iterable[str],
    files: Callable[[str], Sequence[File]],
    reading: Reading | None = None,
) -> dict[str, tuple[File, ...]]:
    """The files that each running node lacks, or has otherwise; nodes with all of them are left out.

    Args:
        files: Those of a node.
        reading: What was read from nodes before; the others are read now.
    """
    names = list(names)
    wanted = {name: files(name) for name in names}
    known = {
        name: said
        for name, said in (reading.files if reading else {}).items()
        if name in wanted and said.paths >= {file.path for file in wanted[name]}
    }
    known |= look_at_files(driver, [name for name in names if name not in known], files)
    stale = {
        name: tuple(file for file in wanted[name] if not set(_describe(file)) <= known[name].lines) for name in names
    }
    return {name: lacking for name, lacking in stale.items() if lacking}


def _describe(file: File) -> tuple[str, str]:
    """What `_LOOK` prints of a file that is as it should be."""
    digest = hashlib.sha256(file.content).hexdigest()
    return f"{digest}  {file.path}", f"{file.mode:o} {file.uid}:{file.gid} {file.path}"


def is_apart(file: File) -> bool:
    """Whether it is about people or their directory, whose own steps write it."""
    return any(is_about(file) for is_about in _APART.values())


def renewal_lines(roles: Sequence[Role], stale: Mapping[str, Sequence[File]]) -> tuple[str, ...]:
    """Lines of a plan or an outcome: one for each set of files, with the nodes that lack them."""
    marks = {path: words for role in roles for path, words in role.marks.items()}
    nodes: dict[str, list[str]] = {}
    for name, files in stale.items():
        own = [file.path for file in files if file.path not in marks and not is_apart(file)]
        paths = ", ".join([*own, *(name for name, is_about in _APART.items() if any(map(is_about, files)))])
        alone = ", ".join(marks[file.path] for file in files if file.path in marks)
        nodes.setdefault(f"renew {paths}" if paths else alone, []).append(name)
    return tuple(f"{change} on {fold(names)}" for change, names in nodes.items())
