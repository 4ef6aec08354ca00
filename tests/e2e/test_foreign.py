"""Nothing foreign is touched: a whole life of a cluster among things of others that are named like ours."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.images import node_recipe
from gpuprov.core.fingerprint import short
from gpuprov.core.group_files import LOCK_FOLDER
from gpuprov.machine.local import LocalHost
from gpuprov.roles.registry import PLAIN
from gpuprov.shapes.cluster_spec import ClusterSpec, ImageSpec, NodesSpec
from tests.e2e.conftest import lxd, output
from tests.e2e.places import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

BUILDER = "gpuprov-build"
FOLDERS = (
    *("/etc", "/run/gpuprov", "/var/cache/gpuprov", "/var/lib/gpuprov", "/usr/local"),
    *("/root/.ssh", "/root/.config", "/root/.docker"),
)
DEVICES = "/var/lib/gpuprov/devices/"  # of simulated GPUs in Docker; they stay for the next cluster
IMAGE = "gpuprov-image-000000000000"
CLIENTS = {"lxd": "lxc", "incus": "incus", "docker": "docker"}
FLEETING = {"tentative", "valid_life_time", "preferred_life_time", "used_by", "last_used_at"}


def dump(host: Callable[..., str], clients: tuple[str, ...], docker: Any, keys: Path) -> dict[str, object]:
    """Everything of the engines and of the host that a run of ours could reach, one entry an object."""
    found: dict[str, object] = {f"temporary {path.name}": True for path in Path("/tmp").glob("gpuprov*")}
    for folder in (*FOLDERS, str(keys)):
        found |= dump_folder(Path(folder))
    for client in clients:
        found |= dump_lxd(client)
    return {**found, **dump_docker(docker), **dump_network(host)}


@pytest.fixture
def client(engine: str, request: pytest.FixtureRequest) -> str:
    """That of the engine with system containers which has what is foreign: Incus where it is tried, else LXD."""
    if engine == "incus":
        request.getfixturevalue("incus")
    return "incus" if engine == "incus" else "lxc"


@pytest.fixture
def look(gpuprov: Gpuprov, host: Callable[..., str], docker: Any, client: str) -> Callable[[], dict[str, object]]:
    """Dumps everything."""
    return lambda: dump(host, tuple({"lxc", client}), docker, gpuprov.folder / "data")


def dump_lxd(client: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for kind in ("instances", "networks", "images", "images/aliases", "profiles", "storage-pools", "projects"):
        for item in lxd(f"{kind}?recursion=1", client=client):
            found[f"{client}-{kind} {item.get('name') or item['fingerprint']}"] = stable(item)
    for pool in lxd("storage-pools", client=client):
        for volume in lxd(f"{pool.removeprefix('/1.0/')}/volumes?recursion=1", client=client):
            found[f"{client}-{pool} {volume['type']} {volume['name']}"] = stable(volume)
    return found


def dump_docker(docker: Any) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in docker.containers(all=True):
        container = docker.inspect_container(item["Id"])
        kept = ("Id", "Config", "HostConfig", "Mounts", "Image", "RestartCount")
        found[f"containers {container['Name']}"] = [container["State"]["Status"], *(container[key] for key in kept)]
    for item in docker.images(all=True):
        for tag in item["RepoTags"] or [item["Id"]]:
            found[f"docker-images {tag}"] = (item["Id"], item["Labels"], item["Size"])
    for item in docker.networks():
        found[f"docker-networks {item['Name']}"] = {key: item[key] for key in item if key != "Containers"}
    for item in docker.volumes()["Volumes"] or ():
        found[f"docker-volumes {item['Name']}"] = item
    return found


def dump_network(host: Callable[..., str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for what in ("link", "address", "-4 route", "-6 route", "-4 rule", "-6 rule"):
        for item in json.loads(host("ip", "-j", *what.split()) or "[]"):
            name = item.get("ifname") or item.get("dst") or item.get("priority")
            found[f"ip {what} {name} {item.get('dev', '')} {item.get('metric', '')}"] = stable(item)
    found |= dump_nft(host("nft", "--stateless", "list", "ruleset"))
    for program in ("iptables", "ip6tables"):
        found |= dump_iptables(program, host(f"{program}-save"))
    return found


def dump_nft(text: str) -> dict[str, object]:
    """The lines of each table, and of each chain, set or map of it, in their order."""
    found: dict[str, list[str]] = {}
    where: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.endswith("{"):
            where.append(line.removesuffix("{").strip())
            found[" ".join(["nft", *where])] = []
        elif line == "}":
            where.pop()
        elif line:
            found[" ".join(["nft", *where])].append(line)
    return dict(found)


def dump_iptables(program: str, text: str) -> dict[str, object]:
    """Each chain's policy and rules, in their order."""
    found: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy, _counters = line[1:].split()
            found[f"{program} {table} {chain}"] = [policy]
        elif line.startswith("-A "):
            found[f"{program} {table} {line.split()[1]}"].append(line)
    return dict(found)


def stable(item: Any) -> Any:
    """A document without what changes by itself."""
    if isinstance(item, dict):
        kept = {key: value for key, value in item.items() if key not in FLEETING and not key.startswith("stats")}
        return {key: stable(value) for key, value in kept.items()}
    return [stable(value) for value in item] if isinstance(item, list) else item


def dump_folder(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in (folder, *folder.rglob("*")) if folder.exists() else ():
        if str(path).startswith((DEVICES, str(LOCK_FOLDER))):
            continue
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink() and status.st_size < 1 << 20:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        size = 0 if path.is_dir() else status.st_size
        found[f"file {path}"] = (status.st_mode, status.st_uid, status.st_gid, size, content)
    return found


def write_image(path: Path) -> str:
    """A small LXD image whose description is one that gpuprov gives."""
    properties = {"description": "gpuprov-base-rootfs-bookworm-000000000000", "os": "gpuprov"}
    metadata = {"architecture": "x86_64", "creation_date": int(time.time()), "properties": properties}
    with tarfile.open(path, "w") as tar:
        for name, text in (("metadata.yaml", json.dumps(metadata)), ("rootfs/etc/marker", "foreign")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def write_empty_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("marker"))
    return packed.getvalue()


def make_docker_foreigners(docker: Any, place: Place, stack: ExitStack) -> None:
    for repository, tag in (("gpuprov-image", IMAGE.rpartition("-")[2]), ("gpuprov", "latest"), ("gpuprov-kept", "1")):
        docker.import_image_from_data(write_empty_tar(), repository=repository, tag=tag)
        stack.callback(docker.remove_image, f"{repository}:{tag}")
    for name in (place.node(3), BUILDER, f"{place.node(5)}.new"):
        docker.create_container("gpuprov:latest", command="true", name=name)
        stack.callback(docker.remove_container, name)
    for name in (f"{place.mark}7", f"{place.mark}-gpuprov-labels-1"):
        docker.create_network(name, driver="bridge", options={"com.docker.network.bridge.name": name[:6]})
        stack.callback(docker.remove_network, name)
    docker.create_volume("gpuprov")
    stack.callback(docker.remove_volume, "gpuprov")


@pytest.fixture
def foreigners(host: Callable[..., str], client: str, docker: Any, place: Place, tmp_path: Path) -> Iterator[None]:
    """Things of somebody else's, of every kind, named like ours."""
    with ExitStack() as stack:

        def make(undo: tuple[str, ...], *argv: str) -> None:
            host(*argv)
            stack.callback(host, *undo)

        pool = host(client, "storage", "list", "--format", "csv").partition(",")[0]
        for name in (place.node(3), BUILDER, IMAGE):
            make((client, "delete", name), client, "init", "--empty", name, "--storage", pool)
            host(client, "config", "set", name, MARK, place.cluster)  # so that the next run finds what this one leaves
        host(client, "config", "set", place.node(3), "user.gpuprov", "mine")
        network, link = f"{place.mark}8", f"{place.mark}9"
        address = f"ipv4.address={place.address(2, 1)}/24"
        make((client, "network", "delete", network), client, "network", "create", network, address, "ipv6.address=none")
        make(
            (client, "image", "delete", "gpuprov"),
            client,
            "image",
            "import",
            write_image(tmp_path / "i"),
            "--alias",
            "gpuprov",
        )
        make((client, "profile", "delete", "gpuprov"), client, "profile", "create", "gpuprov")
        make((client, "project", "delete", "gpuprov"), client, "project", "create", "gpuprov")
        make(
            (client, "storage", "delete", f"{place.mark}pool"), client, "storage", "create", f"{place.mark}pool", "dir"
        )
        volume = ("storage", "volume")
        make((client, *volume, "delete", pool, "gpuprov"), client, *volume, "create", pool, "gpuprov")
        make_docker_foreigners(docker, place, stack)
        make(("ip", "link", "delete", link), "ip", "link", "add", link, "type", "bridge")
        host("ip", "address", "add", f"{place.address(3, 1)}/25", "dev", link)
        host("ip", "link", "set", link, "up")
        host("ip", "route", "add", f"{place.address(3, 128)}/25", "dev", link)
        make(("nft", "delete", "table", "ip", "gpuprov"), "nft", "add", "table", "ip", "gpuprov")
        chain = ("add", "chain", "ip", "gpuprov", "nat", "{ type nat hook postrouting priority 90; }")
        host("nft", *chain)
        host("nft", "add", "rule", "ip", "gpuprov", "nat", "ip", "saddr", f"{place.address(3, 0)}/25", "masquerade")
        rule = ("FORWARD", "-i", link, "-m", "comment", "--comment", "gpuprov", "-j", "ACCEPT")
        make(("iptables", "-w", "-D", *rule), "iptables", "-w", "-A", *rule)
        for path in ("/run/gpuprov/foreign", "/var/cache/gpuprov/rootfs-foreign.tar", "/etc/sysctl.d/91-gpuprov.conf"):
            make(("rm", path), "install", "-D", "-m", "0640", "/etc/hostname", path)
        slurm = Path("/etc/slurm/slurm.conf")  # the host's own Slurm, with nodes called like ours
        if not slurm.exists():
            made = not slurm.parent.exists()
            slurm.parent.mkdir(exist_ok=True)
            slurm.write_text("".join(f"NodeName={place.node(n)} CPUs=1 State=UNKNOWN\n" for n in range(2)))
            stack.callback(host, "rm", "-r", str(slurm.parent if made else slurm))
        yield


def live(gpuprov: Gpuprov, place: Place, spec: str, engine: str) -> None:
    """A cluster's whole life, but for the image."""
    up = ("cluster", "up", "-f", spec, "--no-verify")
    where = ("--engine", engine)
    more = f"{place.mark}-more"
    gpuprov(*up)
    assert "taken by an instance that gpuprov did not create" in gpuprov(*up, "-n", "4", expect=4).stderr
    gpuprov(*up, "-n", "3")
    gpuprov("create-node", more, "--cluster", place.cluster, "--gpu-mode", "simulated", *where)
    gpuprov("snapshot", place.node(0), "kept")
    gpuprov("stop", more)
    gpuprov("expose", more if engine == "docker" else place.node(0), "8080", "--port", "17002")
    gpuprov("rm", more)
    gpuprov(*up, "-n", "1")
    if engine != "docker":
        gpuprov("unexpose", place.node(0), "17002")
    assert "gpuprov did not create" in gpuprov("rm", place.node(3), *where, expect=2).stderr
    for image in (IMAGE, "gpuprov"):
        assert f"there is no image {image}" in gpuprov("image", "rm", image, *where).stderr


def test_a_rule_in_another_chain_or_place_and_a_policy_are_seen() -> None:
    policy = "\t\ttype filter hook input priority 0; policy accept;\n"
    chains = f"table ip t {{\n\tchain a {{\n{policy}%s\t}}\n\tchain b {{\n%s\t}}\n}}\n"
    one, two = "\t\tip saddr 1.2.3.4 drop\n", "\t\tip saddr { 1.2.3.4,\n\t\t\t 1.2.3.5 } drop\n"
    texts = [
        *(chains % ways for ways in ((one + two, ""), (two + one, ""), (one, two), (one + two + two, ""))),
        (chains % (one + two, "")).replace("policy accept", "policy drop"),
        (chains % (one + two, "")).replace("table ip t", "table ip6 t"),
    ]
    assert dump_nft(texts[0])["nft table ip t chain b"] == []
    assert len({json.dumps(dump_nft(text)) for text in texts}) == len(texts)
    rules = "*nat\n:PREROUTING ACCEPT [%d:9]\n:X - [0:0]\n-A %s -j DROP\nCOMMIT\n"
    first = dump_iptables("iptables", rules % (1, "X"))
    assert first == dump_iptables("iptables", rules % (2, "X")), "counters do not count"
    for other in (rules % (1, "PREROUTING"), (rules % (1, "X")).replace("ACCEPT", "DROP")):
        assert first != dump_iptables("iptables", other)


@pytest.mark.usefixtures("cluster", "foreigners")  # the first for the folder of keys, which stays
@pytest.mark.parametrize("building", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "engine", ["lxd", *(pytest.param(name, marks=pytest.mark.long) for name in ("docker", "incus"))]
)
def test_nothing_foreign_changes(
    gpuprov: Gpuprov,
    look: Callable[[], dict[str, object]],
    place: Place,
    ledger: Ledger,
    *,
    engine: str,
    building: bool,
) -> None:
    spec = gpuprov.folder / f"foreign-{engine}.yaml"
    spec.write_text(place.spec(engine=engine))
    simulated = ("--gpu-mode", "simulated", "--engine", engine)
    build = ("image", "build", "--role", "plain", "--package", "tree", *simulated)
    with free_builder_name(engine):  # what builds keep for the next ones is ours, and there before anything is compared
        gpuprov("image", "build", *simulated)
        if building:
            gpuprov("image", "rm", made_by(gpuprov, build), "--engine", engine)
    with free_builder_name(engine) if building else nullcontext():
        before = look()
        assert len(before) > 500
        live(gpuprov, place, str(spec), engine)
        if building:
            gpuprov("image", "rm", made_by(gpuprov, build), "--engine", engine)
        there = look()
        own = {"containers", "docker-networks", "iptables"}
        kinds = own if engine == "docker" else {f"{CLIENTS[engine]}-instances", f"{CLIENTS[engine]}-networks", "nft"}
        seen = {key.partition(" ")[0] for key in there if there[key] != before.get(key)}
        assert seen >= {*kinds, "ip", "file"}
        gpuprov("cluster", "down", place.cluster, "--yes")
        after = look()
    changed = {key: (before.get(key), after.get(key)) for key in {*before, *after} if before.get(key) != after.get(key)}
    life = "up, grow, create-node, expose, snapshot, stop, rm, shrink, down" + ", image build and rm" * building
    ledger.add("foreign", engine=engine, life=life, objects=len(before), changed=len(changed))
    assert changed == {}


def made_by(gpuprov: Gpuprov, build: tuple[str, ...]) -> str:
    """The name of the image that a build made."""
    name: str = gpuprov.json(*build)["changed"][0].split()[-1]
    return name


@contextmanager
def free_builder_name(engine: str) -> Iterator[None]:
    """Another name for the foreign builder for as long as the block runs."""
    client, other = CLIENTS[engine], f"{BUILDER}-not"
    output(client, "rename", BUILDER, other)
    try:
        yield
    finally:
        output(client, "rename", other, BUILDER)


@pytest.mark.parametrize("engine", ["lxd", "docker"])
def test_what_has_the_name_of_an_image_to_be_is_told_before_it_is_built(
    gpuprov: Gpuprov, lxc: Callable[..., str], docker: Any, engine: str
) -> None:
    spec = ClusterSpec(image=ImageSpec(packages=("hello", "tree")), nodes=NodesSpec(role="plain"))
    recipe = node_recipe(
        spec, PLAIN.recipe, LocalHost().gpus("simulated"), init="systemd" if engine == "lxd" else "runit"
    )
    name = short(recipe.fingerprint)
    with ExitStack() as stack:
        if engine == "lxd":
            pool = lxc("storage", "list", "--format", "csv").partition(",")[0]
            lxc("init", "--empty", f"gpuprov-image-{name}", "--storage", pool)
            stack.callback(lxc, "delete", f"gpuprov-image-{name}")
        else:
            docker.import_image_from_data(write_empty_tar(), repository="gpuprov-image", tag=name)
            stack.callback(docker.remove_image, f"gpuprov-image:{name}")
        options = ("--role", "plain", "--package", "hello", "--package", "tree", "--gpu-mode", "simulated")
        refused = gpuprov("image", "build", *options, "--engine", engine, expect=4)
        assert f"is taken: the {'instance' if engine == 'lxd' else 'image'} gpuprov-image" in refused.stderr
        assert "rename or remove" in refused.stderr
        assert not [phase for phase in ("base", "builder", "roles") if f"{phase} ..." in refused.stderr]
