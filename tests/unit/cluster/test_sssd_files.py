"""A site's sssd.conf as files of nodes, and what is added to their image."""

from __future__ import annotations

from gpuprov.cluster.sssd_files import APPLIED, CONF, MORE, is_about_sssd, sssd_files
from gpuprov.provision.recipe import recipe_for
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ClusterSpec
from gpuprov.spec.sssd import LABEL_SSSD
from tests.unit.spec.test_sssd import CONF as TEXT


def test_root_alone_reads_it_and_it_is_as_the_site_wrote_it() -> None:
    files = {file.path: file for file in sssd_files(TEXT, shared=True)}
    assert list(files) == [CONF, MORE, APPLIED]
    assert files[CONF].content.decode() == TEXT
    assert {(files[path].mode, files[path].uid, files[path].gid) for path in (CONF, MORE)} == {(0o600, 0, 0)}
    assert b"hunter2" not in files[MORE].content + files[APPLIED].content
    assert all(map(is_about_sssd, files.values()))


def test_the_mark_tells_one_file_from_another_and_from_none() -> None:
    texts = (TEXT, TEXT.replace("hunter2", "hunter3"), None)
    marks = {sssd_files(text, shared=shared)[-1].content for text in texts for shared in (True, False)}
    assert len(marks) == 5  # without a directory it does not matter where homes would be


def test_images_of_every_role_have_it_where_the_spec_does() -> None:
    spec = ClusterSpec(sssd="/etc/site/sssd.conf", accounting=True)
    for role in ROLES.values():
        with_it, without = (recipe_for(one, role.recipe_of(one), "none", init="runit") for one in (spec, ClusterSpec()))
        assert with_it.roles[-1] == "sssd"
        assert with_it.role.variables("runit")["sssd"] == {"sssd_init": "runit"}
        assert {"sssd-common", "sssd-ldap", "libnss-sss", "libpam-sss"} <= {*with_it.packages}
        assert {*with_it.role.labels} >= {LABEL_SSSD, *role.recipe.labels}
        assert "sssd" not in without.roles
        assert LABEL_SSSD not in without.role.labels
