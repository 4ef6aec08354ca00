"""A command line of `docker run`, as Docker's own client reads it."""

from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.spec.docker_run import parse_docker_run


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("docker run image", {}),
        ("/usr/bin/docker container create image sh -c --privileged", {}),
        ("docker run -it image", {"interactive": ("true",), "tty": ("true",)}),
        ("docker run -dite A=1 -eB=2 -e=C=3 image", {
            "detach": ("true",), "interactive": ("true",), "tty": ("true",), "env": ("A=1", "B=2", "C=3")}),
        ("docker run -v/a:/b -u 7 --net host image", {"volume": ("/a:/b",), "user": ("7",), "network": ("host",)}),
        ("docker run --privileged=false --rm=T image", {"privileged": ("false",), "rm": ("true",)}),
        ("docker run --env --privileged image", {"env": ("--privileged",)}),
        ("docker run --gpus=device=0 -- image --pid host", {"gpus": ("device=0",)}),
        ("docker run -t=false image", {"tty": ("false",)}),
        ("docker run --name= image", {"name": ("",)}),
    ],
)  # fmt: skip
def test_options_end_where_the_image_is_named(line: str, options: dict[str, tuple[str, ...]]) -> None:
    run = parse_docker_run(line.split(" "))
    assert (run.image, run.options) == ("image", options)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "this is no docker run"),
        ("podman run image", "this is no docker run"),
        ("docker", "this is no docker run"),
        ("docker exec image", "this is no docker run"),
        ("docker --host x run image", "this is no docker run"),
        ("docker run", "without an image"),
        ("docker run --rm", "without an image"),
        ("docker run --env", "--env has no value"),
        ("docker run -ite", "-ite has no value"),
        ("docker run --priviliged image", "--priviliged is not known"),
        ("docker run -x image", "-x is not known"),
        ("docker run -ix image", "-ix is not known"),
        ("docker run --en A=1 image", "--en is not known"),
        ("docker run --privileged=yes image", "--privileged=yes is neither true nor false"),
    ],
)
def test_what_nobody_can_be_sure_of_is_refused(line: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_docker_run(line.split())
    assert words in caught.value.what
    assert caught.value.evidence
    assert caught.value.fix
