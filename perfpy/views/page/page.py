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
    from perfpy.views.page.marks import Marks
    from perfpy.views.page.page_sites import PageSites
    from perfpy.views.page.wait_lanes import WaitLane

_FOLDER: Final = Path(__file__).parent
#: each may use the exports of those before it
SCRIPTS: Final = (
    *(
        f"model/{name}"
        for name in ("words", "trees", "unpack", "tries", "detail", "selection", "categories", "forms", "activity", "heat_cells", "marks")
    ),
    *(f"model/{name}" for name in ("stack_order", "permalink", "wait_lanes")),
    *(f"views/{name}" for name in ("elements", "brush", "flame", "tracks", "heat", "functions", "call_tree", "stack_chart", "marks_table")),
    *(f"views/{name}" for name in ("code", "details", "toolbar", "headline", "controls")),
    "main",
)
_IMPORT: Final = re.compile(r'^import \{ (.*) \} from "(?:\.\.?/)*(?:\w+/)?(\w+)\.js";\n', re.MULTILINE)
#: comments that begin a line; a test refuses texts over several lines, which would lose their indentation
_COMMENT: Final = re.compile(r"^[ ]*/\*.*?\*/[ ]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^\s+", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) (\w+))", re.MULTILINE)


class PageText(NamedTuple):
    """The texts of a page.

    Attributes:
        title: of the recording.
        environment: short phrases (host, seconds ...).
        verdict: lines on the accuracy.
        headline: sentences on where the time goes, each with the names in it, as (shown, recorded).
    """

    title: str
    environment: Sequence[str] = ()
    verdict: Sequence[str] = ()
    headline: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()


def render(
    parts: Sequence[Stacks],
    text: PageText,
    *,
    after: Sequence[Stacks] | None = None,
    code: Sequence[Mapping[str, Any]] = (),
    files: Sequence[Mapping[str, Any]] = (),
    starred: Mapping[str, Mapping[tuple[str, str], str]] | None = None,
    marks: Marks | None = None,
    sites: PageSites | None = None,
    lanes: Sequence[WaitLane] = (),
) -> str:
    """Return the page.

    Args:
        parts: the stacks of each event.
        text: title and notes.
        after: those of a second recording, to show changes; events that only one has are skipped.
        code: functions with their instructions; files: source files with their lines (perfpy.views.page.code_data).
        starred: for each event, (name, file) of functions with a significant change -> text.
        marks: forks, switches and other moments of one recording.
        sites: the places in code of one recording's samples.
        lanes: waits for CPUs and locks in one recording.
    """
    data = profile_data([parts] if after is None else [parts, after], marks, sites, lanes)
    data |= {
        "title": text.title,
        "environment": list(text.environment),
        "headline": [{"text": sentence, "names": [list(pair) for pair in names]} for sentence, names in text.headline],
        "verdict": [*text.verdict, *_grain(data), *(marks.notes if marks else ())],
        "code": list(code),
        "files": list(files),
        "starred": [numbered_marks(data, (starred or {}).get(event["event"], {})) for event in data["events"]],
    }
    chunks = [page_json(columns) for columns in data.pop("chunks")]
    return assemble("page.html", SCRIPTS, data, chunks)


def assemble(frame: str, scripts: tuple[str, ...], data: Mapping[str, Any], chunks: Sequence[str] = ()) -> str:
    """Return a page: a frame with the style, scripts and data.

    Args:
        frame: the name of its file.
        scripts: their names, each after those whose exports it uses.
        data: for the scripts, names from recordings included.
        chunks: more data, which come last, so that the page is drawn before the browser reads them.
    """
    page, style, script = _parts(frame, scripts)
    pieces = {
        "POLICY": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        "STYLE": style,
        "DATA": page_json(data),
        "CHUNKS": "".join(f'<script type="application/json" id="chunk-{number}">{text}</script>\n' for number, text in enumerate(chunks)),
        "SCRIPT": script,
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda match: pieces[match[1]], page)


def _grain(data: Mapping[str, Any]) -> list[str]:
    """Return notes on the levels of detail."""
    notes = []
    if data["each"] > 1:
        notes.append(f"long ranges of time show one of {data['each']} samples, short ones every sample; sums of all samples are exact")
    if data["together"]:
        notes.append(f"samples that differ by less than {data['tick'] / 1e6:.3g} ms are merged: times and ranges are no finer")
    return notes


@cache
def _parts(frame: str, names: tuple[str, ...]) -> tuple[str, str, str]:
    """Return a page's frame, its style and its script."""
    page, style = ((_FOLDER / name).read_text(encoding="utf-8") for name in (frame, "page.css"))
    scripts = [_scoped(name, (_FOLDER / "scripts" / f"{name}.js").read_text(encoding="utf-8")) for name in names]
    return page, style, '"use strict";\n(() => {\n' + "\n".join(scripts) + "\n})();\n"


def _scoped(name: str, text: str) -> str:
    """Return a module as a function that returns its exports, so that modules do not share names; without comments and indentation."""
    exports = ", ".join(match[1] for match in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: f"const {{ {match[1]} }} = module_{match[2]};\n", text))
    body = _INDENT.sub("", _COMMENT.sub("", body))
    return f"const module_{name.rpartition('/')[2]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
