"""The queue of a cluster while the node that has it is replaced: it waits in this user's folder of the cluster's keys.

The service that writes it is stopped first, and the new node puts it in its place before that service starts there: at
no time does a controller run that knows no jobs.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
from typing import TYPE_CHECKING, BinaryIO, Final

from gpuprov.cluster import services
from gpuprov.cluster.secrets import key_folder
from gpuprov.core.errors import EngineError, GpuprovError, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.printable import printable
from gpuprov.core.units import MIB
from gpuprov.drivers.base import LABEL_QUEUE, LABEL_ROLE, File
from gpuprov.drivers.tar_stream import BadTar, TarStream
from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.tar_stream import TarEntry
    from gpuprov.roles.base import QueueFolder
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.engine import ImageState

_MOST_BYTES: Final = 256 * MIB
_MOST_ENTRIES: Final = 200_000
_ASK_S: Final = 15.0
_VERSION: Final = re.compile(r"(?:[0-9]+:)?([0-9]+\.[0-9]+)[-+~.:0-9a-zA-Z]{0,60}", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_ARRIVE: Final = """\
cd {above}
rm -rf .arriving
mkdir -m 700 .arriving
tar --extract --file={tar} --directory=.arriving --no-same-owner
chown -R {user}:{user} .arriving
chmod 755 .arriving
rm -rf {name}
mv .arriving {name}
rm -f {script}
rm -f {tar}
"""


def queue_of(node: NodeState, spec: ClusterSpec) -> QueueFolder | None:
    """What a node has on its own disk of the cluster's queue; None for most nodes."""
    role = ROLES.get(node.labels.get(LABEL_ROLE, ""))
    if role is None or role.controller_name(spec) != node.name:
        return None
    if any(not folder.outlives for folder in role.service_folders(spec)):
        return None
    return role.queue


def can_keep(driver: Driver, name: str, queue: QueueFolder, image: ImageState) -> bool:
    """Whether what is in a new image reads what the old node has written; of the same release it does.

    Raises:
        EngineError: The node does not report it.
    """
    return _release(_ask(driver, name, queue.version)) == _release(image.labels.get(LABEL_QUEUE, ""))


def count_kept(driver: Driver, name: str, queue: QueueFolder) -> int:
    """How many jobs or messages the queue has.

    Raises:
        EngineError: The node does not report it.
    """
    said = _ask(driver, name, queue.count)
    if not _COUNT.fullmatch(said):
        raise EngineError(
            f"cannot tell how many jobs are in the queue on {name}",
            evidence=excerpt(said) or "no answer",
            fix=services.status_command(driver, name, queue.service),
        )
    return int(said)


def _ask(driver: Driver, name: str, line: str) -> str:
    return driver.run(name, ["sh", "-c", line], timeout_s=_ASK_S).stdout.strip()[:1000]


def _release(version: str) -> str:
    """`22.05` of a package's version; what is none is its own."""
    found = _VERSION.fullmatch(version)
    return found[1] if found else version


def queue_file(cluster: str, node: str, *, engine: str) -> Path:
    """Where the queue of a node waits; in that folder are the keys of clusters of that name on all engines."""
    return key_folder(cluster) / f"queue-of-{node}-on-{engine}.tar"


def keep_queue(driver: Driver, cluster: str, node: str, queue: QueueFolder, *, reporter: Reporter) -> None:
    """Read the folder of a service that is stopped into a file of this user's; whole, or not at all.

    Raises:
        EngineError: The node gives something else, or more than there may be.
    """
    target = queue_file(cluster, node, engine=driver.name)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            tar = _QueueTar(file)
            driver.read_tree(node, queue.path, tar.take)
            tar.finish()
        part.replace(target)
    except BadTar as error:
        raise EngineError(
            f"the queue of cluster {cluster} cannot be kept",
            evidence=printable(f"{queue.path} of {node}: {error}", lines=False),
            fix=f"look at it: gpuprov exec {node} -- du -sh {queue.path}",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    reporter.note(f"the queue on {node} is kept in {target}")


class _QueueTar:
    """Writes the tar of a queue's folder into a file, and believes nothing of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries = self._bytes = 0
        self._stream = TarStream(self._begin, lambda _piece: None)

    def take(self, piece: bytes) -> None:
        """Take a piece in; raises BadTar."""
        self._bytes += len(piece)
        if self._bytes > _MOST_BYTES:
            raise BadTar(f"it has more than {_MOST_BYTES // MIB} MiB")
        self._stream.take(piece)
        self._file.write(piece)

    def finish(self) -> None:
        """Nothing comes any more; raises BadTar where it is not complete."""
        self._stream.finish()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _begin(self, entry: TarEntry) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise BadTar(f"it has more than {_MOST_ENTRIES} files")
        if entry.kind not in ("file", "folder"):
            raise BadTar(f"{'/'.join(entry.parts)} is a {entry.kind}")


def arrival_files(path: Path, cluster: str, node: str, queue: QueueFolder, *, keeper: str) -> tuple[File, ...]:
    """What has a new node put the queue that is in a file in its place.

    Raises:
        UsageError: Another user has it, or it is gone.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the queue of cluster {cluster} is not here, and {node} is not made without it",
            evidence=f"{path}: {error.strerror}; {keeper} kept it while {node} was being replaced",
            fix=f"have {keeper} run it: {name_cluster('gpuprov cluster up', cluster)}; or remove the cluster: "
            f"gpuprov cluster down {cluster}",
        ) from error
    above, _, name = queue.path.rpartition("/")
    tar = f"{queue.arrival}.tar"
    words = {"above": above, "name": name, "tar": tar, "script": queue.arrival, "user": queue.user}
    script = _ARRIVE.format(**{key: shlex.quote(word) for key, word in words.items()})
    return (
        File(path=tar, content=content, mode=0o600),
        File(path=queue.arrival, content=script.encode(), mode=0o600),
    )


def forget_queue(cluster: str, node: str, *, engine: str) -> None:
    """Remove what was kept of a node's queue."""
    queue_file(cluster, node, engine=engine).unlink(missing_ok=True)


def go_on(driver: Driver, node: str, queue: QueueFolder, *, reporter: Reporter) -> None:
    """Have a node that was not replaced after all work again."""
    try:
        services.restart_well(driver, node, queue.service)
    except GpuprovError as error:
        reporter.warn(f"{error.what}: {error.evidence}; {error.fix}")
