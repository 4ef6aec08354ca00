"""The rules for the values of a spec. All rules are checked, so that all problems are reported at once."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import name_cluster
from gpuprov.core.redact import HIDDEN, hide_secrets
from gpuprov.core.units import HOUR_S, parse_duration_s, parse_size_bytes
from gpuprov.shapes.base import write
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.shapes.faults import find_faults
from gpuprov.shapes.limits import LEAST_BYTES, LONGEST_S, MOST_BYTES, NODES_MAX
from gpuprov.spec import own_roles, python_packages
from gpuprov.spec.addressing import capacity
from gpuprov.spec.document import SPEC, problem
from gpuprov.spec.host_ports import HOST_PORTS_RULE
from gpuprov.spec.host_rules import HOST_RULES
from gpuprov.spec.people import PEOPLE_RULES
from gpuprov.spec.rule import SpecRule, any_of
from gpuprov.spec.shared_folder import PLACE, SHARED, find_folder_problem
from gpuprov.spec.spec_error import SpecError
from gpuprov.spec.sssd import RULES as SSSD_RULES
from gpuprov.spec.suites import SUITES
from gpuprov.spec.variables import FORM, find_variable_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gpuprov.shapes.cluster_spec import MountSpec
    from gpuprov.shapes.faults import Fault
    from gpuprov.spec.rule import Found

_PLACE_IN_LIST = re.compile(r"\[[0-9]+\]")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_ENGINE_IMAGE = re.compile(r"image:[A-Za-z0-9][A-Za-z0-9._/:@-]{0,199}")  # with a tag or a digest in Docker
_LAN = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# One URL, or several for as many brokers of a cluster; an account and its password end with the only @, so that
# whoever hides them (core/redact.py, gpuwork/broker.py) hides all of them.
_ONE_BROKER = r"[A-Za-z][A-Za-z0-9.+-]{0,30}://(?:[!-.0-:<-?A-~]{1,1000}@)?[!-:<-?A-~]*"
_BROKER = re.compile(rf"{_ONE_BROKER}(?:;{_ONE_BROKER})*")
_BROKER_MAX = 2000
_KAFKA = re.compile(r"(?:^|;)(?:confluent)?kafka\b", re.IGNORECASE)
_LONGEST_KEPT_S = 10 * 365 * 24 * HOUR_S
_LENGTHS = range(16, 30)
_SYSTEM = ("/proc", "/sys", "/dev")
_SUBNET = "a private subnet of /16 to /29, such as 10.0.3.0/24"


def check_spec(
    spec: ClusterSpec,
    *,
    roles: Collection[str],
    rules: Collection[SpecRule] = (),
    left: frozenset[str] = frozenset(),
    root: Path = Path("/"),
) -> None:
    """Refuse an invalid spec.

    Args:
        roles: Those there are.
        rules: Of these roles, beside those of every spec.
        left: Paths of values that are still to be chosen, and not to be judged.
        root: Where the host's file system begins.

    Raises:
        SpecError: Listing every problem.
    """
    problems = find_problems(spec, roles=roles, rules=rules, broken=left, root=root)
    if problems:
        many = f"{len(problems)} invalid values" if len(problems) > 1 else "an invalid value"
        raise SpecError(
            f"the spec of the cluster has {many}",
            problems=tuple(problems),
            fix="change the options or the file: docs/spec.md lists the allowed values; if the recorded spec is wrong: "
            f"{name_cluster('gpuprov cluster up', spec.name)} -f FILE",
        )


def find_problems(
    spec: ClusterSpec,
    *,
    roles: Collection[str],
    rules: Collection[SpecRule] = (),
    broken: frozenset[str] = frozenset(),
    root: Path = Path("/"),
) -> list[Fault]:
    """What is not as its type says, and what rules find that read no `broken` path (or part of one)."""
    faults = find_faults(ClusterSpec, write(spec), file=SPEC, hide=hide_secrets)[1]
    judged = [fault for fault in faults if fault.where != "engine"]  # which is a file's, or that of a driver in use
    problems = [fault for fault in judged if not any(_touches(path, fault.where) for path in broken)]
    broken |= {fault.where for fault in problems}
    for rule in (*RULES, any_of("nodes.role", roles, lambda spec: spec.nodes.role), *rules):
        if not any(_touches(path, read) for path in broken for read in rule.reads):
            problems += [
                problem(where, None, message, allowed=allowed) for where, message, allowed in rule.find(spec, root)
            ]
    return problems


def _touches(broken: str, read: str) -> bool:
    """Whether a value is part of another; `[]` in what is read is any place in a list."""
    broken = _PLACE_IN_LIST.sub("[]", broken)
    return (
        broken == read or read.startswith((f"{broken}.", f"{broken}[")) or broken.startswith((f"{read}.", f"{read}["))
    )


def _count(spec: ClusterSpec, _root: Path) -> Found:
    if spec.nodes.count > NODES_MAX:
        yield "nodes.count", f"is {spec.nodes.count}", f"1 to {NODES_MAX}"


def _fits_subnet(key: str, get: Callable[[ClusterSpec], str]) -> SpecRule:
    def find(spec: ClusterSpec, _root: Path) -> Found:
        network = _parse_subnet(get(spec))
        if network is not None and capacity(network) < spec.nodes.count <= NODES_MAX:
            room = capacity(network)
            yield "nodes.count", f"{spec.nodes.count} nodes do not fit in network.{key} {network}", f"1 to {room}"

    return SpecRule(reads=("nodes.count", f"network.{key}"), find=find)


def _subnet(key: str, get: Callable[[ClusterSpec], str]) -> SpecRule:
    path = f"network.{key}"

    def find(spec: ClusterSpec, _root: Path) -> Found:
        text = get(spec)
        try:
            network = IPv4Network(text, strict=False)
        except ValueError:
            yield path, f"{text[:80]!r} is not a subnet", _SUBNET
            return
        if "/" not in text or str(network) != text:
            yield path, f"{text!r} must be written as {network}", _SUBNET
        elif not any(network.subnet_of(lan) for lan in _LAN):
            yield path, f"{text} is not private (10/8, 172.16/12, 192.168/16)", _SUBNET
        elif network.prefixlen not in _LENGTHS:
            yield path, f"{text} is too large or too small", _SUBNET

    return SpecRule(reads=(path,), find=find)


def _parse_subnet(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _no_overlap(spec: ClusterSpec, _root: Path) -> Found:
    public, private = _parse_subnet(spec.network.subnet), _parse_subnet(spec.network.private_subnet)
    if public and private and public.overlaps(private):
        yield "network.private_subnet", f"{private} overlaps network.subnet {public}", "subnets that do not overlap"


def _two_bridges(spec: ClusterSpec, _root: Path) -> Found:
    if spec.network.bridge == spec.network.private_bridge:
        yield "network.private_bridge", f"{spec.network.private_bridge!r} is the same as network.bridge", "another name"


def _controller(spec: ClusterSpec, _root: Path) -> Found:
    if not 0 <= spec.slurm.controller < max(spec.nodes.count, 1):
        yield "slurm.controller", f"node number {spec.slurm.controller} does not exist", f"0 to {spec.nodes.count - 1}"


def _broker(spec: ClusterSpec, _root: Path) -> Found:
    url = spec.worker.broker
    if url is None:
        return
    allowed = "SCHEME://[ACCOUNT:PASSWORD@]ADDRESS[:PORT][/PATH]; in ACCOUNT and PASSWORD, / ; @ are %2F %3B %40"
    if len(url) > _BROKER_MAX:  # no message shows it: it has a password in it
        yield "worker.broker", f"has {len(url)} characters", f"{_BROKER_MAX} or fewer"
    if not all("!" <= character <= "~" for character in url):
        yield "worker.broker", "has a space, or a character that is not printable ASCII", "others as %20 and so on"
    elif HIDDEN in url:  # as `cluster spec` prints it
        yield "worker.broker", f"has {HIDDEN} in place of its account and password", allowed
    elif not _BROKER.fullmatch(url):
        yield "worker.broker", "is not a URL", allowed
    elif _KAFKA.search(url):
        others = "null, for a RabbitMQ on the first node; or the URL of a RabbitMQ, Redis or other broker of yours"
        yield "worker.broker", "is Kafka, over which a cluster's workers cannot be listed", others


def _job_time(spec: ClusterSpec, _root: Path) -> Found:
    text = spec.jobs.time
    if text is not None and not 0 < (parse_duration_s(text) or 0) <= LONGEST_S:
        allowed = f"a whole number with s, m or h, above 0 and up to {LONGEST_S // HOUR_S}h, such as 12h; or null"
        yield "jobs.time", f"{text[:80]!r} is not a valid duration", allowed


def _job_memory(spec: ClusterSpec, _root: Path) -> Found:
    text = spec.jobs.memory
    if text is not None and not LEAST_BYTES <= (parse_size_bytes(text) or 0) <= MOST_BYTES:
        allowed = "a number with KiB, MiB, GiB or TiB, 1MiB to 1024TiB, such as 4GiB; or null"
        yield "jobs.memory", f"{text[:80]!r} is not a valid amount of memory", allowed


def _job_keep(spec: ClusterSpec, _root: Path) -> Found:
    text = spec.jobs.keep
    if text is not None and not HOUR_S <= (parse_duration_s(text) or 0) <= _LONGEST_KEPT_S:
        allowed = f"a whole number with s, m or h, 1h to {_LONGEST_KEPT_S // HOUR_S}h, such as 720h; or null"
        yield "jobs.keep", f"{text[:80]!r} is not a valid duration", allowed


def _base(spec: ClusterSpec, _root: Path) -> Found:
    if spec.image.base not in SUITES and not _ENGINE_IMAGE.fullmatch(spec.image.base):
        yield "image.base", f"{spec.image.base[:80]!r} is not a known base", f"{', '.join(SUITES)} or image:NAME"


def _packages(spec: ClusterSpec, _root: Path) -> Found:
    for index, package in enumerate(spec.image.packages):
        if not _PACKAGE.fullmatch(package):
            yield f"image.packages[{index}]", f"{package[:80]!r} is not a package name", "a Debian package name"


def _python(spec: ClusterSpec, _root: Path) -> Found:
    packages = spec.image.python
    if len(packages) > python_packages.PACKAGES_MAX:
        yield "image.python", f"has {len(packages)} packages", f"{python_packages.PACKAGES_MAX} or fewer"
        return
    for index, package in enumerate(packages):
        problem = python_packages.find_package_problem(package)
        if problem:
            yield f"image.python[{index}]", problem, python_packages.FORM


def _requirements(spec: ClusterSpec, _root: Path) -> Found:
    if spec.image.requirements is not None:
        yield "image.requirements", "is not recorded with a cluster", "null; a file, in a spec file"


def _own_roles(spec: ClusterSpec, root: Path) -> Found:
    places: dict[str, int] = {}
    if len(spec.image.roles) > own_roles.ROLES_MAX:
        yield "image.roles", f"has {len(spec.image.roles)} roles", f"{own_roles.ROLES_MAX} or fewer"
        return
    for index, path in enumerate(spec.image.roles):
        folder = PurePosixPath(path)
        if not path.startswith("/") or ".." in folder.parts or not path.isprintable():
            problem = "is not an absolute path without `..`"
        elif folder.name in places:
            problem = f"has the name of image.roles[{places[folder.name]}]"
        else:
            problem = own_roles.find_role_problem(root / path.lstrip("/"))
        if problem:
            yield f"image.roles[{index}]", f"{excerpt(path)!r} {problem}", own_roles.FORM
        places.setdefault(folder.name, index)


def _environment(spec: ClusterSpec, _root: Path) -> Found:
    for index, message in find_variable_problems(spec.nodes.environment):
        yield f"nodes.environment[{index}]", message, FORM
    for index, text in enumerate(spec.nodes.environment):
        if "\n" in text:
            name = text.partition("=")[0]
            yield f"nodes.environment[{index}]", f"the value of {name[:80]!r} has a line break", "a value of one line"


def _mounts(spec: ClusterSpec, root: Path) -> Found:
    targets: set[PurePosixPath] = set()
    for index, mount in enumerate(spec.nodes.mounts):
        path = f"nodes.mounts[{index}]"
        yield from _mount_source(path, mount, None if spec.hosts else root)  # each host looks for itself
        yield from _mount_target(path, mount)
        target = _one_root(mount.target)
        if target in targets:
            yield f"{path}.target", f"{mount.target} is used by two mounts", "another folder"
        targets.add(target)


def _mount_source(path: str, mount: MountSpec, root: Path | None) -> Found:
    if not mount.source.startswith("/"):
        yield f"{path}.source", f"{mount.source[:80]!r} is not an absolute path", "an absolute path of the host"
    elif ".." in PurePosixPath(mount.source).parts:  # a reviewer of a spec must see what is handed out
        yield f"{path}.source", f"{mount.source[:80]!r} contains `..`", "an absolute path of the host, without `..`"
    elif not mount.source.isprintable() or (root and not (root / mount.source.lstrip("/")).exists()):
        yield f"{path}.source", f"{mount.source[:80]!r} does not exist on the host", "a folder or file that exists"


def _mount_target(path: str, mount: MountSpec) -> Found:
    target, allowed = _one_root(mount.target), "an absolute path outside /proc, /sys and /dev"
    if not mount.target.startswith("/") or ".." in target.parts or not mount.target.isprintable():
        yield f"{path}.target", f"{mount.target[:80]!r} is not an absolute path without `..`", allowed
    elif target == PurePosixPath("/") or any(target.is_relative_to(system) for system in _SYSTEM):
        yield f"{path}.target", f"{mount.target[:80]} would hide files that the node needs", allowed


def _share(spec: ClusterSpec, _root: Path) -> Found:
    if isinstance(spec.share, str):
        problem = find_folder_problem(spec.share, spec.name)
        if problem:
            allowed = f"an absolute path of the host, such as /data/results; true: a folder in {PLACE}; false: none"
            yield "share", f"{spec.share[:80]!r} {problem}", allowed


def _share_and_mounts(spec: ClusterSpec, _root: Path) -> Found:
    for index, mount in enumerate(spec.nodes.mounts if spec.share else ()):
        if _one_root(mount.target) == PurePosixPath(SHARED):
            yield (
                f"nodes.mounts[{index}].target",
                f"{SHARED} is where nodes have the folder of `share`",
                "another folder",
            )


def _one_root(path: str) -> PurePosixPath:
    """The path below `/`: `//dev` has a root of its own for pathlib, and is /dev for the kernel."""
    return PurePosixPath("/" + path.lstrip("/"))


RULES: tuple[SpecRule, ...] = (
    SpecRule(reads=("nodes.count",), find=_count),
    _fits_subnet("subnet", lambda spec: spec.network.subnet),
    _fits_subnet("private_subnet", lambda spec: spec.network.private_subnet),
    SpecRule(reads=("nodes.mounts",), find=_mounts),
    SpecRule(reads=("nodes.environment",), find=_environment),
    SpecRule(reads=("network.bridge", "network.private_bridge"), find=_two_bridges),
    _subnet("subnet", lambda spec: spec.network.subnet),
    _subnet("private_subnet", lambda spec: spec.network.private_subnet),
    SpecRule(reads=("network.subnet", "network.private_subnet"), find=_no_overlap),
    HOST_PORTS_RULE,
    SpecRule(reads=("image.base",), find=_base),
    SpecRule(reads=("image.packages",), find=_packages),
    SpecRule(reads=("image.python",), find=_python),
    SpecRule(reads=("image.requirements",), find=_requirements),
    SpecRule(reads=("image.roles",), find=_own_roles),
    SpecRule(reads=("nodes.count", "slurm.controller"), find=_controller),
    SpecRule(reads=("worker.broker",), find=_broker),
    SpecRule(reads=("jobs.time",), find=_job_time),
    SpecRule(reads=("jobs.memory",), find=_job_memory),
    SpecRule(reads=("jobs.keep",), find=_job_keep),
    SpecRule(reads=("name", "share"), find=_share),
    SpecRule(reads=("share", "nodes.mounts"), find=_share_and_mounts),
    *PEOPLE_RULES,
    *SSSD_RULES,
    *HOST_RULES,
)
