"""The topics of `perfpy help TOPIC`: pages about perfpy as a whole, written in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from perfpy.errors import PerfError

#: name -> what the page is about; the text is in man/topics/NAME.md
TOPICS: Final = {
    "guide": "how to count, sample, report and compare, by example",
    "compatibility": "what perfpy has of perf, and what differs",
    "performance": "CPU time and memory beside perf's",
    "python": "the Python API",
    "many": "many recordings as one report",
    "continuous": "continuous profiling across hosts",
    "cluster": "reports made by a Dask cluster",
}

_WIDEST: Final = 120  # columns; longer lines are hard to read
_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: the folder of an installed package, then that of a checkout
_FOLDERS: Final = (_PACKAGE / "topics", _PACKAGE.parent / "man" / "topics")


def topic_text(name: str) -> str:
    """Return the Markdown text of a topic. Raises PerfError if the installation lacks the file."""
    for folder in _FOLDERS:
        path = folder / f"{name}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise PerfError(f"the text of {name!r} is missing from this installation; install perfpy again, or read man/topics/{name}.md online")


def print_topic(name: str) -> None:
    """Print a topic: laid out on a terminal, as Markdown in a pipe."""
    from perfpy.cli.output.terminal import console, is_terminal, width

    text = topic_text(name)
    if not is_terminal():
        print(text, end="")
        return
    from rich.markdown import Markdown

    console().print(Markdown(text, hyperlinks=False), width=min(width(), _WIDEST), soft_wrap=False)
