"""A recording as a folder: the file `data`, and further files of options. An existing folder is renamed to PATH.old."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

from perfpy.capture.output.output import RecordOutput, find_destination, rotate
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.writer import FileWriter
from perfpy.untrusted.folders import new_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.perfdata.container.writer import RecordWriter
    from perfpy.untrusted.destinations import FileDestination

MAIN_FILE: Final = "data"


class FolderOutput(RecordOutput):
    """A RecordOutput whose path is a folder."""

    def find_destination(self) -> FileDestination:
        """Return the destination of the folder."""
        if self.destination is None:
            self.destination = find_destination(self.path.rstrip("/") or "/")
        return self.destination

    def _open(self) -> RecordWriter:
        destination = self.find_destination()
        self._old = rotate(destination)
        try:
            with contextlib.suppress(FileNotFoundError):
                destination.remove_entry()  # an empty file, which is not kept as .old
            self.folder = new_folder(destination)
        except OSError as error:
            raise OutputFailedError(self.path, error.strerror or str(error), remedy="choose another folder with -o") from None
        return FileWriter(os.path.join(self.path, MAIN_FILE), self.create(MAIN_FILE))

    def create(self, name: str) -> int:
        """Create a file in the folder, through its descriptor: others may exchange the folder of that name."""
        try:
            return self.folder.create(name)
        except OSError as error:
            path = os.path.join(self.path, name)
            raise OutputFailedError(path, os.strerror(error.errno or 0), remedy="choose another folder with -o") from None

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the folder."""
        try:
            super().finish(features)
        finally:
            self.folder.close()

    def abandon(self) -> None:
        """Remove the folder, and restore the old one: nothing was recorded."""
        self.writer.close()
        destination = self.find_destination()
        if destination.is_now(os.fstat(self.folder.fd)):
            shutil.rmtree(destination.name, ignore_errors=True, dir_fd=destination.folder)
        self.folder.close()
        if self._old:
            with contextlib.suppress(OSError):
                destination.rename_entry(self._old, destination.name)
