"""Settings of the user's process, sent to worker processes and other machines that read recordings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.perfconfig import load

if TYPE_CHECKING:
    from perfpy.cli.line.perfconfig import Config

#: Environment variables with locations of symbols.
_FOR_SYMBOLS: Final = ("DEBUGINFOD_URLS", "PERF_BUILDID_DIR")


class SentSettings:
    """The configuration, and the environment's symbol servers and cache, of the process that creates it."""

    def __init__(self) -> None:
        self._config = load()
        self._environment = {name: os.environ[name] for name in _FOR_SYMBOLS if name in os.environ}

    def apply(self) -> Config:
        """Return the configuration in the worker. Environment variables of the worker take precedence."""
        for name, value in self._environment.items():
            os.environ.setdefault(name, value)
        return self._config
