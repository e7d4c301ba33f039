"""The places in code that a page's samples were taken at, numbered, so that the page can add up those of a range of time by line.

A site is a sampled frame together with the frame that its source line counts for: these differ in runtimes, which work for
functions that they name. Only sites of shown code get a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.annotation.source_files import FrameLines
    from perfpy.analysis.samples.locations import Locations

    Int64 = NDArray[np.int64]

_HALF = 32
_LOW = (1 << _HALF) - 1


class PageSites:
    """The sites of folded samples.

    Attributes:
        frame, line_frame: of each site: where the sample was taken, and what its source line counts for.
        site_of_row: the site of each row of folded samples.
    """

    def __init__(self, frame: Int64, line_frame: Int64, locations: Locations, lines: FrameLines) -> None:
        """Collect the sites of rows. lines: of the frames for lines."""
        sites, site_of_row = np.unique(frame << _HALF | line_frame, return_inverse=True)
        self.site_of_row: Int64 = site_of_row.ravel()
        self.frame, self.line_frame = sites >> _HALF, sites & _LOW
        self._number = np.zeros(len(sites), np.int64)
        self._lines = lines
        self._symbol = locations.symbol[self.frame].astype(np.int64)
        start = locations.symbol_bounds(self._symbol)[0]
        self._offset = (locations.address[self.frame] - start).astype(np.int64)

    @property
    def count(self) -> int:
        """The number of sites with a number."""
        return int(self._number.max(initial=0))

    def _numbers(self, sites: Int64) -> list[int]:
        """Return the numbers of sites, from 1 on; new ones get the next."""
        new = sites[self._number[sites] == 0]
        self._number[new] = self.count + 1 + np.arange(len(new))
        numbers: list[int] = self._number[sites].tolist()
        return numbers

    def in_function(self, symbol: int, bounds: Int64) -> list[tuple[int, int]]:
        """Return the instruction and the number of each site in a function. bounds: offsets of its instructions, and its size."""
        sites = np.flatnonzero(self._symbol == symbol)
        instruction = np.searchsorted(bounds, self._offset[sites], "right") - 1
        inside = (instruction >= 0) & (instruction < len(bounds) - 1)
        return list(zip(instruction[inside].tolist(), self._numbers(sites[inside]), strict=True))

    def in_file(self, path: str, shown: set[int]) -> list[tuple[int, int, int]]:
        """Return line, number and whether the line is the site's own, for each site in some lines of a file."""
        frame, line, own = self._lines.of_file(path)
        begin, end = (np.searchsorted(frame, self.line_frame, side) for side in ("left", "right"))
        spots: dict[tuple[int, int], int] = {}
        for site in np.flatnonzero(end > begin).tolist():
            for row in range(int(begin[site]), int(end[site])):
                if int(line[row]) in shown:
                    key = int(line[row]), site
                    spots[key] = max(spots.get(key, 0), int(own[row]))
        numbers = self._numbers(np.unique(np.array([site for _, site in spots], np.int64)))
        number_of = dict(zip(sorted({site for _, site in spots}), numbers, strict=True))
        return [(line, number_of[site], own) for (line, site), own in spots.items()]

    def of_rows(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of each row's site, 0 for none."""
        numbers: NDArray[np.int32] = self._number.astype(np.int32)[self.site_of_row][rows]
        return numbers
