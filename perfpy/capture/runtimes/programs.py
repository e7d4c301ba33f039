"""Find the runtime of a command by the name of its program, or of the interpreter in its first line.

A command that starts others (sh, make, env) has none, but its children inherit the environment.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from perfpy.capture.runtimes.table import RUNTIMES
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.capture.runtimes.table import LanguageRuntime

_VERSION: Final = re.compile(r"[-.\d]*(?:t|d|m)?(?:\.exe)?$")  # of python3.13t, ruby3.1, php8.2
_LONGEST_LINE: Final = 256  # the kernel reads no more of a script (BINPRM_BUF_SIZE)


def runtime_of(program: str, environ: Mapping[str, str] = os.environ) -> LanguageRuntime | None:
    """Return the runtime that a program is, or that runs it."""
    path = find_program(program, environ)
    names = [program, os.path.realpath(path), *_interpreter(path)] if path else [program]
    return next((runtime for name in names if (runtime := _find_runtime(os.path.basename(name)))), None)


def find_program(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of a program by PATH; "" if there is none."""
    if "/" in name:
        return name if os.path.isfile(name) else ""
    candidates = (os.path.join(folder, name) for folder in environ.get("PATH", os.defpath).split(os.pathsep))
    return next((path for path in candidates if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def _find_runtime(name: str) -> LanguageRuntime | None:
    """Return the runtime with a program of that name, in any version."""
    plain = _VERSION.sub("", name)
    return next((runtime for runtime in RUNTIMES if name in runtime.programs or plain in runtime.programs), None)


def _interpreter(path: str) -> list[str]:
    """Return the interpreter of a script's first line: python3 for `#!/usr/bin/env -S python3 -u`, /bin/sh for `#!/bin/sh`."""
    try:
        with open_regular(path) as file:
            line = file.readline(_LONGEST_LINE)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode("utf-8", "surrogateescape").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[:1]
