"""The accounts of people as files of nodes."""

from __future__ import annotations

from gpuprov.cluster.people_files import APPLIED, is_about_people, keys_digest, people_files
from gpuprov.shapes.base import changed
from gpuprov.spec.people import account_gid
from tests.unit.spec.test_people import ANN, BOB, DORA, key

VISION = account_gid("vision")


def contents(*people: object, shared: bool = True) -> dict[str, list[str]]:
    files = people_files(people, shared=shared)  # type: ignore[arg-type]
    return {file.path: file.content.decode().splitlines() for file in files}


def test_everybody_has_an_account_a_group_and_no_password() -> None:
    found = contents(ANN, BOB)
    assert found["/var/lib/extrausers/passwd"] == [
        "ann:x:10001:10001::/shared/home/ann:/bin/bash",
        "bob:x:10002:10002::/shared/home/bob:/bin/bash",
    ]
    assert found["/var/lib/extrausers/group"] == [
        "people:x:59401:ann,bob",
        "ann:x:10001:",
        "bob:x:10002:",
        f"vision:x:{VISION}:ann",
    ]
    assert found["/var/lib/extrausers/shadow"] == ["ann:*:::::::", "bob:*:::::::"]


def test_keys_and_passwords_are_readable_by_root_alone() -> None:
    modes = {file.path: (file.mode, file.uid, file.gid) for file in people_files((ANN,), shared=True)}
    assert modes["/etc/gpuprov/people/keys"] == (0o600, 0, 0)
    assert modes["/var/lib/extrausers/shadow"] == (0o640, 0, 42)
    assert contents(ANN)["/etc/gpuprov/people/keys"] == [f"ann {key()}"]


def test_folders_are_on_the_shared_folder_where_there_is_one() -> None:
    closed = [f"0700 59400 59400 /shared/{name}" for name in ("jobs", "grids", "anneal", "programs")]
    assert contents(ANN, BOB)["/etc/gpuprov/people/folders"] == [
        *closed,
        "0711 0 0 /shared/home",
        "0711 0 0 /shared/accounts",
        "0700 10001 10001 /shared/home/ann",
        "0700 10002 10002 /shared/home/bob",
        f"2770 0 {VISION} /shared/accounts/vision",
    ]
    assert contents(ANN, shared=False)["/etc/gpuprov/people/folders"] == ["0700 10001 10001 /home/ann"]


def test_somebody_of_a_directory_is_in_the_group_of_an_account_and_has_a_limit_alone() -> None:
    found = contents(DORA, ANN)
    lines = {path: [line for line in lines if "dora" in line] for path, lines in found.items() if path != APPLIED}
    assert {path: lines for path, lines in lines.items() if lines} == {
        "/var/lib/extrausers/group": [f"vision:x:{VISION}:ann,dora"],
        "/etc/gpuprov/people/limits": ["dora 1"],
    }
    assert found["/etc/gpuprov/people/limits"] == ["ann 2", "dora 1"]
    assert keys_digest((ANN, DORA)) == keys_digest((ANN,))
    alone = contents(DORA)["/etc/gpuprov/people/folders"]
    assert (alone[-1], alone[-2]) == (f"2770 0 {VISION} /shared/accounts/vision", "0711 0 0 /shared/accounts")


def test_without_people_the_files_are_empty() -> None:
    found = contents()
    assert {path for path, lines in found.items() if lines} == {APPLIED, "/etc/gpuprov/people/login"}


def test_people_log_in_to_the_node_that_is_for_it() -> None:
    files = people_files((ANN,), shared=True, login=True)
    assert [file.content for file in files if file.path.endswith("/login")] == [b"yes\n"]
    assert contents(ANN)["/etc/gpuprov/people/login"] == ["no"]


def test_the_order_in_the_spec_does_not_matter() -> None:
    assert people_files((ANN, BOB), shared=True) == people_files((BOB, ANN), shared=True)
    assert keys_digest((ANN, BOB)) == keys_digest((BOB, ANN))


def test_the_digest_changes_with_any_of_them() -> None:
    assert contents(ANN)[APPLIED] != contents(changed(ANN, keys=()))[APPLIED]


def test_all_of_them_are_about_people() -> None:
    assert all(is_about_people(file) for file in people_files((ANN,), shared=True))
