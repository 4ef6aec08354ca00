"""`play`: anybody's playbook on nodes, or on any hosts, as one run with a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.provision.site import Site, SiteResult, run_site

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.core.reporter import Reporter


def run_playbook(
    playbook: Path, *, inventories: tuple[str, ...], cluster: str, arguments: tuple[str, ...], reporter: Reporter
) -> SiteResult:
    """Run a playbook.

    Args:
        playbook: Its path.
        inventories: What `-i` takes; none means the nodes of `cluster`.
        cluster: Its name; empty for every node there is.
        arguments: More of ansible-playbook's own.
        reporter: Hears plays, tasks, differences and failures.

    Raises:
        UsageError: There is no such file.
        PlaybookError: Ansible did not get as far as running tasks.
    """
    missing = [path for path in (playbook,) if not path.is_file()]
    if missing:
        raise UsageError(
            f"there is no playbook {playbook}",
            evidence=f"{playbook.absolute()} is not a file",
            fix="use an existing playbook, such as site.yml",
        )
    with reporter.phase("play"):
        site = Site(playbook=playbook, inventories=inventories, cluster=cluster, arguments=arguments)
        return run_site(site, reporter=reporter)
