from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.assets import get_asset
from gpuprov.provision.recipe import REQUIREMENTS, Recipe, image_recipe
from gpuprov.provision.role_recipe import RoleRecipe
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ImageSpec

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.gpu.wheels import CudaWheels

PLAIN, SLURM = RoleRecipe(), RoleRecipe(roles=("slurm",))


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    for role in ("base", "cuda", "slurm"):
        (tmp_path / "roles" / role / "tasks").mkdir(parents=True)
        (tmp_path / "roles" / role / "tasks" / "main.yml").write_text(f"# {role}\n")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "a.py").write_text("a\n")
    return image_recipe(
        ImageSpec(packages=("vim", "git", "vim")),
        role=SLURM,
        wheels="none",
        init="systemd",
        roles_path=tmp_path / "roles",
        smoke_kernels=tmp_path / "kernels",
    )


def image_of(role: RoleRecipe, like: Recipe) -> Recipe:
    return image_recipe(
        ImageSpec(),
        role=role,
        wheels="none",
        init="systemd",
        roles_path=like.roles_path,
        smoke_kernels=like.smoke_kernels,
    )


def test_the_same_recipe_has_the_same_fingerprint_wherever_it_lies(recipe: Recipe, tmp_path: Path) -> None:
    before = recipe.fingerprint
    recipe.roles_path.rename(tmp_path / "elsewhere")
    assert replace(recipe, roles_path=tmp_path / "elsewhere").fingerprint == before
    assert len(before) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"base": "trixie"},
        {"packages": ("git",)},
        {"requirements": ("numba-cuda",)},
        {"role": PLAIN},
    ],
)
def test_every_part_of_the_recipe_counts(recipe: Recipe, change: dict[str, object]) -> None:
    assert replace(recipe, **change).fingerprint != recipe.fingerprint  # type: ignore[arg-type]


def test_what_is_in_a_role_or_a_kernel_counts(recipe: Recipe) -> None:
    seen = {recipe.fingerprint}
    (recipe.roles_path / "slurm" / "tasks" / "main.yml").write_text("# other\n")
    seen.add(recipe.fingerprint)
    (recipe.roles_path / "slurm" / "tasks" / "main.yml").rename(recipe.roles_path / "slurm" / "tasks" / "b.yml")
    seen.add(recipe.fingerprint)
    (recipe.smoke_kernels / "a.py").write_text("b\n")
    seen.add(recipe.fingerprint)
    assert len(seen) == 4


def test_what_python_compiled_and_documentation_and_other_roles_do_not_count(recipe: Recipe) -> None:
    before = recipe.fingerprint
    (recipe.smoke_kernels / "__pycache__").mkdir()
    (recipe.smoke_kernels / "__pycache__" / "a.pyc").write_bytes(b"x")
    (recipe.roles_path / "base" / "README.md").write_text("x")
    (recipe.roles_path / "host").mkdir()
    (recipe.roles_path / "host" / "x").write_text("x")
    assert recipe.fingerprint == before


def test_what_a_role_brings_counts_and_is_what_ships_with_gpuprov(recipe: Recipe, tmp_path: Path) -> None:
    brings = image_of(RoleRecipe(roles=("slurm",), brings=("gpuwork",)), recipe)
    assert brings.brought == (get_asset("gpuwork"),)
    (tmp_path / "gpuwork").mkdir()
    own = replace(brings, brought=(tmp_path / "gpuwork",))
    seen = {replace(brings, brought=()).fingerprint, brings.fingerprint, own.fingerprint}
    (tmp_path / "gpuwork" / "record.py").write_text("a\n")
    seen.add(own.fingerprint)
    assert len(seen) == 4


def test_what_a_role_s_roles_are_told_and_the_templates_they_read_count(recipe: Recipe) -> None:
    template = recipe.roles_path.parent / "templates" / "broker" / "port.j2"
    template.parent.mkdir(parents=True)
    template.write_text("4369\n")
    reads = replace(recipe, role=RoleRecipe(templates=("broker",)))
    seen = {recipe.fingerprint, reads.fingerprint}
    template.write_text("4370\n")
    seen.add(reads.fingerprint)
    told = replace(reads, role=replace(reads.role, with_init=("broker",)))
    assert len(seen | {told.fingerprint}) == 4


def test_a_role_names_the_templates_that_its_roles_read() -> None:
    for name, role in ROLES.items():
        files = chain.from_iterable((get_asset("roles") / part).rglob("*.yml") for part in role.recipe.roles)
        read = {*chain.from_iterable(re.findall(r"/templates/(\w+)", file.read_text()) for file in files)}
        assert read == set(role.recipe.templates), name


def test_packages_have_no_order_and_no_doubles(recipe: Recipe) -> None:
    assert recipe.packages == ("git", "vim")


def test_the_user_s_python_packages_are_added_to_cuda_s_and_the_role_s(recipe: Recipe) -> None:
    spec = ImageSpec(python=("torch==2.*", "numpy<3", "torch==2.*"))
    folders = {"roles_path": recipe.roles_path, "smoke_kernels": recipe.smoke_kernels}
    made = image_recipe(spec, role=RoleRecipe(requirements=("celery",)), wheels="cu13", init="systemd", **folders)
    assert made.requirements == (*REQUIREMENTS["cu13"], "celery", "numpy<3", "torch==2.*")


def test_the_toolkit_makes_an_image_of_its_own(recipe: Recipe) -> None:
    folders = {"roles_path": recipe.roles_path, "smoke_kernels": recipe.smoke_kernels}

    def made(wheels: CudaWheels, *, toolkit: bool) -> Recipe:
        return image_recipe(ImageSpec(toolkit=toolkit), role=PLAIN, wheels=wheels, init="systemd", **folders)

    for wheels, compiler in (("none", "distributed"), ("cu12", "nvidia-cuda-nvrtc-cu12"), ("cu13", "nvidia-cuda-nvcc")):
        wheels = cast("CudaWheels", wheels)
        without, with_it = made(wheels, toolkit=False), made(wheels, toolkit=True)
        assert without.fingerprint != with_it.fingerprint
        assert (without.packages, with_it.packages) == ((), ("g++", "openssl"))
        more = set(with_it.requirements) - set(without.requirements)
        assert any(name.startswith(compiler) for name in more)
        assert "distributed>=2024.8" in more
        assert set(without.requirements) < set(with_it.requirements)


def test_the_user_s_roles_and_their_order_count_wherever_they_lie(recipe: Recipe, tmp_path: Path) -> None:
    for name in ("here/motd", "here/tools", "there/motd"):
        (tmp_path / name / "tasks").mkdir(parents=True)
        (tmp_path / name / "tasks/main.yml").write_text("[]\n")
    motd, tools, moved = (tmp_path / name for name in ("here/motd", "here/tools", "there/motd"))
    first = replace(recipe, own_roles=(motd, tools))
    seen = {recipe.fingerprint, first.fingerprint, replace(recipe, own_roles=(tools, motd)).fingerprint}
    assert replace(recipe, own_roles=(moved, tools)).fingerprint == first.fingerprint
    (motd / "files").mkdir()
    (motd / "files/motd.md").write_text("Hello\n")
    seen.add(first.fingerprint)
    assert len(seen) == 4
    assert first.roles == recipe.roles


def test_a_plain_node_has_no_slurm(recipe: Recipe) -> None:
    plain = image_of(PLAIN, recipe)
    assert plain.roles == ("base", "cuda")
    assert recipe.roles == ("base", "cuda", "slurm")


def test_a_base_of_the_engine_is_told_from_a_suite(recipe: Recipe) -> None:
    assert recipe.engine_image is None
    assert replace(recipe, base="image:my/image").engine_image == "my/image"


def test_another_init_makes_another_image(recipe: Recipe) -> None:
    assert replace(recipe, init="runit").fingerprint != recipe.fingerprint
