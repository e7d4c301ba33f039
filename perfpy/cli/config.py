"""`perfpy config`: show or change settings in perf's configuration files.

The file is ~/.perfconfig, or /etc/perfconfig with --system. As in perf, a change rewrites the file without its comments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, option, words
from perfpy.cli.line.perfconfig import SYSTEM_FILE, Config, load_config, load_to_change, own_file
from perfpy.cli.output.output_files import write_text
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = "# this file is auto-generated.\n"


class ConfigCommandOptions(CommandOptions):
    """Options of `perfpy config`."""

    list: bool = option("-l,--list", Flag(), "show all settings")
    system: bool = option("--system", Flag(), "use the system's file, /etc/perfconfig")
    user: bool = option("--user", Flag(), "use the user's file, ~/.perfconfig")
    settings: tuple[str, ...] = words("[SECTION.NAME[=VALUE]]...")


def run(options: ConfigCommandOptions) -> int:
    """Show settings, or change them: `config report.children=false`."""
    if options.system and options.user:
        raise PerfError("--system and --user exclude each other")
    if options.list and options.settings:
        print("config --list takes no names", file=sys.stderr)
        return 0  # perf exits with 0, too
    config = _settings(options)
    if not options.settings:
        for name, value in config.items():
            print(f"{name}={value}")
        return 0
    for text in options.settings:
        _show_or_set(text, config, options)
    return 0


def _settings(options: ConfigCommandOptions) -> Config:
    """Return the settings of one file, or of all."""
    if options.system or options.user:
        return load_config({"PERF_CONFIG": SYSTEM_FILE if options.system else own_file()})
    return load_config()


def _show_or_set(text: str, config: Config, options: ConfigCommandOptions) -> None:
    name, equals, value = text.partition("=")
    section, _, key = name.partition(".")
    if not section or "." not in name:
        raise PerfError(f"{text}: expected SECTION.NAME, for example report.children")
    if not key:
        raise PerfError(f"{text}: no name after the section; expected {section}.NAME")
    if not equals:
        if name.lower() in config:
            print(f"{name.lower()}={config[name.lower()]}")
        return
    if not value:
        raise PerfError(f"{text}: no value; {name}=VALUE sets it")
    _check(text, name, value)
    path = SYSTEM_FILE if options.system else own_file()
    settings = load_to_change(path)
    settings[name.lower()] = config[name.lower()] = value.strip()
    write_text(path, _text(settings))


def _check(text: str, name: str, value: str) -> None:
    """Raise PerfError for a setting that could not be read back."""
    words = name.replace("-", "").replace("_", "").split(".")
    if not all(word.isalnum() for word in words) or not words[-1][0].isalpha():
        raise PerfError(f"{text}: names consist of letters, digits, '-' and '_', and begin with a letter")
    if any(character in value for character in "\n\r\0"):
        raise PerfError(f"{name}: values cannot contain line breaks")


def _text(settings: Config) -> Iterator[str]:
    """Yield the file's lines, section by section."""
    yield _HEAD
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, value in settings.items():
        section, _, key = name.rpartition(".")
        sections.setdefault(section, []).append((key, value))
    for section, pairs in sections.items():
        first, _, second = section.partition(".")
        yield f'[{first} "{second}"]\n' if second else f"[{first}]\n"
        for key, value in pairs:
            yield f"\t{key} = {_quote(value)}\n"


def _quote(value: str) -> str:
    """Return a value as text for the file, quoted if reading would change it otherwise."""
    if value == value.strip() and not any(character in value for character in '#;"\\'):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


command = PerfCommand(ConfigCommandOptions, run)
