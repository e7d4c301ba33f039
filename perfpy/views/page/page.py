"""Render a profile as one self-contained HTML file: page.html with its style, scripts and data.

A policy in the page (Content Security Policy,
level 3) lets the browser run only these scripts, by their hash; they load nothing, send nothing, and create no markup from text.
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
#: each may use the exports of those before it
SCRIPTS: Final = (
    *("words", "trees", "unpack", "tries", "selection", "loads", "colours", "flame", "timeline", "heat", "functions", "code", "filters"),
    "main",
)
_IMPORT: Final = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.MULTILINE)


class PageText(NamedTuple):
    """The texts of a page.

    Attributes:
        title: of the recording.
        environment: short phrases (host, seconds ...).
        verdict: lines on the accuracy.
        headline: sentences on where the time goes.
    """

    title: str
    environment: Sequence[str] = ()
    verdict: Sequence[str] = ()
    headline: Sequence[str] = ()


def render(
    parts: Sequence[Stacks],
    text: PageText,
    *,
    after: Sequence[Stacks] | None = None,
    code: Sequence[Mapping[str, Any]] = (),
    files: Sequence[Mapping[str, Any]] = (),
    marks: Mapping[str, Mapping[tuple[str, str], str]] | None = None,
) -> str:
    """Return the page.

    Args:
        parts: the stacks of each event.
        text: title and notes.
        after: those of a second recording, to show changes; events that only one has are skipped.
        code: functions with their instructions; files: source files with their lines (perfpy.views.page.code_data).
        marks: for each event, (name, file) of functions with a significant change -> text.
    """
    data = profile_data([parts] if after is None else [parts, after])
    data |= {
        "title": text.title,
        "environment": list(text.environment),
        "headline": list(text.headline),
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
    """Return a note on times if samples were merged."""
    if not data["together"]:
        return []
    return [f"samples that differ by less than {data['tick'] / 1e6:.3g} ms are merged: times and ranges are no finer"]


@cache
def _parts() -> tuple[str, str, str]:
    """Return the page's frame, its style and its script."""
    texts = {name: (_FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *(f"{one}.js" for one in SCRIPTS))}
    bodies = (_EXPORT.sub("", _IMPORT.sub("", texts[f"{name}.js"])) for name in SCRIPTS)
    return texts["page.html"], texts["page.css"], '"use strict";\n(() => {\n' + "\n".join(bodies) + "})();\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
