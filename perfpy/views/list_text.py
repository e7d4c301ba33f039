"""The events of a machine as text: perf list's lines, its names in one row, its JSON. The layout is perf 6.12's, byte for byte."""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Protocol, TextIO

    from perfpy.events.listing import EventInfo
    from perfpy.events.vendor_tables import MetricDefinition

    class ListView(Protocol):
        """A consumer of events; `close` ends the text."""

        def info(self, info: EventInfo) -> None:
            """Print one event."""

        def metrics(self, metrics: list[MetricDefinition], show: str = ...) -> None:
            """Print the metrics of a selection."""

        def close(self) -> None:
            """End the text."""


_INDENT: Final = 8

#: the parts of metrics to print: all, only metrics, only groups
ALL: Final = "all"
METRICS: Final = "metrics"
GROUPS: Final = "groups"


def wrap(text: str, width: int, start: int = _INDENT) -> str:
    """Break a text at blanks and commas, like perf: it begins at column `start`, and later lines are indented as far.

    A newline of the text stays one, unless a blank or comma stands before it. Blanks after a comma are lost, as is a comma
    that would begin a line with text after it; the comma that ends a line may be at `width`.
    """
    if not ("," in text or "\n" in text or "\t" in text or "  " in text or " " in (text[:1], text[-1:])):  # most descriptions
        return text if start + len(text) <= width else _wrap_at_blanks(text, width - start, "\n" + " " * start)
    lines, joint = [""], ""
    for word, separator in _words(text):
        line = lines[-1]
        if joint == "\n":
            lines.append(word)
        elif not line:
            lines[-1] = word
        elif start + len(line) + len(joint) + len(word) > width:
            lines[-1] += joint.strip()
            lines.append(word)
        else:
            lines[-1] += joint + word
        joint = separator
    lines[-1] += joint.strip()
    return ("\n" + " " * start).join(lines)


def _wrap_at_blanks(text: str, room: int, line_break: str) -> str:
    lines = []
    while len(text) > room:
        end = text.rfind(" ", 1, room + 1) if room > 0 else -1
        if end < 0 and (end := text.find(" ", 1)) < 0:
            break
        lines.append(text[:end])
        text = text[end + 1 :]
    return line_break.join([*lines, text])


def _words(text: str) -> list[tuple[str, str]]:
    """Return the words, each with the separator that counts after it: a comma, a newline, a blank, or nothing at the end."""
    words, word, separator = [], "", ""  # without a regular expression: the quick commands do not load re
    for char in text:
        is_word = char not in " \t\n,"
        if separator and (is_word or char == ","):
            words.append((word, separator))
            word = separator = ""
        if is_word:
            word += char
        elif not separator:
            separator = " " if char == "\t" else char
    return [*words, (word, separator)] if word or separator else words


class TextList:
    """perf list's own lines.

    Args:
        file: the output.
        width: the columns to wrap at.
        descriptions, long_descriptions, encodings: the texts below an event's name.
        group_text: returns the description of a metric group, "" for none.
    """

    def __init__(
        self,
        file: TextIO,
        width: int = 78,
        *,
        descriptions: bool = True,
        long_descriptions: bool = False,
        encodings: bool = False,
        group_text: Callable[[str], str] = lambda _group: "",
    ) -> None:
        self._file = file
        self._width = width
        self._descriptions = descriptions
        self._long = long_descriptions
        self._encodings = encodings
        self._topic = ""
        self._group_text = group_text

    def info(self, info: EventInfo) -> None:
        """Print one event."""
        lines = []
        if info.topic != self._topic:
            self._topic = info.topic
            if info.topic:
                lines.append(f"\n{info.topic}:")
        name = f"{info.name} OR {info.alias}" if info.alias else info.name
        lines.append(f"  {name}" if info.topic else f"  {name:<51}[{info.kind}]")
        if info.description and self._descriptions and not self._long:
            unit = f"{'' if info.description.endswith('.') else '.'} Unit: {info.pmu}" if info.pmu else ""
            lines.append(self._bracket(info.description + unit))
        if self._long and (info.long_description or info.description):
            lines.append(self._bracket(info.long_description or info.description))
        if self._encodings:
            encoding = info.encoding()
            if encoding:
                lines.append(" " * _INDENT + wrap(encoding, self._width))
        self._file.write("\n".join(lines) + "\n")

    def _bracket(self, text: str) -> str:
        return " " * (_INDENT - 1) + "[" + wrap(text, self._width) + "]"

    def metrics(self, metrics: list[MetricDefinition], show: str = ALL) -> None:
        """Print the metrics by group, with or without the groups' names, or only the names."""
        groups: dict[str, list[MetricDefinition]] = {}
        for metric in metrics:
            for group in metric.groups or ("No_group",):
                groups.setdefault(group, []).append(metric)
        if groups:
            self._file.write("\nMetrics:\n\n" if show == METRICS else "\nMetric Groups:\n" + ("\n" if show == GROUPS else ""))
        texts: dict[int, str] = {}  # most metrics are in several groups
        for group in sorted(groups):
            if show != METRICS:
                text = self._group_text(group) if self._descriptions else ""
                heading = group if show == GROUPS else f"\n{group}:"
                self._file.write(f"{heading} [{text}]\n" if text else f"{heading}\n")
            for metric in groups[group] if show != GROUPS else ():
                text = texts.get(id(metric)) or texts.setdefault(id(metric), self._metric(metric))
                self._file.write(text)

    def _metric(self, metric: MetricDefinition) -> str:
        lines = [f"  {metric.name}"]
        if metric.description and (self._descriptions or self._long):
            lines.append(self._bracket(metric.long_description if self._long else metric.description))
        if self._encodings:
            lines.append(self._bracket(metric.expression))
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """No-op: nothing follows the last line."""


class NameList:
    """All names in one row, for a shell's completion (--raw-dump)."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def info(self, info: EventInfo) -> None:
        """Print one event: the shorter of its names."""
        self._file.write(f"{info.alias or info.name} ")

    def metrics(self, metrics: list[MetricDefinition], show: str = ALL) -> None:
        """Print the names of the groups and of the metrics."""
        names: list[str] = []
        printed: set[str] = set()
        for group in sorted({group for metric in metrics for group in metric.groups}):
            if show != METRICS:
                names.append(group)
            if show != GROUPS:
                in_group = [metric.name for metric in metrics if group in metric.groups and metric.name not in printed]
                names += in_group
                printed.update(in_group)
        self._file.writelines(f"{name} " for name in names)

    def close(self) -> None:
        """No-op: perf ends without a newline."""


class JsonList:
    """An array of objects with perf's keys in perf's order."""

    def __init__(self, file: TextIO) -> None:
        from json.encoder import encode_basestring  # for the quotes; the layout is perf's

        self._file = file
        self._quote = encode_basestring
        self._first = True
        file.write("[\n")

    def info(self, info: EventInfo) -> None:
        """Print one event."""
        self._object(
            (
                ("Unit", info.pmu),
                ("Topic", info.topic),
                ("EventName", info.name),
                ("EventAlias", info.alias),
                ("ScaleUnit", info.scale_unit),
                ("EventType", info.kind),
                ("Deprecated", "1" if info.deprecated else ""),
                ("BriefDescription", info.description),
                ("PublicDescription", info.long_description),
                ("Encoding", info.encoding()),
            )
        )

    def metrics(self, metrics: list[MetricDefinition], show: str = ALL) -> None:
        """Print one object for each group of a metric, by group; a metric without one is a group of its own."""
        members = sorted((group, metric.name, metric) for metric in metrics for group in metric.groups or (metric.name,))
        if show == GROUPS:
            for group in dict.fromkeys(group for group, _, _ in members):
                self._object((("MetricGroup", group),))
            return
        for group, _, metric in members:
            self._object(
                (
                    ("MetricGroup", group),
                    ("MetricName", metric.name),
                    ("MetricExpr", metric.expression),
                    ("MetricThreshold", metric.threshold),
                    ("ScaleUnit", metric.unit),
                    ("BriefDescription", metric.description),
                    ("PublicDescription", metric.long_description),
                )
            )

    def _object(self, pairs: tuple[tuple[str, str], ...]) -> None:
        fields = ",\n".join(f'\t"{key}": {self._quote(value)}' for key, value in pairs if value)
        self._file.write(("" if self._first else ",\n") + "{\n" + fields + "\n}")
        self._first = False

    def close(self) -> None:
        """End the array."""
        self._file.write("]\n" if self._first else "\n]\n")
