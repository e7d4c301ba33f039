"""The verdict on a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfpy.analysis.entries.options import CallGraph, ChainOptions, ReportOptions, RowOptions
from perfpy.analysis.verdict.evidence import Evidence, VerdictSource
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.interpreters import has_python_image
from perfpy.views.verdict import cpu_rules, loop_rules, wait_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.report.report import Report
    from perfpy.perfdata.reader import PerfData
    from perfpy.views.verdict.sentence import Sentence

_MOST: Final = 3  # sentences


class HeadlineSource(VerdictSource, Protocol):
    """The part of a recording that the symbols of a headline need."""

    symbol_options: SymbolOptions | None

    @property
    def data(self) -> PerfData:
        """The recording's data."""


class HeadlineReports(NamedTuple):
    """The reports that a headline is made from: of all samples, and of waits if these need other symbols."""

    report: Report
    waits: Callable[[], Report] | None


def profile_verdict(report: Report, recording: VerdictSource, waits: Callable[[], Report] | None = None) -> list[Sentence]:
    """Return one to three sentences on a report, the most important first; none without samples.

    Args:
        report: made with RowOptions.by_thread for sentences about threads and waits.
        recording: the recording.
        waits: makes a report of the waits with the frames of interpreters, if `report` does not have these.
    """
    evidence = Evidence(report, recording, waits)
    if evidence.functions is None:
        return [*wait_rules.longest_wait(evidence)]
    main_wait = wait_rules.main_wait(evidence)
    waiting = [*wait_rules.longest_wait(evidence)]
    cpu = [*cpu_rules.hot_functions(evidence), *cpu_rules.busiest_command(evidence)]
    loops = [*loop_rules.blocked_loop(evidence)]
    whole = [*cpu_rules.started_processes(evidence)]
    idle = [*cpu_rules.idle_machine(evidence)]
    if idle or whole:
        cpu = [one for one in cpu if one.rule not in cpu_rules.WITHOUT_CAUSE]
    few = [*cpu_rules.few_samples(evidence)]
    rarely = [*cpu_rules.rarely_runs(evidence)]
    whole += idle
    if main_wait is not None and wait_rules.waits_first(evidence, main_wait):
        hot = [one for one in cpu if one.rule != "busiest command" and evidence.functions.samples >= cpu_rules.VERY_FEW_SAMPLES]
        sentences = [*whole, *loops, *waiting, *hot, *(few if hot else ())]  # waits are measured: the note is on shares alone
    elif idle and not cpu:
        sentences = [*whole, *loops, *rarely, *waiting]
    elif evidence.functions.samples < cpu_rules.VERY_FEW_SAMPLES or not cpu:
        sentences = [*whole, *few, *loops, *rarely, *cpu, *waiting]
    else:
        sentences = [*whole, *cpu, *loops, *rarely, *waiting, *few]
    return sentences[:_MOST]


def headline_options(sample_filter: SampleFilter) -> ReportOptions:
    """Return the options of a headline's reports."""
    return ReportOptions(sample_filter=sample_filter, chains=ChainOptions(CallGraph(order="caller")), rows=RowOptions(by_thread=True))


def headline_symbols(recording: HeadlineSource, symbols: SymbolOptions | None = None) -> tuple[SymbolOptions, SymbolOptions | None]:
    """Return where to look for the symbols of a headline's report, and of its waits if these differ: they keep interpreters' frames."""
    where = symbols or recording.symbol_options or SymbolOptions()
    return (where._replace(fold_interpreters=True), where) if has_python_image(recording.data.kept_files) else (where, None)


def headline(recording: VerdictSource, reports: HeadlineReports) -> list[Sentence]:
    """Return the verdict on a recording."""
    return profile_verdict(reports.report, recording, reports.waits)
