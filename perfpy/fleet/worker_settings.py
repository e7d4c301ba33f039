"""The settings of the process that reads many recordings, for the workers of its cluster: perf's configuration, symbol servers, cache."""

from __future__ import annotations

import os
from typing import Final, Generic, TypeVar

Config = TypeVar("Config")
#: environment variables with locations of symbols
_FOR_SYMBOLS: Final = ("DEBUGINFOD_URLS", "PERF_BUILDID_DIR")


class SentSettings(Generic[Config]):
    """The configuration, and the environment's symbol servers and cache, of the process that creates it.

    Args:
        config: the settings of its configuration files.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._environment = {name: os.environ[name] for name in _FOR_SYMBOLS if name in os.environ}

    def apply(self) -> Config:
        """Return the configuration in the worker. Environment variables of the worker take precedence."""
        for name, value in self._environment.items():
            os.environ.setdefault(name, value)
        return self._config
