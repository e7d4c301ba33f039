"""A failing case made small: fewer files, fewer options, fewer records, fewer bytes.

Input: a case and a test that says whether another one still fails in
the same way. Output: the smallest that was found in so many tries.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from tests.fuzz.recordings import take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fuzz.case import Case

Piece = TypeVar("Piece")
_SMALL = 64  # bytes: below it, cutting on is not worth the runs


class _SpentError(Exception):
    """No tries are left."""


def minimised(case: Case, fails: Callable[[Case], bool], tries: int = 300) -> Case:
    """The case with everything left out that its failure does not need."""
    left = tries
    best = case

    def keeps(candidate: Case) -> bool:
        nonlocal left, best
        if not left:
            raise _SpentError
        left -= 1
        if fails(candidate):
            best = candidate
            return True
        return False

    try:
        _without_files(best, keeps)
        _without_options(best, keeps)
        for path in sorted(best.files, key=lambda path: len(best.files[path])):
            _smaller_file(best, path, keeps)
    except _SpentError:
        pass
    return best


def _without_files(case: Case, keeps: Callable[[Case], bool]) -> None:
    for path in [path for path in case.files if path != case.stdin]:
        fewer = dataclasses.replace(case, files={name: data for name, data in case.files.items() if name != path})
        if keeps(fewer):
            case = fewer


def _without_options(case: Case, keeps: Callable[[Case], bool]) -> None:
    first = case.args.index("-i") + 2 if "-i" in case.args else 0  # what is read stays
    for size in (2, 1):
        at = first
        while at < len(case.args):
            fewer = dataclasses.replace(case, args=case.args[:at] + case.args[at + size :])
            if keeps(fewer):
                case = fewer
                continue
            at += 1


def _smaller_file(case: Case, path: str, keeps: Callable[[Case], bool]) -> None:
    def with_bytes(data: bytes) -> Case:
        return dataclasses.replace(case, files={**case.files, path: data})

    data = case.files[path]
    parts = take_apart(data)
    if parts is None:
        _fewer([data[at : at + 16] for at in range(0, len(data), 16)], lambda pieces: keeps(with_bytes(b"".join(pieces))))
        return
    for number in sorted(parts.features):
        feature = parts.features.pop(number)
        if not keeps(with_bytes(parts.joined())):
            parts.features[number] = feature

    def of_records(records: Sequence[bytes]) -> bool:
        return keeps(with_bytes(dataclasses.replace(parts, records=[*records]).joined()))

    _fewer(parts.records, of_records)


def _fewer(pieces: Sequence[Piece], keeps: Callable[[Sequence[Piece]], bool]) -> None:
    """Leave out halves, quarters and so on as long as it fails."""
    size = max(len(pieces) // 2, 1)
    while pieces:
        at = 0
        while at < len(pieces):
            fewer = [*pieces[:at], *pieces[at + size :]]
            if keeps(fewer):
                pieces = fewer
            else:
                at += size
        if size == 1:
            return
        size = max(size // 2, 1)
