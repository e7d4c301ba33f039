"""Sphinx's settings of the manual's site. build.py writes the sources."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perfpy import __version__

sys.path.insert(0, str(Path(__file__).resolve().parent))
from docstrings import as_restructured_text  # it lies beside this file

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "perfpy"
author = "The perfpy authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"perfpy {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
smartquotes = False  # two hyphens begin an option
html_last_updated_fmt = None  # the same sources give the same pages
templates_path: list[str] = []
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures of docstrings and examples are enough, and types would name internal modules
toc_object_entries = False
suppress_warnings = ["myst.xref_missing"]  # build.py checks the links of the pages that come out


def _docstring(_app: object, _kind: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    lines[:] = as_restructured_text(lines)


def setup(app: Sphinx) -> None:
    """Connect the translation of docstrings."""
    app.connect("autodoc-process-docstring", _docstring)
