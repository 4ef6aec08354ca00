"""The password of a broker of the user's is in the recorded spec and in nodes, and in nothing that gpuprov shows."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.core.errors import GpuprovError
from gpuprov.core.redact import hide_secrets
from gpuprov.drivers.base import LABEL_SPEC
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NodesSpec, WorkerSpec
from gpuprov.spec.validate import check_spec
from gpuprov.stories.bundle import Sources, make_bundle
from gpuwork.broker import hide_password
from tests.unit.stories.test_bundle import new_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Typed

PASSWORD = "hunter2hunter2"
SHOWS = (
    ("cluster", "status"), ("cluster", "plan"), ("cluster", "plan", "-n", "3"), ("list",), ("list", "--all"),
    ("inventory", "--list"), ("show", "c000"), ("verify",), ("jobs",), ("cluster", "up", "-n", "1", "--no-verify"),
)  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        "redis://10.1.1.1",
        "rediss://:p%40ss@redis.lab:6380/3?ssl_cert_reqs=required",
        "sentinel://:one@10.1.1.1:26379;sentinel://:two@10.1.1.2:26379",
        "amqps://gpu:p'a\"s@[fd00::1]:5671/vhost",
        "mongodb://10.1.1.1/kafka",
    ],
)
def test_what_is_allowed_is_hidden_by_whoever_hides_passwords(typed: Typed, tmp_path: Path, url: str) -> None:
    check_spec(typed.world.spec(worker=WorkerSpec(broker=url)), roles=["slurm"], root=tmp_path)
    for hidden in (hide_secrets(json.dumps({"broker": url})), hide_password(url)):
        assert not any(word in hidden for word in ("p%40ss", "one", "two", "p'a"))


@pytest.mark.slow
def test_nothing_shows_it(typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = typed.world
    spec = world.spec(nodes=NodesSpec(count=2, role="worker"), share=True)
    world.up(spec=changed(spec, worker=WorkerSpec(broker=f"redis://:{PASSWORD}@10.1.1.1/0")))
    assert any(PASSWORD in network.labels.get(LABEL_SPEC, "") for network in world.driver.list_networks())
    file = tmp_path / "other.yaml"
    file.write_text(f"version: gpuprov/v1\nnodes: {{role: worker}}\nworker: {{broker: 'redis://:{PASSWORD}2@h'}}\n")
    capsys.readouterr()
    for argv in (*SHOWS, ("cluster", "plan", "-f", str(file)), ("cluster", "up", "-f", str(file), "--no-verify")):
        main(argv, host=world.host)
        main(("--json", *argv), host=world.host)
    said = capsys.readouterr()
    assert said.out.count("c000") > len(SHOWS)
    assert PASSWORD not in said.out + said.err
    logs = tmp_path / "logs"
    logs.mkdir()
    sources = Sources(engines=("lxd",), host=world.host, root=tmp_path, run_logs=logs, environment={})
    make_bundle(new_file(tmp_path), sources, reporter=world.reporter)
    with tarfile.open(tmp_path / "b.tar.gz") as bundle:
        parts = [file.read().decode() for file in map(bundle.extractfile, bundle) if file]
    assert sum("redis://(hidden)@h" in part for part in parts) > 1
    assert [part for part in parts if PASSWORD in part] == []


def test_a_url_that_is_refused_is_not_shown(typed: Typed, tmp_path: Path) -> None:
    for url in (f"redis://:a@{PASSWORD}@h", f"{PASSWORD}", f"redis://:{PASSWORD}@h/ "):
        with pytest.raises(GpuprovError) as caught:
            check_spec(typed.world.spec(worker=WorkerSpec(broker=url)), roles=["slurm"], root=tmp_path)
        assert "worker.broker: " in caught.value.evidence
        assert PASSWORD not in str(caught.value)
