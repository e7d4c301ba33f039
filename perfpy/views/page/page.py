"""A profile -> one HTML file that needs nothing else.

What enters: stacks of one recording, or of two to be compared; what is said of them; the code of hot functions. What leaves: the
text of a page: page.html with the style, the scripts beside it and the data put in. A policy in the page (Content Security Policy,
level 3) lets the browser run these scripts alone, by their hash, load nothing, send nothing, and make no markup of text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.untrusted.page import page_json
from perfpy.views.page.profile_data import numbered_marks, profile_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.analysis.stacks.stacks import Stacks

_FOLDER: Final = Path(__file__).parent
#: each may use what those before it export
SCRIPTS: Final = (
    *("words", "trees", "unpack", "tries", "selection", "loads", "colours", "flame", "timeline", "heat", "functions", "code", "filters"),
    "main",
)
_IMPORT: Final = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.MULTILINE)


class PageText(NamedTuple):
    """What is said of the profile. title; environment: short phrases (host, seconds ...); verdict: how far to trust it, a line each."""

    title: str
    environment: Sequence[str] = ()
    verdict: Sequence[str] = ()


def render(
    parts: Sequence[Stacks],
    text: PageText,
    *,
    after: Sequence[Stacks] | None = None,
    code: Sequence[Mapping[str, Any]] = (),
    files: Sequence[Mapping[str, Any]] = (),
    marks: Mapping[str, Mapping[tuple[str, str], str]] | None = None,
) -> str:
    """The page.

    parts: the stacks of each event; after: those of a second recording, to show what changed; events that only one of the two has
    are left out. code: functions with their instructions; files: source files with their lines (perfpy.views.page.code_data).
    marks: by event, of functions (name, file) whose change has a star, why.
    """
    data = profile_data([parts] if after is None else [parts, after])
    data |= {
        "title": text.title,
        "environment": list(text.environment),
        "verdict": [*text.verdict, *_grain(data)],
        "code": list(code),
        "files": list(files),
        "marks": [numbered_marks(data, (marks or {}).get(event["event"], {})) for event in data["events"]],
    }
    page, style, script = _parts()
    pieces = {
        "POLICY": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        "STYLE": style,
        "DATA": page_json(data),
        "SCRIPT": script,
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda match: pieces[match[1]], page)


def _grain(data: Mapping[str, Any]) -> list[str]:
    """What is to be said of times that are not the samples' own."""
    if not data["together"]:
        return []
    return [f"there are so many samples that those alike within {data['tick'] / 1e6:.3g} ms are one here: times and ranges are no finer"]


@cache
def _parts() -> tuple[str, str, str]:
    """The page's frame, its style and its script."""
    texts = {name: (_FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *(f"{one}.js" for one in SCRIPTS))}
    bodies = (_EXPORT.sub("", _IMPORT.sub("", texts[f"{name}.js"])) for name in SCRIPTS)
    return texts["page.html"], texts["page.css"], '"use strict";\n(() => {\n' + "\n".join(bodies) + "})();\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
