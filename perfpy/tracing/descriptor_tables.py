"""The descriptors of one process."""

from __future__ import annotations

from typing import NamedTuple


class OpenFile(NamedTuple):
    """The file that a descriptor refers to."""

    name: str
    closes_on_exec: bool = False


class DescriptorTable:
    """The descriptors of one process, and its current folder."""

    __slots__ = ("files", "folder")

    def __init__(self, files: dict[int, OpenFile] | None = None, folder: str = "") -> None:
        self.files = files or {}
        self.folder = folder

    def copy(self) -> DescriptorTable:
        """Return a copy for a child."""
        return DescriptorTable(dict(self.files), self.folder)
