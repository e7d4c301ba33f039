"""`perfpy report --tui`: a report to walk through, with the keys of perf's browser.

What enters: a Report. What leaves: a textual application. Tables of events,
rows with their call trees folded under them; rows can be narrowed to a thread,
a file or a part of a function's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Footer, Input, Static, Tree

from perfpy.analysis.quality import quality_notes
from perfpy.views.report_text import event_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets.tree import TreeNode

    from perfpy.analysis.calltree import CallNode
    from perfpy.analysis.histogram import Histogram
    from perfpy.analysis.reporting import Report

_HOT: Final = ((5.0, "bold red"), (0.5, "green"))
_HELP: Final = (
    "up, down: move   Enter, +: open or close   e: open all below   c: close all   Tab: next event   "
    "/: part of a function's name   t: only this command   d: only this file   Esc: all rows   q: leave"
)


class ReportBrowser(App[None]):
    """Rows as a tree: under each row its callers or callees."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Leave"),
        Binding("tab", "next_event", "Next event", priority=True),  # not the next widget
        ("slash", "search", "Search"),
        ("t", "only('comm')", "This command"),
        ("d", "only('dso')", "This file"),
        ("plus", "toggle_row", "Open"),
        ("e", "expand", "Open all below"),
        ("c", "collapse", "Close all"),
        ("escape", "everything", "All rows"),
        ("h", "help", "Help"),
    ]
    CSS = "Input { display: none; height: 3; } Input.shown { display: block; } #title { height: auto; color: $text-muted; }"

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self._tables = [histogram for histogram in report.histograms if histogram.leader.samples]
        self._at = 0
        self._part = ""
        self._kept: dict[str, str] = {}  # sort key -> the text that rows must have

    def compose(self) -> ComposeResult:
        """Title, rows, search line, keys."""
        with Vertical():
            yield Static(id="title")
            yield Tree("rows", id="rows")
            yield Input(placeholder="part of a function's name", id="search")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first table."""
        tree = self.query_one("#rows", Tree)
        tree.show_root = False
        tree.guide_depth = 2
        self._fill()
        tree.focus()

    @property
    def histogram(self) -> Histogram:
        """The table that is shown."""
        return self._tables[self._at]

    def entries(self) -> Iterator[int]:
        """The rows that the filters leave."""
        histogram = self.histogram
        for entry in histogram.shown().tolist():
            texts = {name: histogram.text(name, entry) for name in histogram.keys}
            if all(texts.get(name) == text for name, text in self._kept.items()) and self._part in texts.get("symbol", ""):
                yield entry

    def _fill(self) -> None:
        tree: Tree[int | CallNode] = self.query_one("#rows", Tree)
        tree.clear()
        for entry in self.entries():
            row = tree.root.add(self._label(entry), data=entry, allow_expand=self.histogram.trees is not None)
            row.allow_expand = self.histogram.trees is not None
        kept = "  ".join([*(f"{name} {text}" for name, text in self._kept.items()), *([f"*{self._part}*"] if self._part else [])])
        title = f"{event_title(self.histogram, skip_empty=True)}: {self.histogram.leader.samples:,} samples"
        notes = "".join(f"\n! {note}" for note in quality_notes(self._report))
        self.query_one("#title", Static).update(Text(f"{title}  {kept}{notes}"))

    def _label(self, entry: int) -> Text:
        histogram = self.histogram
        measures = [name for name in ("children", "period") if name in histogram.entries.sums]
        label = Text()
        for measure in measures:
            percent = histogram.percent(measure, entry)
            label.append(f"{percent:7.2f}%  ", next((style for least, style in _HOT if percent >= least), ""))
        texts = [histogram.text(key.name, entry) for key in histogram.layout.keys]
        return label.append("  ".join(texts))

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[int | CallNode]) -> None:
        """Put the calls under a row when it is opened for the first time."""
        node = event.node
        if node.children or node.data is None:
            return
        calls = self.histogram.calls(node.data) if isinstance(node.data, int) else node.data.children
        for call in calls:
            self._add_call(node, call)

    def _add_call(self, above: TreeNode[int | CallNode], call: CallNode) -> None:
        trees = self.histogram.trees
        assert trees is not None  # only rows with call trees can be opened
        names = " > ".join(trees.frame_name(frame) for frame in call.frames)
        label = Text(f"{self.histogram.share(call.period):6.2f}%  ", "cyan").append(names)
        above.add(label, data=call, allow_expand=bool(call.children))

    def _row(self) -> int | None:
        """The entry of the row that the cursor is on, or in whose tree it is."""
        node = self.query_one("#rows", Tree).cursor_node
        while node is not None and not isinstance(node.data, int):
            node = node.parent
        return None if node is None else node.data

    def action_next_event(self) -> None:
        """Show the next event's table."""
        self._at = (self._at + 1) % len(self._tables)
        self._fill()

    def action_toggle_row(self) -> None:
        """Open or close the row under the cursor."""
        node = self.query_one("#rows", Tree).cursor_node
        if node is not None:
            node.toggle()

    def action_expand(self) -> None:
        """Open everything below the cursor."""
        node = self.query_one("#rows", Tree).cursor_node
        if node is not None:
            node.expand_all()

    def action_collapse(self) -> None:
        """Close all rows."""
        for node in self.query_one("#rows", Tree).root.children:
            node.collapse_all()

    def action_only(self, key: str) -> None:
        """Keep the rows that have the same text as this one."""
        entry = self._row()
        if entry is not None and key in self.histogram.keys:
            self._kept[key] = self.histogram.text(key, entry)
            self._fill()

    def action_everything(self) -> None:
        """Drop all filters."""
        self._kept, self._part = {}, ""
        self.query_one("#search", Input).remove_class("shown")
        self._fill()
        self.query_one("#rows", Tree).focus()

    def action_search(self) -> None:
        """Ask for a part of a name."""
        search = self.query_one("#search", Input)
        search.add_class("shown")
        search.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Narrow the rows to what was asked for."""
        self._part = event.value
        event.input.remove_class("shown")
        self._fill()
        self.query_one("#rows", Tree).focus()

    def action_help(self) -> None:
        """Say which keys there are."""
        self.notify(_HELP, timeout=15)
