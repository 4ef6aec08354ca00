"""Manifests of Kubernetes from the services of a compose file.

Names stay: a service is found by the name that it has in the file. Copies, such as policy-0 and policy-1, are the pods
of one StatefulSet; a service that runs on each node is a DaemonSet. GPUs are leased by the runtime of each node
(`gpuprov gate up`), which a RuntimeClass names.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpuprov.spec.compose_file import Service, Stack

GATE_LABEL: Final = "gpuprov.gate"
_APP: Final = "app"
_POD: Final = "statefulset.kubernetes.io/pod-name"
_COPY: Final = re.compile(r"(.+)-(0|[1-9][0-9]*)")
Manifest = dict[str, Any]


def render_manifests(stack: Stack, *, old: bool = False) -> Iterator[Manifest]:
    """All of it, in the order in which it can be applied.

    Args:
        stack: The services.
        old: For Kubernetes 1.8: ReplicationControllers, and no RuntimeClass, so the gate must be the nodes' default.
    """
    space = stack.name
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    leases = any(service.runtime for service in stack.services)
    if leases and not old:
        scheduling = {"nodeSelector": {GATE_LABEL: "true"}}
        named = {"metadata": {"name": "gpuprov"}, "handler": "gpuprov", "scheduling": scheduling}
        yield {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **named}
    for target, content in dict.fromkeys(file for service in stack.services for file in service.files):
        yield _make("v1", "ConfigMap", _file_name(target, content), space, data={_base(target): content})
    for name, copies in _group(stack.services):
        first = copies[0]
        for service in (first,) if len(copies) == 1 else copies:
            chosen = {_APP: name} if len(copies) == 1 else {_POD: service.name}
            yield _headless(service.name, space, chosen, service.ports)
        if len(copies) > 1:
            yield _headless(name, space, {_APP: name}, first.ports)
        yield _workload(name, space, first, copies=len(copies), old=old)


def write_manifests(manifests: Iterable[Manifest]) -> str:
    """The manifests as YAML, where text of several lines stands as it is."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, told: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", told, style="|" if "\n" in told else None)

    Dumper.add_representer(str, text)
    return "---\n".join(
        yaml.dump(one, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120) for one in manifests
    )


def _group(services: Sequence[Service]) -> Iterator[tuple[str, list[Service]]]:
    """Names of workloads, and the services that each stands for."""
    names = {service.name for service in services}
    groups: dict[str, list[Service]] = {}
    for service in services:
        match = _COPY.fullmatch(service.name)
        if match and match[1] not in names:
            groups.setdefault(match[1], []).append(service)
    for service in services:
        match = _COPY.fullmatch(service.name)
        copies = groups.get(match[1], []) if match else []
        if match and len(copies) > 1 and _are_copies(match[1], copies):
            if service is copies[0]:
                yield match[1], copies
        else:
            yield service.name, [service]


def _are_copies(name: str, services: list[Service]) -> bool:
    numbered = [f"{name}-{number}" for number in range(len(services))]
    return [service.name for service in services] == numbered and all(
        service.is_copy_of(services[0]) and not service.everywhere for service in services
    )


def _workload(name: str, space: str, service: Service, *, copies: int, old: bool) -> Manifest:
    pod = _pod(service, name_it=copies == 1 and not service.everywhere, old=old)
    template = {"metadata": {"labels": {_APP: name}}, "spec": pod}
    selector = {"matchLabels": {_APP: name}}
    apps = "apps/v1beta2" if old else "apps/v1"
    if service.everywhere:
        return _make(apps, "DaemonSet", name, space, spec={"selector": selector, "template": template})
    if copies > 1:
        together = {"serviceName": name, "replicas": copies, "podManagementPolicy": "Parallel"}
        return _make(apps, "StatefulSet", name, space, spec={**together, "selector": selector, "template": template})
    if old:
        spec = {"replicas": 1, "selector": {_APP: name}, "template": template}
        return _make("v1", "ReplicationController", name, space, spec=spec)
    # One that holds a GPU ends before the next one begins
    spec = {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": selector, "template": template}
    return _make(apps, "Deployment", name, space, spec=spec)


def _pod(service: Service, *, name_it: bool, old: bool) -> Manifest:
    container: Manifest = {"name": service.name if name_it else "main", "image": service.image}
    if service.entrypoint:
        container["command"] = _plain(service.entrypoint)
    if service.command:
        container["args"] = _plain(service.command)
    if service.variables:
        container["env"] = [{"name": name, "value": _plain([value])[0]} for name, value in service.variables]
    if service.ports:
        container["ports"] = [{"containerPort": port, "protocol": kind.upper()} for port, kind in service.ports]
    pod: Manifest = {"hostname": service.name} if name_it else {}
    if service.runtime and old:
        pod["nodeSelector"] = {GATE_LABEL: "true"}
    elif service.runtime:
        pod["runtimeClassName"] = service.runtime
    pod["containers"] = [container]
    if service.files:
        container["volumeMounts"] = [
            {"name": _file_name(target, content), "mountPath": target, "subPath": _base(target), "readOnly": True}
            for target, content in service.files
        ]
        pod["volumes"] = [
            {"name": name, "configMap": {"name": name}} for name in (_file_name(*one) for one in service.files)
        ]
    return pod


def _headless(name: str, space: str, chosen: dict[str, str], ports: Sequence[tuple[int, str]]) -> Manifest:
    spec: Manifest = {"clusterIP": "None", "selector": chosen}
    if ports:
        spec["ports"] = [{"name": f"{kind}-{port}", "port": port, "protocol": kind.upper()} for port, kind in ports]
    return _make("v1", "Service", name, space, spec=spec)


def _make(api: str, kind: str, name: str, space: str, **rest: object) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": space}, **rest}


def _plain(words: Sequence[str]) -> list[str]:
    """Words that Kubernetes does not fill variables into."""
    return [word.replace("$(", "$$(") for word in words]


def _base(target: str) -> str:
    return target.rpartition("/")[2]


def _file_name(target: str, content: str) -> str:
    """A name of its own for a file, which changes with its content, so that pods are made anew."""
    stem = re.sub("[^a-z0-9]+", "-", _base(target).lower()).strip("-")[:40]
    return f"{stem or 'file'}-{hashlib.sha256(f'{target}:{content}'.encode()).hexdigest()[:8]}"
