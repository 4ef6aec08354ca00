"""Verbs with a node's name and a command after it: options of the verb may also stand between them."""

from __future__ import annotations

import click


class NodeCommand(click.Command):
    """`VERB [OPTIONS] NODE [OPTIONS] [--] [COMMAND...]`: what begins with `-` before the command is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the options first, as click wants them where the rest belongs to somebody else."""
        with_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        options: list[str] = []
        names: list[str] = []
        left = [*args]
        while left and left[0] != "--" and (left[0].startswith("-") or not names):
            word = left.pop(0)
            if not word.startswith("-"):
                names.append(word)
                continue
            options.append(word)
            if word in with_value and left:
                options.append(left.pop(0))
        return super().parse_args(ctx, [*options, *names, *left])
