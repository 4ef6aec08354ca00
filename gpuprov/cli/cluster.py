"""Verbs of clusters: up, plan, down; and the spec that the first two work on."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from gpuprov.cli.agreement import agree_to_renew, asks_to_shrink, require_agreement, tells_of_jobs
from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_argument, engine_option, gpu_mode_option
from gpuprov.cli.gpu_options import cluster_gpu_options, typed_gpus
from gpuprov.cli.options import job_options, role_option
from gpuprov.cli.settings import DecidingFile, implied_cluster
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import CLUSTER
from gpuprov.core.rollback import REPEAT
from gpuprov.shapes.choices import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.fleet.done import BroughtUp, Done
    from gpuprov.lifecycle.cluster_down import DownLosses
    from gpuprov.lifecycle.cluster_order import ClusterOrder
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.choices import GpuMode, RoleName
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.nodes import NodeRow


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is ordered."""
    for option in reversed(
        (
            click.option(
                "-f", "--file", type=DecidingFile(path_type=Path), help="Spec file, gpuprov/v1 YAML (docs/spec.md)."
            ),
            click.option("-n", "--count", type=int, help="Number of nodes."),
            click.option(
                "--name",
                callback=implied_cluster,
                help=f"Name of the cluster.  [default: the spec's, or {DEFAULT_CLUSTER}]",
            ),
            role_option("Purpose of the new nodes."),
            click.option(
                "--bridge", metavar="NAME", help="Bridge of the NAT network of a new cluster.  [default: a free one]"
            ),
            click.option("--subnet", help="Subnet of that network, such as 10.9.3.0/24.  [default: a free one]"),
            cluster_gpu_options,
            click.option(
                "--share",
                is_flag=False,
                flag_value="true",
                metavar="[FOLDER]",
                help="Let the nodes share a folder of the host as /shared; over hosts, one that all have mounted.  "
                "[default folder, on one host: /srv/gpuprov/NAME]",
            ),
            click.option(
                "--prune", is_flag=True, help="Also remove nodes from create-node or clone that the spec does not have."
            ),
            click.option(
                "--renew",
                is_flag=True,
                help="Also replace nodes that have an older image, one after the other; waits for running jobs.",
            ),
            gpu_mode_option,
            engine_option,
        )
    ):
        function = option(function)
    return function


class _NamedByOption(click.Command):
    """A word too many is the name that `cluster down` takes as an argument, or a number of nodes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say with which option it is meant."""
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:
            word = excerpt(left[0])
            option = f"-n {word}" if word.isdecimal() else f"--name {word}" if CLUSTER.fullmatch(word) else "--help"
            raise UsageError(
                f"{ctx.command_path} takes no argument {word}",
                evidence=f"{ctx.get_usage().removeprefix('Usage: ')}; the cluster's name is an option",
                fix=f"{ctx.command_path} {option}",
            )
        return left


@command(
    spec_options,
    click.option("--keep-on-failure", is_flag=True, help="If the run fails, keep what it created, for inspection."),
    click.option(
        "--verify/--no-verify",
        default=True,
        help="Verify the nodes once they are up, if more than limits of jobs changed.",
    ),
    click.option(
        "--yes",
        is_flag=True,
        help="Do not ask before --renew replaces nodes, or nodes or the shared folder go because the file says less.",
    ),
    job_options,
    kind=_NamedByOption,
)
def up(session: Session, /, *, policy: JobsPolicy, **wanted: object) -> Result:
    """Create, grow, shrink or repair a cluster.

    Without -f, the command starts from the spec that is recorded with the cluster; options override it. Nodes beyond
    the count are removed, but not those that create-node or clone added, unless --prune is given. If nodes or the
    shared folder would go because the file says less than the cluster has, it asks on a terminal, and needs --yes
    elsewhere. Refused while jobs run on nodes that it would remove or restart.
    """
    from gpuprov.cli.session import open_fleet
    from gpuprov.stories.cluster_up import Asking, bring_up

    asking = Asking(
        shrink=asks_to_shrink(session, wanted),
        renew=None if wanted["yes"] else partial(agree_to_renew, session),
        gives_up=wanted["file"] is not None,
    )
    return _show(session, bring_up(open_fleet(session), cluster_order(session, wanted, policy), asking))


def _show(session: Session, result: BroughtUp) -> Result:
    """What changed and was found; unless it is to be quiet, also the nodes, and what to do next."""
    from msgspec import UNSET

    from gpuprov.cli.list import render_nodes
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.shapes.outcome import ClusterUp

    changed, spans = result.outcome.changed, bool(result.spec.hosts)
    text = ["\n".join(changed) or ("" if result.error else "unchanged")]
    shown = result.rows if not session.quiet else ()
    if shown:
        text += ["", render_nodes(shown, screen=session.screen, spans=spans, report=result.report)]
    if result.report is not None:
        from gpuprov.verify.report import problem_lines, summary

        text += [*([] if shown else [""]), *problem_lines(result.report), summary(result.report)]
    if shown:
        text += ["", next_steps(result.spec, shown)]
    hosts = (host.name for host in result.spec.hosts)
    document = ClusterUp(
        host=session.host.name,
        changed=changed,
        verify=result.report or UNSET,
        nodes=result.rows,
        hosts=host_statuses(hosts, result.failed, result.away) if spans else UNSET,
    )
    return Result(document=document, text="\n".join(text), error=result.error, code=0 if result.passed else 1)


@command(spec_options, kind=_NamedByOption)
def plan(session: Session, /, **wanted: object) -> Result:
    """Show what `cluster up` with the same options would change; changes nothing.

    If `cluster up` would be refused because of jobs, they are named below the changes, and the exit code is 2.
    """
    from msgspec import UNSET

    from gpuprov.cli.session import open_fleet
    from gpuprov.shapes.outcome import Plan
    from gpuprov.stories.cluster_up import Asking, plan_cluster

    has_file = wanted["file"] is not None
    asking = Asking(shrink=tells_of_jobs(session) if has_file else None, gives_up=has_file)
    try:
        planned = plan_cluster(open_fleet(session), cluster_order(session, wanted), asking)
    except GpuprovError as error:  # of another host
        raise _said_of_up(error) from error
    document = Plan(
        host=session.host.name,
        plan=planned.lines,
        kept=planned.kept,
        older=planned.older,
        shared=planned.shared or UNSET,
        unlimited=planned.unlimited or UNSET,
    )
    nothing = "nothing to do but to replace nodes" if planned.older else "nothing to do: the cluster matches its spec"
    lines = (*(planned.lines or (nothing,)), *planned.kept, *planned.older, *planned.unlimited)
    return Result(document=document, text="\n".join(lines), error=planned.error and _said_of_up(planned.error))


def _said_of_up(error: GpuprovError) -> GpuprovError:
    """The same, where it is for options that `cluster plan` lacks, of `cluster up` with what was typed."""
    for option in ("--drain", "--force"):
        error.fix = error.fix.replace(f"{REPEAT} with {option}", f"{_up_as_typed()} {option}")
    return error


def _up_as_typed() -> str:
    """The command line of `cluster up` with the options that were typed for `cluster plan`."""
    context, words = click.get_current_context(), ["gpuprov", "cluster", "up"]
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if value is not None and context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            words += [option.opts[0], *([] if value is True else [str(value)])]
    return shlex.join(words)


@command(cluster_argument, engine_option)
def spec(session: Session) -> Result:
    """Print the spec that a cluster was last brought up with, every key of it: a file for `cluster up -f`.

    The password in `worker.broker` is hidden: write it into the file. Values of variables are shown.
    """
    from gpuprov.shapes.recorded_spec import RecordedSpec
    from gpuprov.spec.serialize import plain_spec
    from gpuprov.stories.saved_cluster import recorded_spec, write_spec

    found = recorded_spec(session.fleet, session.cluster)
    document = RecordedSpec(host=session.host.name, spec=plain_spec(found))
    return Result(document=document, text=write_spec(found).rstrip())


@command(
    click.argument("file", type=click.Path()),
    cluster_argument,
    click.option("--shared", is_flag=True, help="Also save the files of the folder that the nodes share. Needs root."),
    engine_option,
)
def save(session: Session, file: str, *, shared: bool) -> Outcome:
    """Save to FILE what a new cluster would lack: the spec, this user's ssh keys and, if asked, shared files.

    FILE is an archive of tar. It is created, never overwritten, and only this user can read it: the spec may have
    secrets. The cluster goes on meanwhile; files that jobs write may be saved half-written.
    """
    from gpuprov.core.report_file import ReportFile
    from gpuprov.stories.saved_cluster import save_cluster

    after = f" {session.cluster}" if session.cluster != DEFAULT_CLUSTER else ""
    target = ReportFile(file, option="FILE", kind="cluster save", new=True, after=after)
    return save_cluster(session.fleet, session.cluster, target, shared=shared)


@command(click.argument("file", type=DecidingFile(path_type=Path)), engine_option)
def restore(session: Session, file: Path) -> Result:
    """Make a cluster as it was saved in FILE, on this machine or another one, and verify its nodes.

    Refused if there is a cluster of its name, or if the folder that its nodes share has something in it.
    """
    from gpuprov.cli.session import open_fleet
    from gpuprov.stories.saved_cluster import restore_cluster

    return _show(session, restore_cluster(open_fleet(session), file, engine=session.engine))


@command(
    cluster_argument,
    job_options,
    click.option(
        "--purge",
        is_flag=True,
        help="Also remove the folder that the nodes shared and what accounting recorded, with all their contents.",
    ),
    click.option("--yes", is_flag=True, help="Do not ask. Jobs still need --drain or --force."),
    engine_option,
)
def down(session: Session, policy: JobsPolicy, *, purge: bool, yes: bool) -> Done:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept.

    On a terminal, it says what will be lost and asks for the cluster's name. Elsewhere, it needs --yes. Refused while
    jobs run or wait.
    """
    from gpuprov.stories.cluster_down import take_down

    name = session.cluster
    options = f"{f' --engine {session.engine}' if session.engine else ''}{' --purge' if purge else ''}"
    again = f"gpuprov cluster down {name}{options} --yes"

    def agree(losses: DownLosses) -> None:
        if losses.busy and session.interactive:
            raise losses.busy
        more = ", with --drain to wait for the jobs, or with --force to end them" if losses.busy else ""
        if losses.lines:
            require_agreement(
                session,
                name,
                f"the cluster {name} would be removed",
                losses.lines,
                kept=f"the cluster {name} is kept",
                fix=f"{again}{more}",
            )

    return take_down(
        session.fleet,
        name,
        policy,
        purge=purge,
        agree=None if yes else agree,
        look_inside=session.interactive,
    )


def cluster_order(session: Session, options: Mapping[str, object], policy: JobsPolicy | None = None) -> ClusterOrder:
    """The cluster that these options ask for."""
    from gpuprov.lifecycle import cluster_order as workflow
    from gpuprov.lifecycle.leaving import SPARE_JOBS

    return workflow.ClusterOrder(
        file=cast("Path | None", options["file"]),
        name=cast("str | None", options["name"]),
        count=cast("int | None", options["count"]),
        role=cast("RoleName | None", options["role"]),
        gpus=typed_gpus(options),
        gpu_mode=cast("GpuMode | None", options["gpu_mode"]),
        bridge=cast("str | None", options["bridge"]),
        subnet=cast("str | None", options["subnet"]),
        share=workflow.read_share(cast("str | None", options["share"])),
        prune=bool(options["prune"]),
        renew=bool(options["renew"]),
        verify=bool(options.get("verify")),
        keep_on_failure=bool(options.get("keep_on_failure")),
        engine=session.engine,
        policy=policy or SPARE_JOBS,
    )


def next_steps(spec: ClusterSpec, rows: Sequence[NodeRow]) -> str:
    """A few commands that work on the cluster as it is: in nodes that run, with jobs where one of them gives work."""
    from gpuprov.core.names import name_cluster
    from gpuprov.roles.registry import roles_of

    if not rows:
        return ""
    running = [row.name for row in rows if row.status == "running"]
    lines = ["next:"]
    for role in roles_of(row.role for row in rows if row.name in running):
        controllers = role.controller_names(spec)
        if not controllers or any(controller in running for controller in controllers):
            names = [row.name for row in rows if row.role == role.name and row.name in running]
            lines += [f"  {step}" for step in role.next_steps(spec, names)]
    lines += [f"  gpuprov shell {name}" for name in running[:1]]
    lines += ["  gpuprov cluster status", "  gpuprov cluster down"]
    return name_cluster("\n".join(lines), spec.name)
