"""Groups of commands that suggest one where none has the name typed."""

from __future__ import annotations

import click

from r2b._files import did_you_mean


class Commands(click.Group):
    """A group that suggests a command where none has the name typed."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which is spelled like it."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f"The commands are {', '.join(known)}."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)
