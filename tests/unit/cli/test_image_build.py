"""`image build` makes the image that a spec file's cluster needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cluster.build_image import EnsuredImage
from gpuprov.shapes.cluster_spec import ImageSpec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from tests.unit.cli.conftest import Typed


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[ClusterSpec]:
    """What is built."""
    specs: list[ClusterSpec] = []

    def build(driver: Any, spec: ClusterSpec, *_: object, fresh: bool, **__: object) -> EnsuredImage:
        specs.append(spec)
        return EnsuredImage(image=driver.list_images()[0], built=fresh)

    monkeypatch.setattr("gpuprov.lifecycle.standalone_image.build_image", build)
    return specs


def test_the_file_says_what_is_in_it_and_options_override_it(
    typed: Typed, built: list[ClusterSpec], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "needs.txt").write_text("submitit\n")
    (tmp_path / "motd/tasks").mkdir(parents=True)
    (tmp_path / "motd/tasks/main.yml").touch()
    spec = tmp_path / "lab.yaml"
    image = "{base: trixie, packages: [git], requirements: needs.txt, roles: [motd]}"
    spec.write_text(f"version: gpuprov/v1\nname: other\nengine: lxd\nnodes: {{role: plain}}\nimage: {image}\n")
    typed(["image", "build", "-f", str(spec)], capsys)
    typed(["image", "build", "-f", str(spec), "--base", "bookworm", "--package", "vim", "--role", "slurm"], capsys)
    typed(["image", "build"], capsys)
    own: dict[str, Any] = {"python": ("submitit",), "roles": (str(tmp_path / "motd"),)}
    assert [(found.nodes.role, found.image) for found in built] == [
        ("plain", ImageSpec(base="trixie", packages=("git",), **own)),
        ("slurm", ImageSpec(packages=("vim",), **own)),
        ("slurm", ImageSpec()),
    ]


@pytest.mark.usefixtures("built")
def test_a_file_that_is_wrong_is_refused_with_its_lines(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "lab.yaml"
    spec.write_text("version: gpuprov/v1\nimage: {roles: [motd]}\n")
    assert main(["image", "build", "-f", str(spec)], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert f"image.roles[0]: line 2: '{tmp_path}/motd' does not exist on the host" in said


@pytest.mark.usefixtures("built")
def test_a_refresh_builds_an_image_that_exists(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert "built image" not in typed(["image", "build"], capsys)
    assert "built image" in typed(["image", "build", "--refresh"], capsys)
