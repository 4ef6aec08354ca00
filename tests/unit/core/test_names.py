from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.core.names import check_cluster_name, check_node_name, expand_names, fold, name_cluster
from gpuprov.spec.addressing import node_name


def test_a_node_is_numbered_with_three_digits_at_least() -> None:
    assert [node_name("c", number) for number in (0, 12, 1000)] == ["c000", "c012", "c1000"]


@pytest.mark.parametrize("name", ["c", "c000", "gpu-node-1", "a" * 63])
def test_good_names(name: str) -> None:
    assert check_node_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "../x", "C000", "0c", "-c", "c-", "c_0", "a" * 64, "c 0", "c0\n", "é", "c٣", "c.d", "c[000-001]"]
)
def test_bad_names_are_refused_with_the_rule_and_an_example(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_node_name(name)
    assert "1 to 63" in caught.value.evidence
    assert "c000" in caught.value.fix


NO_CLUSTERS = [
    "",
    ".",
    "..",
    "../x",
    "/home/alice",
    "a/b",
    "a/..",
    "Lab",
    "lab-",
    "0lab",
    "a" * 33,
    "lab\n",
    "l b",
    "é",
]


@pytest.mark.parametrize("name", ["a", "lab", "gpu-lab-1", "a" * 32])
def test_good_names_of_clusters(name: str) -> None:
    assert check_cluster_name(name) == name


@pytest.mark.parametrize("name", NO_CLUSTERS)
def test_bad_names_of_clusters_are_refused_with_the_rule(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid cluster name") as caught:
        check_cluster_name(name)
    assert "1 to 32" in caught.value.evidence
    assert "gpuprov list" in caught.value.fix


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (["c000", "c001", "c002", "c003"], "c[000-003]"),
        (["c003", "c000", "c001", "c001"], "c[000-001,003]"),
        (["c005"], "c005"),
        (["c000", "c00"], "c00,c000"),
        (["web", "c000", "d001", "d000"], "c000,d[000-001],web"),
        (["c999", "c1000"], "c1000,c999"),
        (["8", "9"], "[8-9]"),
        ([], ""),
    ],
)
def test_fold(names: list[str], written: str) -> None:
    assert fold(names) == written


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("c[000-003]", ("c000", "c001", "c002", "c003")),
        ("c[000-001,005],web", ("c000", "c001", "c005", "web")),
        ("c000, c000", ("c000",)),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("c[0-1]-gpu", ("c0-gpu", "c1-gpu")),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand_names(text) == names


def test_fold_and_expand_are_each_others_inverse() -> None:
    names = [node_name("c", number) for number in (0, 1, 2, 7, 9, 10, 40)]
    assert sorted(expand_names(fold(names))) == names


@pytest.mark.parametrize(
    "text",
    ["", "c[003-001]", "c[", "c[]", "c[a-b]", "c000,,c001", "c[0-999999999]", "C[000-001]", "c[0-1][2-3]", "c]0"],
)
def test_bad_sets_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        expand_names(text)


def test_a_set_of_many_ranges_is_bounded_too() -> None:
    with pytest.raises(UsageError, match="not a valid set"):
        expand_names("a[0-999],b[0-999]")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("gpuprov cluster up -n 4, or --role plain", "gpuprov cluster up --name mine -n 4, or --role plain"),
        ("unfinished: gpuprov cluster up", "unfinished: gpuprov cluster up --name mine"),
        ("gpuprov rm c1; gpuprov cluster up    # again", "gpuprov rm c1; gpuprov cluster up --name mine    # again"),
        ("gpuprov cluster down", "gpuprov cluster down mine"),
        ("gpuprov verify c001", "gpuprov verify --cluster mine c001"),
        ("gpuprov smoke matmul c001", "gpuprov smoke matmul --cluster mine c001"),
        ("see gpuprov jobs", "see gpuprov jobs --cluster mine"),
        ("gpuprov jobs cancel 7", "gpuprov jobs cancel --cluster mine 7"),
        ("gpuprov submit", "gpuprov submit --cluster mine"),
        ("gpuprov start c001", "gpuprov start c001"),
        ("gpuprov person add ann_2-x", "gpuprov person add ann_2-x --cluster mine"),
    ],
)  # fmt: skip
def test_commands_name_another_cluster_than_the_default_one(words: str, named: str) -> None:
    assert name_cluster(words, "mine") == named
    assert named in (words, name_cluster(named, "other")), "a command that names one stays"
    assert name_cluster(words, "lab") == words
    assert name_cluster(words, "no\\1 cluster") == words
