"""Names that resemble a misspelt one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMPARED_MOST: Final = 20_000  # difflib takes a second for 50,000 names


def nearest(name: str, candidates: Iterable[str], most: int = 3) -> list[str]:
    """Return at most `most` names that resemble `name`, the nearest first."""
    import difflib  # only after a mistake

    target = name.casefold()
    folded: dict[str, str] = {}
    for candidate in candidates:
        if abs(len(candidate) - len(target)) <= max(2, len(target) // 3) or target in candidate.casefold():
            folded.setdefault(candidate.casefold(), candidate)
        if len(folded) >= _COMPARED_MOST:
            break
    matches = difflib.get_close_matches(target, folded, n=most, cutoff=0.6 if len(target) < 5 else 0.72)
    matches += [candidate for candidate in folded if len(target) > 2 and target in candidate and candidate not in matches]
    return [folded[candidate] for candidate in matches[:most]]
