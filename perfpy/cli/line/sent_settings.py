"""The settings of who asks, sent along to where recordings are read: other processes, other machines.

What enters: the configuration and the environment here. What leaves: the configuration there, the same, with the environment set.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.perfconfig import load

if TYPE_CHECKING:
    from perfpy.cli.line.perfconfig import Config

#: variables that say where symbols are
_FOR_SYMBOLS: Final = ("DEBUGINFOD_URLS", "PERF_BUILDID_DIR")


class SentSettings:
    """The configuration of who asks, and the servers and the cache for symbols that the environment names."""

    def __init__(self) -> None:
        self._config = load()
        self._environment = {name: os.environ[name] for name in _FOR_SYMBOLS if name in os.environ}

    def apply(self) -> Config:
        """The configuration, wherever this is called; what the environment names elsewhere stays."""
        for name, value in self._environment.items():
            os.environ.setdefault(name, value)
        return self._config
