from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.roles.registry import ROLE_NAMES
from gpuprov.shapes.cluster_spec import ImageSpec
from gpuprov.spec.image_files import take_in_files
from gpuprov.spec.load import load_draft
from gpuprov.spec.serialize import dump_spec, load_spec_json
from gpuprov.spec.spec_error import SpecError, in_spec


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with a requirements file and two roles."""
    (tmp_path / "needs.txt").write_text("submitit\nnumpy>=1.26  # ours\n")
    for name in ("motd", "tools"):
        (tmp_path / "roles" / name / "tasks").mkdir(parents=True)
        (tmp_path / "roles" / name / "tasks/main.yml").write_text("[]\n")
    return tmp_path


def load(lab: Path, image: str) -> ImageSpec:
    path = lab / "lab.yaml"
    path.write_text(f"version: gpuprov/v1\nimage: {image}\n")
    return load_draft(path, roles=ROLE_NAMES).spec.image


def refused(lab: Path, image: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(lab, image)
    return [in_spec(problem) for problem in caught.value.problems]


def test_a_spec_says_by_itself_what_its_files_said(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ImageSpec(
        python=("torch==2.*", "submitit", "numpy>=1.26"), roles=(f"{lab}/roles/motd", f"{lab}/roles/tools")
    )
    image = "{python: ['torch==2.*'], requirements: needs.txt, roles: [roles/motd, ./roles/../roles/tools/]}"
    assert load(lab, image) == wanted
    assert load(lab, image.replace("needs.txt", f"{lab}/needs.txt")) == wanted
    monkeypatch.chdir(lab)
    spec = load_draft("lab.yaml", roles=ROLE_NAMES).spec
    assert spec.image == wanted
    (lab / "needs.txt").unlink()
    assert load_spec_json(dump_spec(spec), cluster=spec.name) == spec


def test_everything_that_is_wrong_is_told_with_its_place(lab: Path) -> None:
    (lab / "needs.txt").write_text("submitit\n--pre\n\nx/y\n")
    told = refused(
        lab, "\n  python: [torch, a b]\n  requirements: needs.txt\n  roles:\n  - roles/motd\n  - roles/none\n  - base"
    )
    places = [problem.split(" '")[0].split(" (")[0] for problem in told]
    assert places == [
        f"image.requirements: line 4: {lab}/needs.txt line 2:",
        f"image.requirements: line 4: {lab}/needs.txt line 4:",
        "image.python[1]: line 3:",
        "image.roles[1]: line 7:",
        "image.roles[2]: line 8:",
    ]
    assert "does not exist on the host" in told[3]
    assert "has the name of gpuprov's own role base" in told[4]
    assert all("(allowed: " in problem for problem in told)


def test_a_file_that_is_not_there_is_told(lab: Path) -> None:
    (told,) = refused(lab, "{requirements: none.txt}")
    assert told.startswith(f"image.requirements: line 2: {lab}/none.txt does not exist")
    (told,) = refused(lab, '{requirements: "a\\0b"}')
    assert "is not a path" in told


def test_packages_of_both_places_are_counted_together(lab: Path) -> None:
    (lab / "needs.txt").write_text("a\n" * 199)
    assert len(load(lab, "{python: [b], requirements: needs.txt}").python) == 200
    (told,) = refused(lab, "{python: [b, c], requirements: needs.txt}")
    assert told == "image.python: line 2: has 201 packages (allowed: 200 or fewer)"


def test_files_are_looked_up_below_the_root(lab: Path) -> None:
    found, problems = take_in_files(ImageSpec(requirements="needs.txt", roles=("roles/motd",)), Path("/"), root=lab)
    assert (found.python, problems) == (("submitit", "numpy>=1.26"), [])
    assert found.roles == ("/roles/motd",)
