"""`gpuprov bundle` of a real cluster: everything a bug report needs, and none of the cluster's secrets."""

from __future__ import annotations

import base64
import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Finished, Gpuprov

TOKEN = "gpt-e2e-token-0123456789"
FOREIGN = "gpte2e-theirs"
NODES = ("e000", "e001", "e002", "e003")


def unpack(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in files.items() if file}


def secrets_of(gpuprov: Gpuprov, cluster: str, *nodes: str) -> list[bytes]:
    """Every secret the cluster has: munge key, ssh host keys, and the private key of who made it."""
    encoded = gpuprov.in_node(nodes[0], "base64", "-w0", "/etc/munge/munge.key").strip()
    key = base64.b64decode(encoded)
    assert len(key) >= 32
    found = [key, key.hex().encode(), encoded.encode()]
    texts = [gpuprov.in_node(name, "cat", "/etc/ssh/ssh_host_ed25519_key") for name in nodes]
    texts += [path.read_text() for path in (gpuprov.folder / "data/gpuprov" / cluster).rglob("id_ed25519")]
    assert len(texts) == len(nodes) + 1
    found += [line.encode() for text in texts for line in text.splitlines() if line and not line.startswith("-----")]
    return found


def test_a_bundle_has_everything_but_secrets(
    gpuprov: Gpuprov,
    cluster: Finished,  # noqa: ARG001 - its nodes
    tmp_path: Path,
) -> None:
    gpuprov("exec", "e001", "--", "systemd-cat", "echo", f"login with password={TOKEN}")  # into a journal and a log
    path = tmp_path / "bundle.tar.gz"
    document = gpuprov("--json", "bundle", str(path), variables={"REGISTRY_TOKEN": TOKEN}).document
    # other clusters of this machine may go while we look
    assert not [part for part in document["missing"] if part.startswith(("lxd/clusters/gpte2e/", "lxd/nodes/e00"))]
    assert {part for part in document["missing"] if "/" not in part} == set()
    parts = unpack(path)
    assert set(parts) == {"README.txt", *document["parts"]}
    assert {"versions.json", "record.json", "doctor-lxd.json", "lxd/nodes.json", "lxd/clusters/gpte2e/plan.txt"} <= set(
        parts
    )
    for name in NODES:
        assert b"Slurm" in parts[f"lxd/nodes/{name}/journal.txt"]
        assert b"slurmd version" in parts[f"lxd/nodes/{name}/slurm-logs.txt"]
    assert b"e003" in parts["lxd/clusters/gpte2e/slurm.txt"]
    whole = b"\0".join(parts.values())
    assert b"password=(hidden)" in parts["lxd/nodes/e001/journal.txt"]
    for secret in (TOKEN.encode(), *secrets_of(gpuprov, "gpte2e", *NODES)):
        assert secret not in whole
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    assert "never overwritten" in gpuprov("bundle", str(path), expect=2).stderr
    assert path.read_bytes() == before


def test_a_bundle_has_no_secret_variable_and_nothing_of_a_foreign_instance(
    gpuprov: Gpuprov,
    cluster: Finished,  # noqa: ARG001 - its nodes
    lxc: Callable[..., str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "bundle.tar.gz"
    pool = lxc("storage", "list", "--format", "csv").partition(",")[0]
    lxc("init", "--empty", FOREIGN, "--storage", pool, "-c", "environment.PLACE=their own business")
    try:
        lxc("config", "set", "e001", "environment.MYSQL_PWD=set, by; hand")  # drift, which a plan tells
        typed = ("-e", "DB_PASSWORD=it's tulips, words", "--mount", "none")  # refused, but the log of a run
        gpuprov("create-node", "e009", *typed, expect=2)
        gpuprov("bundle", str(path), "--engine", "lxd")
    finally:
        lxc("config", "unset", "e001", "environment.MYSQL_PWD")
        lxc("delete", FOREIGN)
    parts = unpack(path)
    nodes = {node["name"]: node for node in json.loads(parts["lxd/nodes.json"])["nodes"]}
    assert nodes[FOREIGN] == {"name": FOREIGN, "status": "stopped", "addresses": {}}
    assert nodes["e001"]["environment"]["MYSQL_PWD"] == "(hidden)"
    assert b"environment.MYSQL_PWD unset (until now (hidden))" in parts["lxd/clusters/gpte2e/plan.txt"]
    assert any(b"e009 -e 'DB_PASSWORD=(hidden)' --mount" in text for name, text in parts.items() if "runs/" in name)
    whole = b"\0".join(parts.values())
    for secret in (b"own business", b"by; hand", b"tulips", b"s tulips, words"):
        assert secret not in whole


def test_a_bundle_with_a_dead_engine_says_what_is_missing(gpuprov: Gpuprov, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    said = gpuprov("bundle", str(path), variables={"LXD_DIR": str(tmp_path)})
    assert "missing: lxd: lxd is not running on this machine" in said.stdout
    readme = unpack(path)["README.txt"].decode()
    assert "gpuprov host prepare" in readme
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bundle.tar.gz"]


def test_a_bundle_in_the_present_folder(gpuprov: Gpuprov, tmp_path: Path) -> None:
    said = gpuprov("bundle", variables={"LXD_DIR": str(tmp_path)})
    path = gpuprov.folder / said.stdout.splitlines()[0]
    assert path.name.startswith("gpuprov-bundle-")
    path.unlink()
