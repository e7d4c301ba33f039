"""`perfpy version [--build-options]`: print the version, and the available features."""

from __future__ import annotations

import sys

from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, PerfCommand, option


class VersionCommandOptions(CommandOptions):
    """Options of `perfpy version`."""

    build_options: bool = option("--build-options", Flag(), "show available features and libraries")
    verbose: int = option("-v,--verbose", Counted(), "the same as --build-options")


def run(options: VersionCommandOptions) -> None:
    """Show the version of perfpy."""
    from perfpy.cli.line.examples import in_place_of_perf, version_line

    print(version_line())
    if options.build_options or options.verbose:
        for line in [*_features(), *([] if in_place_of_perf() else _parts())]:
            print(line)


def _features() -> list[str]:
    from perfpy.cli.check import FEATURES

    return [feature.line for feature in FEATURES]


_LIBRARIES = {
    "click": "the command line",
    "rich": "views on a terminal",
    "numpy": "report and script: samples as columns",
    "pyelftools": "report and script: symbols of programs",
    "pycxxfilt": "report and script: C++ and Rust names",
    "backports.zstd": "compressed recordings",
}


def _parts() -> list[str]:
    """Return a line for each library, in perf's layout: name, on or OFF, purpose."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    lines = [f"{'python':>22}: [ on  ]  # {platform.python_version()}, {platform.machine()}"]
    for name, purpose in _LIBRARIES.items():
        try:
            state, detail = "on ", version(name)
        except PackageNotFoundError:
            state, detail = "OFF", "not installed"
            if name == "backports.zstd" and sys.version_info >= (3, 14):
                state, detail = "on ", "in the standard library"
        lines.append(f"{name:>22}: [ {state} ]  # {detail}: {purpose}")
    return lines


command = PerfCommand(VersionCommandOptions, run)
