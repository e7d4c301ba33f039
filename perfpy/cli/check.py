"""`perfpy check feature NAME[,NAME...]`: whether what perf has by this name is there; the exit status says it, too."""

from __future__ import annotations

import sys
from typing import Final

from perfpy.cli.line.kinds import Flag
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, words
from perfpy.errors import PerfError

_MISSING: Final = 1


class CheckCommandOptions(CommandOptions):
    """What the command takes."""

    quiet: bool = option("-q,--quiet", Flag(), "print nothing, only set the exit status")
    arguments_given: tuple[str, ...] = words("feature NAME[,NAME...]")


def run(options: CheckCommandOptions) -> int:
    """Tell whether features of perf are there: exit status 0 when all are, 1 when one is not."""
    asked, *names = options.arguments_given or ("",)
    if asked != "feature":
        fail(f"there is no check of {asked!r}: check feature NAME" if asked else "check what? check feature NAME")
    if not names:
        fail("check feature needs a name; version --build-options lists them")
    if len(names) > 1:
        raise PerfError("check feature takes one list of names, with commas: NAME,NAME")
    return 0 if all(_there(name, quiet=options.quiet) for name in names[0].split(",")) else _MISSING


def _there(name: str, *, quiet: bool) -> bool:
    from perfpy.cli.features import find

    feature = find(name)
    if feature is None:
        print(f"Unknown feature '{name}', please use 'perf version --build-options' to see which ones are available.", file=sys.stderr)
        return False
    if not quiet:
        print(feature.line)
    return feature.there()


command = PerfCommand(CheckCommandOptions, run)
