r"""Read the tables of events and metrics that CPU vendors publish: names, codes, scales and formulas.

The user's own table of a CPU (made by `list --update-events`) precedes the package's. A table is read when an event is requested that
the kernel does not name.

    tables/MAKER/index.tsv      pattern of identities \t name of the table; the first match counts
    tables/MAKER/NAME.z         a table, compressed by zlib
    ~/.cache/perfpy/events/IDENTITY     a table

    E \t name \t PMU ("": the CPU's own) \t terms \t scale and unit \t topic \t flags
    F \t name in lower case \t program \t scale and unit \t groups \t program of the threshold \t kind of core \t constraint \t
        groups in which its events need not be a group \t group of the default metrics \t name, if not in lower case
    M \t name \t expression \t scale and unit \t groups \t threshold: a metric of a user's table of an earlier perfpy

Rows are sorted by their bytes and found in the text by bisection; most of it is never split. Trailing empty fields are omitted. Groups
are separated by semicolons. Programs: see perfpy.counts.formulas. Flags of events: d deprecated, p counted once per package, u without
a description by the vendor, for which perf's list has `pmu/name/`.
"""

from __future__ import annotations

import os

from perfpy.abi.light_types import NamedTuple, cached_property
from perfpy.kernel.sysfs import Alias, split_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from perfpy.kernel.sysfs import Pmu


_TABLES: Final = os.path.join(os.path.dirname(__file__), "tables")
_MAKERS: Final = ("intel", "amd", "arm", "power", "riscv")
_CORE_UNITS: Final = ("", "cpu_core", "cpu_atom")
_LARGEST: Final = 32 << 20  # bytes of a table's text
_APPLE: Final = "apple_"  # drivers/perf/apple_m1_cpu_pmu.c
_EVENT_FIELDS: Final = 7
_METRIC_FIELDS: Final = 11
_KIND: Final = 2  # letters of a row's kind, as in "E\t"


class MetricDefinition(NamedTuple):
    """A formula over events, as an expression or as a program (see perfpy.counts.formulas).

    Attributes:
        name: its name
        source: the expression, or the program if `is_compiled`
        unit: scale and unit, such as "100%"
        groups: names of its metric groups
        condition: when its value is remarkable, in the notation of `source`
        pmu: the kind of core of a hybrid CPU; "" if there is one kind
        constraint: when its events must not be a group: "always", "nmi" (the NMI watchdog counts), "smt" (cores have two threads), or ""
        ungrouped_in: metric groups in which its events need not be a group
        default_group: the metric group under which `stat` shows it by default
    """

    name: str
    source: str
    unit: str = ""
    description: str = ""
    long_description: str = ""
    groups: tuple[str, ...] = ()
    condition: str = ""
    pmu: str = ""
    constraint: str = ""
    is_compiled: bool = False
    ungrouped_in: tuple[str, ...] = ()
    default_group: str = ""

    @property
    def program(self) -> str:
        """The compiled formula. Raises EventSyntaxError."""
        return self.source if self.is_compiled else _compiled(self.source)

    @property
    def expression(self) -> str:
        """The formula in perf's notation."""
        return _text_of(self.source) if self.is_compiled else self.source

    @property
    def threshold(self) -> str:
        """The condition of a remarkable value, in perf's notation; "" for none."""
        return _text_of(self.condition) if self.is_compiled and self.condition else self.condition

    @property
    def threshold_program(self) -> str:
        """The compiled condition, "" for none. Raises EventSyntaxError."""
        return _compiled(self.condition) if self.condition and not self.is_compiled else self.condition


def _compiled(formula: str) -> str:
    from perfpy.counts.formulas import compile_formula  # the package's formulas are compiled

    return compile_formula(formula)


def _text_of(program: str) -> str:
    from perfpy.counts.formulas import formula_text  # only --details and JSON print formulas

    return formula_text(program)


class VendorTable:
    """The events and metrics of one CPU.

    Args:
        folder: the origin of the table
        core: the PMU of its kind of core, if each kind has its own table; "" for all core PMUs
    """

    def __init__(self, text: str, folder: str, core: str = "") -> None:
        self.folder = folder
        self._core = core
        self._text = text
        self._rows_by_name: dict[str, list[str]] = {}
        self._aliases_by_units: dict[tuple[str, ...], list[Alias]] = {}

    def alias(self, pmu: Pmu, name: str) -> Alias | None:
        """Return the PMU's event of this name in any case; None if there is none."""
        for row in self._rows_named(name):
            if self._has_unit(pmu, row.split("\t", 3)[2]):
                return _alias(row)
        if _is_spelt_by_amd(name):
            for row in self._rows_from("E\t"):
                _, own, unit, _ = row.split("\t", 3)
                if own.replace("_", "") == name.lower() and self._has_unit(pmu, unit):
                    return _alias(row)
        return None

    def is_of_cores(self, name: str) -> bool:
        """Whether no PMU but the cores' can have an event of this name."""
        return not _is_spelt_by_amd(name) and all(row.split("\t", 3)[2] in _CORE_UNITS for row in self._rows_named(name))

    def _rows_named(self, name: str) -> list[str]:
        rows = self._rows_by_name.get(name)
        if rows is None:
            rows = self._rows_by_name[name] = [*self._rows_from(f"E\t{name.lower()}\t")]
        return rows

    def aliases(self, pmu: Pmu) -> list[Alias]:
        """Return all events of the PMU, by name. PMUs with the same units have the same list."""
        units = tuple(unit for unit in self._rows_by_unit if self._has_unit(pmu, unit))
        aliases = self._aliases_by_units.get(units)
        if aliases is None:
            aliases = [_alias(row) for unit in units for row in self._rows_by_unit[unit]]
            aliases.sort(key=lambda alias: alias.name)
            self._aliases_by_units[units] = aliases
        return aliases

    def _has_unit(self, pmu: Pmu, unit: str) -> bool:
        return has_unit(pmu, unit) and not (pmu.is_core and self._core and self._core != pmu.name)

    @cached_property
    def _rows_by_unit(self) -> dict[str, list[str]]:
        rows: dict[str, list[str]] = {}
        for row in self._rows_from("E\t"):
            rows.setdefault(row.split("\t", 3)[2], []).append(row)
        return rows

    def names(self, pmu: Pmu) -> list[str]:
        """Return the names of the PMU's events."""
        return [alias.name for alias in self.aliases(pmu)]

    @cached_property
    def metrics(self) -> list[MetricDefinition]:
        """All metrics, by name in lower case."""
        metrics = [_metric(row) for row in self._rows_from("F\t")] + self._expressions
        return [metric._replace(pmu=metric.pmu or self._core) for metric in metrics] if self._core else metrics

    @property
    def is_searchable(self) -> bool:
        """Whether metrics_with() and metrics_named() find every metric."""
        return self._text.isascii() and not self._core and next(self._rows_from("M\t"), None) is None

    @cached_property
    def metric_rows(self) -> str:
        """The rows of the metrics, each with a newline before and after it; "" for none."""
        rows = "\n".join(self._rows_from("F\t"))
        return f"\n{rows}\n" if rows else ""

    @cached_property
    def _lower_metric_rows(self) -> str:
        return self.metric_rows.lower()

    def metrics_with(self, word: str) -> list[MetricDefinition]:
        """Return the metrics with this text in lower case in their rows, in the table's order. The other rows are not decoded.

        The word is not empty, and has no control characters.
        """
        found = []
        rows, lower = self.metric_rows, self._lower_metric_rows
        position = lower.find(word)
        while position >= 0:
            end = rows.index("\n", position)
            found.append(_metric(rows[rows.rindex("\n", 0, position) + 1 : end]))
            position = lower.find(word, end)
        return found

    def metrics_named(self, name: str) -> list[MetricDefinition]:
        """Return the metrics of a name in lower case: one, or one for each kind of core."""
        return [_metric(row) for row in self._rows_from(f"F\t{name}\t")]

    @cached_property
    def _expressions(self) -> list[MetricDefinition]:
        """The metrics of a table by an earlier perfpy, which are not compiled."""
        fields = [_split(row, _METRIC_FIELDS) for row in self._rows_from("M\t")]
        return [
            MetricDefinition(name, expression, unit, groups=_words(groups), condition=condition)
            for _, name, expression, unit, groups, condition, *_ in fields
        ]

    def _rows_from(self, start: str) -> Iterator[str]:
        """Yield the rows with this beginning, which stand together."""
        text = self._text
        begin = self._first_row(start)
        if len(start) == _KIND:  # all rows of a kind
            for row in text[begin:].split("\n"):
                if not row.startswith(start):
                    break
                yield row
            return
        while text.startswith(start, begin):
            end = text.find("\n", begin) % (len(text) + 1)  # the last line may lack the newline
            yield text[begin:end]
            begin = end + 1

    def _first_row(self, start: str) -> int:
        """Return the place of the first row that is not before `start` in the order of the table, by bisection."""
        text, size = self._text, len(start)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high) // 2
            row = text.rfind("\n", low, middle) + 1 or low
            if text[row : row + size] < start:
                low = (text.find("\n", middle) + 1) or len(text)
            else:
                high = row
        return low


def _is_spelt_by_amd(name: str) -> bool:
    """Whether a name may be in the spelling of AMD's manuals, which have ExRetInstr for ex_ret_instr."""
    return name.isalnum() and not name.islower() and not name.isupper()


def _split(row: str, count: int) -> list[str]:
    fields = row.split("\t")
    return fields + [""] * (count - len(fields))


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(";"))) if text else ()


def _alias(row: str) -> Alias:
    _, name, _, terms, scale, topic, flags = _split(row, _EVENT_FIELDS)[:_EVENT_FIELDS]
    number, unit = scale_and_unit(scale) if scale else (1.0, "")
    return Alias._make((name, terms, number, unit, "p" in flags, False, "", "", topic, "d" in flags, "u" not in flags))


def _metric(row: str) -> MetricDefinition:
    _, lower, program, unit, groups, condition, pmu, constraint, ungrouped, default, name = _split(row, _METRIC_FIELDS)[:_METRIC_FIELDS]
    return MetricDefinition._make(
        (name or lower, program, unit, "", "", _words(groups), condition, pmu, constraint, True, _words(ungrouped), default)
    )


def scale_and_unit(text: str) -> tuple[float, str]:
    """Split a number and a unit: 64Bytes -> (64.0, "Bytes")."""
    end = len(text)
    while end:
        try:
            return float(text[:end]), text[end:]
        except ValueError:
            end -= 1
    return 1.0, text


def belongs(pmu: Pmu, unit: str) -> bool:
    """Whether the unit of a file means this PMU. A comma matches anything: hisi_sccl,ddrc."""
    if not unit:
        return pmu.is_core
    if "," in unit:
        position = 0
        for part in unit.split(","):
            position = pmu.name.find(part, position) + len(part)
            if position < len(part):
                return False
        return True
    return not {unit, "uncore_" + unit}.isdisjoint((pmu.name, split_number(pmu.name)[0]))


def has_unit(pmu: Pmu, unit: str) -> bool:
    """Whether a unit's events belong to the PMU: none to the stand-in for a missing PMU, nor to Apple's, which have codes of their own."""
    return bool(pmu.path) and not pmu.name.startswith(_APPLE) and belongs(pmu, unit)


def table_of(identity: str, core: str = "") -> VendorTable | None:
    """Return the table of a CPU, the user's own before the package's; None if there is none. `core`: see VendorTable."""
    if not identity:
        return None
    path = os.path.join(own_folder(), file_name(identity))
    if os.path.lexists(path):
        from perfpy.untrusted.files import read_regular, trusted_file_owners  # few users have a table of their own

        try:
            return VendorTable(read_regular(path, owners=trusted_file_owners(), limit=_LARGEST).decode(), path, core)
        except (OSError, ValueError):  # damaged, or another user's
            pass
    for maker in _MAKERS:
        folder = os.path.join(_TABLES, maker)
        name = _table_named(folder, identity)
        if name:
            import zlib  # only CPUs with a table need it

            path = os.path.join(folder, f"{name}.z")
            with open(path, "rb") as file:
                return VendorTable(zlib.decompress(file.read()).decode("ascii"), path, core)
    return None


def _table_named(folder: str, identity: str) -> str:
    """Return the name of the table whose pattern in the index matches the identity; "" if none does.

    A pattern is the beginning of the identity, or that and one or several [characters].
    """
    with open(os.path.join(folder, "index.tsv"), encoding="utf-8") as index:
        for line in index:
            pattern, _, name = line.rstrip("\n").partition("\t")
            if _begins(identity, pattern):
                return name
    return ""


def _begins(identity: str, pattern: str) -> bool:
    """Whether the pattern, without a regular expression's cost, is a beginning of the identity."""
    start, bracket, rest = pattern.partition("[")
    if not identity.startswith(start):
        return False
    if not bracket:
        return True
    characters, _, rest = rest.partition("]")
    position = len(start)
    return identity[position : position + 1] in tuple(characters) and _begins(identity[position + 1 :], rest)


def own_folder() -> str:
    """Return the folder of the user's tables."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", "events")


def file_name(identity: str) -> str:
    """Return the name of a CPU's table in that folder."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in identity)
