"""The image of Python functions, put into finished recordings.

What enters: recordings that we wrote a moment ago, and images by their names. What leaves: the recordings with them (kept_files).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.runtimes.rewriting import append_section
from perfpy.errors import PerfError
from perfpy.perfdata.container.kept_files import encode
from perfpy.perfdata.reader import PerfData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def keep_images(files: Iterable[str], images: Mapping[str, bytes], tell: Callable[[str], None]) -> None:
    """Put the images into recordings; tell of those that have no room for them."""
    section = encode(images, NATIVE_ENDIAN)
    for path in files:
        try:
            with PerfData(path, check_owner=True) as data:
                append_section(path, data, section)
        except PerfError as failure:
            tell(f"warning: --python: {failure}; the lines of Python functions are not in the recording")
