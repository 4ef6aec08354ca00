from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.drivers.base import LABEL_FINGERPRINT, LABEL_VERSION, File
from tests.contract.engines import Bench, refused, write_rootfs

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.engine import ImageState


def images(driver: Driver) -> dict[str, ImageState]:
    """Images of these tests."""
    return {image.id: image for image in driver.list_images() if "gpt-" in image.name}


def test_a_builder_becomes_an_image_and_nodes_come_from_it(bench: Bench) -> None:
    builder = bench.builder()
    bench.driver.start_node(builder)  # into a stopped one LXD writes by a helper that holds it for 10 s
    bench.await_boot(builder)
    bench.driver.push(builder, [File(path="/opt/recipe", content=b"done")])
    labels = {LABEL_FINGERPRINT: "f" * 64, "gpuprov.note": 'ü "x"\n'}
    image = bench.driver.publish_image(builder, "gpt-one", labels)
    try:
        assert bench.status(builder) == "absent"
        assert image.name.endswith("gpt-one")
        assert dict(image.labels) == labels
        assert images(bench.driver)[image.id] == image
        assert bench.driver.find_image(image.name) == image
        assert bench.driver.find_image("gpt-one") == image
        assert image.name not in [node.name for node in bench.driver.list_nodes()]
        name = bench.create(image=image.id)
        assert bench.driver.pull(name, "/opt/recipe") == b"done"
        state = bench.driver.find_node(name)
        assert state
        assert dict(state.labels) == dict(bench.request().labels)
        bench.driver.delete_image(image.id)
        assert bench.driver.pull(name, "/opt/recipe") == b"done"
    finally:
        bench.driver.delete_image(image.id)
    assert image.id not in images(bench.driver)
    assert bench.driver.find_image(image.name) is None


def test_a_builder_s_addresses_and_devices_do_not_come_along(bench: Bench) -> None:
    request = bench.request()
    name = bench.create(image=bench.image, attachments=())
    state = bench.driver.find_node(name)
    assert state
    assert dict(state.addresses) == {}
    assert state.devices == ()
    assert request.attachments


def test_an_unfinished_builder_is_no_image(bench: Bench) -> None:
    before = images(bench.driver)
    builder = bench.builder()
    try:
        assert images(bench.driver) == before
        assert bench.driver.find_image(builder) is None
    finally:
        bench.driver.delete_node(builder)


def test_an_image_s_name_is_taken(bench: Bench) -> None:
    before = images(bench.driver)
    builder = bench.builder()
    try:
        with refused(EngineError):
            bench.driver.publish_image(builder, "gpt-base", {LABEL_FINGERPRINT: "other"})
        assert images(bench.driver) == before
    finally:
        bench.driver.delete_node(builder)
    assert bench.status(builder) == "absent"


def test_only_builders_of_ours_become_images(bench: Bench, foreign: str) -> None:
    before = images(bench.driver)
    with refused(NotOurs):
        bench.driver.publish_image(foreign, "gpt-two", {LABEL_FINGERPRINT: "f"})
    with refused(EngineError):
        bench.driver.publish_image("gpt-absent", "gpt-two", {LABEL_FINGERPRINT: "f"})
    assert images(bench.driver) == before


def test_an_image_is_no_node_to_work_on(bench: Bench) -> None:
    image = bench.driver.find_image("gpt-base")
    assert image
    assert bench.driver.find_node(image.name) is None
    with refused(EngineError):
        bench.driver.create_node(bench.request(name=image.name))
    with refused(EngineError):
        bench.driver.start_node(image.name)
    with refused(EngineError):
        bench.driver.clone_node(image.name, bench.request())
    bench.driver.delete_node(image.name)
    assert bench.driver.find_image("gpt-base") == image


def test_a_foreign_instance_is_no_image_to_remove(bench: Bench, foreign: str) -> None:
    identity = bench.site.no_image(foreign)
    if identity:
        with refused(NotOurs):
            bench.driver.delete_image(identity)
    assert bench.status(foreign) == "stopped"


def test_a_node_is_no_image_to_remove(bench: Bench, node: str) -> None:
    identity = bench.site.no_image(node)
    if identity:
        with refused(NotOurs):
            bench.driver.delete_image(identity)
    assert bench.status(node) == "running"


def test_what_is_not_there_is_none_and_deleting_it_is_nothing(driver: Driver) -> None:
    for name in ("gpt-absent", "", "../x", "a b"):
        assert driver.find_image(name) is None
    driver.delete_image("instance:gpuprov-image-gpt-absent")
    driver.delete_image("image:" + "0" * 64)


def test_a_root_file_system_is_imported_once(bench: Bench, tmp_path: Path) -> None:
    rootfs = write_rootfs(tmp_path / "rootfs.tar", b"gpt")
    before = images(bench.driver)
    identity = bench.driver.import_rootfs("gpt-rootfs", rootfs, {LABEL_VERSION: "test"})
    try:
        assert bench.driver.import_rootfs("gpt-rootfs", rootfs, {LABEL_VERSION: "test"}) == identity
        assert images(bench.driver) == before
        name = bench.create(image=identity)
        if bench.real:
            assert bench.driver.pull(name, "/etc/marker") == b"gpt"
    finally:
        bench.driver.delete_image(identity)
    with refused(EngineError):
        bench.create(image=identity)


def test_a_root_file_system_that_is_not_there(driver: Driver, tmp_path: Path) -> None:
    with refused(EngineError):
        driver.import_rootfs("gpt-rootfs", str(tmp_path / "absent.tar"), {LABEL_VERSION: "test"})


@pytest.mark.usefixtures("real")
def test_a_root_file_system_that_is_none(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(b"this is no archive")
    with refused(EngineError):
        identity = driver.import_rootfs("gpt-rootfs", str(tmp_path / "bad.tar"), {LABEL_VERSION: "test"})
        driver.delete_image(identity)  # an engine may look at it only when a node is made from it
        raise EngineError("imported", evidence="not looked at", fix="none")


def test_what_has_the_name_of_an_image_to_be_is_told_and_left_alone(bench: Bench) -> None:
    driver = bench.driver
    assert driver.image_name_holder("gpt-base") is None, "ours has it"
    assert driver.image_name_holder("gpt-taken") is None
    bench.site.take_image_name("gpt-taken")
    holder = driver.image_name_holder("gpt-taken")
    assert holder
    assert "gpt-taken" in holder
    assert "gpt-taken" not in " ".join(image.name for image in driver.list_images())
    if bench.real:
        builder = bench.builder()
        with refused(EngineError):
            driver.publish_image(builder, "gpt-taken", {LABEL_FINGERPRINT: "f"})
        assert driver.image_name_holder("gpt-taken") == holder
        driver.delete_node(builder)
