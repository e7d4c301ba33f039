"""`perfpy help [COMMAND]`: what `perfpy COMMAND --help` prints."""

from __future__ import annotations

import click

from perfpy.cli.options import PerfCommand


@click.command(cls=PerfCommand)
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command, or of perfpy itself."""
    above = ctx.parent
    assert above is not None  # the group that found this command
    if name is None:
        click.echo(above.get_help())
        return
    group = above.command
    assert isinstance(group, click.Group)
    _, wanted, _ = group.resolve_command(above, [name])
    assert wanted is not None  # resolve_command raises for unknown names
    with click.Context(wanted, info_name=name, parent=above) as inner:
        click.echo(wanted.get_help(inner))
