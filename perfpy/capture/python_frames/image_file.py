"""The ELF image of Python functions: its file in the build-id cache, and its copy in finished recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.runtimes.rewriting import append_section
from perfpy.errors import PerfError
from perfpy.perfdata.container.kept_files import encode
from perfpy.perfdata.reader import PerfData
from perfpy.untrusted.destinations import create_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def write_image(path: str, image: bytes) -> None:
    """Create the image's file. Raises OSError."""
    with open(create_new(path), "wb") as file:
        file.write(image)


def keep_images(files: Iterable[str], images: Mapping[str, bytes], tell: Callable[[str], None]) -> None:
    """Add images to recordings (kept_files), and warn of recordings that cannot be extended.

    Args:
        files: paths of recordings, written a moment ago.
        images: path -> bytes.
        tell: prints a warning.
    """
    section = encode(images, NATIVE_ENDIAN)
    for path in files:
        try:
            with PerfData(path, check_owner=True) as data:
                append_section(path, data, section)
        except PerfError as failure:
            tell(f"warning: --python: {failure}; the lines of Python functions are not in the recording")
