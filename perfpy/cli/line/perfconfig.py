"""Read perf's configuration files.

The files are /etc/perfconfig and ~/.perfconfig, or only the file in PERF_CONFIG; PERF_CONFIG_NOSYSTEM and PERF_CONFIG_NOGLOBAL
skip one. Later files override earlier ones. The format is git's, described in perf-config(1): `[section]` or
`[section "sub"]`, then `key = value` lines; `#` and `;` start comments, values may be quoted, have backslash escapes, and
continue after a backslash at the end of the line; a key alone means true.

Settings name folders that perfpy writes to. A ~/.perfconfig of another user (sudo may keep HOME) is skipped with a line on
stderr. So are special files, because reading one may block forever; /dev/null is an empty file.
"""

from __future__ import annotations

import math
import os
import sys

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.errors import UsageError
from perfpy.untrusted.files import ForeignFileError, NotRegularFileError, read_regular, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

SYSTEM_FILE: Final = "/etc/perfconfig"
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_TRUE: Final = frozenset(("true", "yes", "on"))
_FALSE: Final = frozenset(("false", "no", "off", ""))
_LARGEST: Final = 16 << 20  # far above any real configuration


class Config(dict[str, str]):
    """Settings by their full lower-case name, for example "report.percent-limit"."""

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting. Raises UsageError if it is neither a boolean nor a number."""
        text = self.get(name)
        if text is None:
            return default
        word = text.lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        return self.number(name, 0) != 0

    def number(self, name: str, default: float) -> float:
        """Return a number or percentage; k, m and g multiply by 1024. Raises UsageError for other text."""
        text = self.get(name)
        if text is None:
            return default
        text = text.removesuffix("%")
        unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:].lower(), 1)
        try:
            number = float(text if unit == 1 else text[:-1]) * unit
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"configuration: {name} = {text!r} is not a number; correct or remove it")
        return number

    @property
    def build_id_folder(self) -> str:
        """The build-id cache's folder from --buildid-dir before the command, or from a setting; "" for the default."""
        return os.environ.get("PERF_BUILDID_DIR") or os.path.expanduser(self.get("buildid.dir", ""))


def files(environ: Mapping[str, str]) -> list[str]:
    """Return the configuration files to read, in order."""
    path = environ.get("PERF_CONFIG")
    if path:
        return [path]
    names = []
    if environ.get("PERF_CONFIG_NOSYSTEM", "") in ("", "0"):
        names.append(SYSTEM_FILE)
    if environ.get("HOME") and environ.get("PERF_CONFIG_NOGLOBAL", "") in ("", "0"):
        names.append(own_file(environ))
    return names


def own_file(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the user's settings: PERF_CONFIG or ~/.perfconfig."""
    return environ.get("PERF_CONFIG") or os.path.join(environ.get("HOME", "") or os.path.expanduser("~"), ".perfconfig")


def load_config(environ: Mapping[str, str] = os.environ) -> Config:
    """Return all settings. Missing, unreadable and untrusted files count as empty.

    As in perf, a line that cannot be parsed ends its file with a line on stderr; the settings before it apply.
    """
    config = Config()
    for name in files(environ):
        for setting, value in _settings(name, _owners(name, environ)):
            config[setting] = value
    return config


def load_to_change(name: str) -> Config:
    """Return the settings of one file in order to rewrite it. Raises UsageError if that would lose settings, OSError for a foreign file."""
    try:
        data = read_regular(name, owners=_owners(name, os.environ), limit=_LARGEST)
    except FileNotFoundError:
        return Config()
    return Config(parse(data.decode("utf-8", "surrogateescape"), name))


def _owners(name: str, environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the permitted owners of a file; None if any owner is trusted: a file named by PERF_CONFIG, or the system's."""
    return None if name in (environ.get("PERF_CONFIG"), SYSTEM_FILE) else trusted_file_owners()


def _settings(name: str, owners: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    try:
        yield from parse(_text(name, owners), name)
    except UsageError as error:
        print(f"Warning: {error}; ignoring the rest of the file", file=sys.stderr)


def _text(name: str, owners: tuple[int, int] | None) -> str:
    try:
        data = read_regular(name, owners=owners, limit=_LARGEST)
    except (ForeignFileError, NotRegularFileError) as error:
        if name != os.devnull:
            print(f"Warning: {name}: {error.strerror}; ignoring this configuration file", file=sys.stderr)
        return ""
    except OSError:
        return ""
    return data.decode("utf-8", "surrogateescape")


def parse(text: str, name: str = "perfconfig") -> Iterator[tuple[str, str]]:
    """Yield the settings of a file's text as (name, value) pairs. Raises UsageError(file, line)."""
    section = ""
    if "\0" in text:  # NUL would end a path.
        raise _bad(name, text[: text.index("\0")].count("\n") + 1)
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        setting = line.strip().removeprefix("\ufeff")
        if setting.startswith("["):
            section, setting = _section(setting, name, number)
        if not setting or setting[0] in "#;":
            continue
        key, equals, value = setting.partition("=")
        key = key.strip().lower()
        if not section or not key or not (key[0].isalpha() and key.replace("-", "").replace("_", "").isalnum()):
            raise _bad(name, number)
        if not equals:
            yield f"{section}.{key}", "true"
            continue
        parts = [value]
        while (len(parts[-1]) - len(parts[-1].rstrip("\\"))) % 2:  # ends in a backslash that none escapes
            parts[-1] = parts[-1][:-1]
            parts.append(next(lines, (number, ""))[1])
        yield f"{section}.{key}", _value("".join(parts), name, number)


def _bad(name: str, number: int) -> UsageError:
    return UsageError(f"bad configuration: {name}, line {number}; expected [section] or key = value")


def _section(line: str, name: str, number: int) -> tuple[str, str]:
    """Split a `[...]` line into its section and the text after it."""
    head, closed, following = line[1:].partition("]")
    words = head.split(None, 1)
    if not closed or not words:
        raise _bad(name, number)
    section = words[0].lower()
    if len(words) == 2:
        section += "." + words[1].strip().strip('"')
    return section, following.strip()


def _value(text: str, name: str, number: int) -> str:
    """Return a value without its quotes, escapes and comment."""
    out: list[str] = []
    quoted, length = False, 0
    chars = iter(text.strip())
    for char in chars:
        if char in "#;" and not quoted:
            break
        if char == '"':
            quoted = not quoted
            length = len(out)
        elif char == "\\":
            escaped = _ESCAPES.get(next(chars, ""))
            if escaped is None:
                raise _bad(name, number)
            out.append(escaped)
            length = len(out)
        else:
            out.append(char)
            if quoted or not char.isspace():
                length = len(out)
    if quoted:
        raise _bad(name, number)
    return "".join(out[:length])
