"""A recording as a folder: the file `data`, as any other, and beside it what the option asks for.

What enters: a folder's path. What leaves: the folder, made anew, with a file `data`; the one that was there before as PATH.old.
"""

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
                os.unlink(self.path)  # an empty file, which nobody keeps
            os.mkdir(self.path, 0o700)
        except OSError as error:
            raise OutputFailedError(self.path, os.strerror(error.errno or 0), remedy="choose another folder with -o") from None
        return FileWriter(os.path.join(self.path, MAIN_FILE))

    def abandon(self) -> None:
        """Nothing was recorded: leave things as they were."""
        self.writer.close()
        shutil.rmtree(self.path, ignore_errors=True)
        if self._old:
            with contextlib.suppress(OSError):
                os.rename(self._old, self.path)
