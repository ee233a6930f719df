"""Groups of commands that know what was probably meant."""

from __future__ import annotations

from difflib import get_close_matches

import click


class Group(click.Group):
    """Name the nearest command when one is not known."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0].lower(), self.list_commands(ctx), 1, cutoff=0.5) if args else []
            if near and self.get_command(ctx, args[0]) is None:
                said = f"{error.message.rstrip('.')}. Did you mean {near[0]}?"
                raise click.UsageError(said, ctx) from None
            raise
