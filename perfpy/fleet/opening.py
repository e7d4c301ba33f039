"""Open recordings by path or URL."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from perfpy.errors import BadPerfDataError, PerfError
from perfpy.fleet.remote import Fetched, is_url
from perfpy.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from perfpy.symbols.files.debug_files import SymbolOptions


@contextmanager
def open_recording(path: str, *, check_owner: bool, symbols: SymbolOptions | None = None) -> Iterator[Recording]:
    """Open a recording by its path or URL. Raises BadPerfDataError."""
    fetched = Fetched(path) if is_url(path) else None
    try:
        with Recording(cast("BinaryIO", fetched) if fetched else path, check_owner=check_owner, symbols=symbols) as recording:
            yield recording
    finally:
        if fetched:
            fetched.close()


def read_first(paths: Sequence[str], tell: Callable[[Recording], Any], *, check_owner: bool) -> Any:
    """Return tell()'s result for the first recording that it accepts. Raises PerfError if none is."""
    refused: PerfError | None = None
    for path in paths:
        try:
            with open_recording(path, check_owner=check_owner) as recording:
                return tell(recording)
        except PerfError as error:
            if refused is None or (isinstance(refused, BadPerfDataError) and not isinstance(error, BadPerfDataError)):
                refused = error
    raise refused or PerfError("no recordings")
