r"""Describe events and metrics in short plain words.

Makers' descriptions belong to them. tables/descriptions.tsv has perfpy's own:

    NAME \t description of the event or metric
    *WORD \t meaning of a word in names, "" if it says nothing

The description of any other name is made of the meanings of its words: `l2_rqsts.demand_data_rd_miss` -> "L2 rqsts: demand data reads
misses". A counter mask, an edge and an inversion among the terms are told in parentheses.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

_FILE: Final = os.path.join(os.path.dirname(__file__), "tables", "descriptions.tsv")
#: names of Intel's top-down metrics begin with the first, those of metrics that only inform with the second
_TOP_DOWN: Final = "tma_"
_INFORMATION: Final = "tma_info_"
_LEVEL_OF: Final = "_group"


class _Meanings(dict[str, str]):
    """The meanings of words; others mean themselves."""

    def __missing__(self, word: str) -> str:
        self[word] = word
        return word


class Descriptions:
    """The descriptions of names, read on first use."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._words = _Meanings()
        self._subjects: dict[str, str] = {}
        with open(_FILE, encoding="utf-8") as file:
            for line in file:
                key, _, text = line.rstrip("\n").partition("\t")
                if key[0] == "*":
                    self._words[key[1:]] = text
                else:
                    self._names[key] = text

    def event(self, name: str, terms: str = "") -> str:
        """Return the description of an event."""
        lower = name.lower()
        text = self._names.get(lower)
        if text is not None:
            return text
        subject, dot, rest = lower.partition(".")
        text = self._subjects.get(subject, "")
        if not text:
            text = self._subjects[subject] = _capitalized(self._phrase(subject))
        if dot:
            text += f": {self._phrase(rest.replace('.', '_'))}"
        return text + (_limits(terms) if "cmask" in terms or "edge" in terms else "")

    def metric(self, name: str, unit: str = "") -> str:
        """Return the description of a metric. `unit` is its scale and unit."""
        lower = name.lower()
        text = self._names.get(lower)
        if text is None:
            text = self._phrase(lower.removeprefix(_INFORMATION).removeprefix(_TOP_DOWN))
            is_share = unit.startswith("100%") and lower.startswith(_TOP_DOWN) and not lower.startswith(_INFORMATION)
            text = f"Share of time or slots: {text}" if is_share else _capitalized(text)
        return text

    def group(self, name: str) -> str:
        """Return the description of a group of metrics; "" if its name says it."""
        if name.startswith(_TOP_DOWN) and name.endswith(_LEVEL_OF):
            part = name.removeprefix(_TOP_DOWN).removesuffix(_LEVEL_OF)
            return f"Metrics of level {part[1:]} of the top-down method" if part[:1] == "L" else f"Parts of {_TOP_DOWN}{part}"
        if name.startswith("TopdownL"):
            return f"Metrics of level {name[8:]} of the top-down method"
        return ""

    def _phrase(self, words: str) -> str:
        text = " ".join(filter(None, map(self._words.__getitem__, words.split("_"))))
        return text.replace("cache cache", "cache") if "cache cache" in text else text  # l1d_cache: "L1 data cache", "cache"


_read: list[Descriptions] = []


def descriptions() -> Descriptions:
    """Return the descriptions, which are read once."""
    if not _read:
        _read.append(Descriptions())
    return _read[0]


def group_text(group: str) -> str:
    """Return the description of a metric group; "" if its name says it."""
    return descriptions().group(group)


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _limits(terms: str) -> str:
    """Return what a counter mask, an inversion and an edge make of an event."""
    values = dict(term.partition("=")[::2] for term in terms.split(","))
    mask = values.get("cmask", "")
    text = ""
    if mask.isdigit() or mask.startswith("0x"):
        text = f"cycles with {'fewer than' if 'inv' in values else 'at least'} {int(mask, 0)}"
    if "edge" in values:
        text = f"beginnings of {text}" if text else "beginnings"
    return f" ({text})" if text else ""
