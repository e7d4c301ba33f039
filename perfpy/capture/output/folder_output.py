"""A recording as a folder: the file `data`, and further files of options. An existing folder is renamed to PATH.old."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final

from perfpy.capture.output.output import RecordOutput, rotate
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.writer import FileWriter

if TYPE_CHECKING:
    from perfpy.perfdata.container.writer import RecordWriter

MAIN_FILE: Final = "data"


class FolderOutput(RecordOutput):
    """A RecordOutput whose path is a folder."""

    def _open(self) -> RecordWriter:
        self._old = rotate(self.path)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)  # an empty file, which is not kept as .old
            os.mkdir(self.path, 0o700)
        except OSError as error:
            raise OutputFailedError(self.path, os.strerror(error.errno or 0), remedy="choose another folder with -o") from None
        return FileWriter(os.path.join(self.path, MAIN_FILE))

    def abandon(self) -> None:
        """Remove the folder, and restore the old one: nothing was recorded."""
        self.writer.close()
        shutil.rmtree(self.path, ignore_errors=True)
        if self._old:
            with contextlib.suppress(OSError):
                os.rename(self._old, self.path)
