"""`perfpy check feature NAME[,NAME...]`: check whether perf features are available."""

from __future__ import annotations

import sys
from typing import Final

from perfpy.cli.line.kinds import Flag
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, words
from perfpy.errors import PerfError

_MISSING: Final = 1


class CheckCommandOptions(CommandOptions):
    """Options of `perfpy check`."""

    quiet: bool = option("-q,--quiet", Flag(), "print nothing, only set the exit status")
    arguments_given: tuple[str, ...] = words("feature NAME[,NAME...]")


def run(options: CheckCommandOptions) -> int:
    """Check whether features of perf are available: exit status 0 if all are, else 1."""
    check, *names = options.arguments_given or ("",)
    if check != "feature":
        fail(f"unknown check {check!r}; usage: perfpy check feature NAME" if check else "no check given; usage: perfpy check feature NAME")
    if not names:
        fail("check feature requires a name; perfpy version --build-options lists them")
    if len(names) > 1:
        raise PerfError("check feature takes one comma-separated list: NAME,NAME")
    return 0 if all(_is_available(name, quiet=options.quiet) for name in names[0].split(",")) else _MISSING


def _is_available(name: str, *, quiet: bool) -> bool:
    from perfpy.cli.features import find

    feature = find(name)
    if feature is None:
        print(f"Unknown feature '{name}', please use 'perf version --build-options' to see which ones are available.", file=sys.stderr)
        return False
    if not quiet:
        print(feature.line)
    return feature.is_available()


command = PerfCommand(CheckCommandOptions, run)
