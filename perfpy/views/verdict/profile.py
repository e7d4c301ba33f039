"""The verdict on a recording."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.attr import is_sampled_each_time
from perfpy.abi.perfpy_encodings import PYTHON_MARK, is_called_c_function
from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.report.options import CallGraph, ChainOptions, NameOptions, ReportOptions, RowOptions, plan_report
from perfpy.analysis.report.report import (
    PlannedReport,
    margin,
    planned_scan,
    remedy_for_losses,
    share_of_lost_samples,
    share_of_lost_switches,
)
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.call_sites import parts_of_call, time_in_imports
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, NAMES, OWN, RUNTIME
from perfpy.analysis.verdict.evidence import Evidence
from perfpy.analysis.verdict.functions import PAGE_FAULTS, Share, interval, sampled_functions
from perfpy.errors import plural
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.untrusted.text import visible
from perfpy.views.readable import short_path
from perfpy.views.verdict.processes import (
    STARTED,
    busiest_command,
    is_build,
    killed_processes,
    phases_of_program,
    regular_bursts,
    sentences_on_processes,
    turns_of_processes,
)
from perfpy.views.verdict.sentence import (
    EXPRESSION,
    FEW_SAMPLES,
    HALF,
    LEAST_ELAPSED,
    LOST,
    MOST_LOST,
    NAMELESS_SCRIPT,
    ONE_THREAD,
    OTHERS,
    STANDS_OUT,
    UNCERTAIN,
    Sentence,
    about,
    builtin_text,
    entry_text,
    function_text,
    how_called,
    is_named,
    is_part,
    join_names,
    library_function,
    library_text,
    measure_of,
    module_of_code,
    name_in_sentence,
    noun_of,
    number_word,
    package_folders,
    percent,
    program_text,
    seconds,
    source,
    start_with,
)
from perfpy.views.verdict.waits import (
    AT_REST,
    FOR_WORK,
    blocked_loop,
    find_main_wait,
    longest_wait,
    process_pool,
    stuck_threads,
    waits_first,
    waits_for_started,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.verdict.call_sites import HotLine
    from perfpy.analysis.verdict.functions import ChargedFunction, SampledFunctions
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.views.recorded import Recorded


_MOST: Final = 3  # sentences


class HeadlineReports(NamedTuple):
    """The reports that a headline is made from: of all samples, and of waits if these need other symbols."""

    report: Report
    waits: Callable[[], Report] | None


def profile_verdict(report: Report, data: SampleSource, unfolded: Callable[[], Report] | None = None) -> list[Sentence]:
    """Return the sentences on a report: see Evidence, verdict_of()."""
    return verdict_of(Evidence(report, data, unfolded))


def verdict_of(evidence: Evidence) -> list[Sentence]:
    """Return one to three sentences on a report, the most important first; none without samples.

    After them comes what is left out of a long sentence on started processes.
    """
    lost = [*losses(evidence.report)]
    unknown = {one.rule for one in lost if one.numbers["lost"] >= MOST_LOST}
    if "lost samples" in unknown and ("lost switches" in unknown or not (evidence.report.lost and evidence.records_waits)):
        return lost  # the rest represents nothing
    if "lost switches" in unknown:
        evidence.waits = None
    stuck = [*stuck_threads(evidence)] if evidence.waits is not None else []
    main_wait = find_main_wait(evidence)
    is_told = stuck and main_wait is not None and main_wait.reason in (reasons.LOCK, reasons.FILE_LOCK, reasons.JOIN)
    waiting = [] if is_told else [*longest_wait(evidence)]
    if evidence.functions is None or "lost samples" in unknown:
        return [*lost, *stuck, *waiting]
    loops = [*process_pool(evidence), *blocked_loop(evidence)]
    hot, cpu, of_collector = sentences_on_code(evidence, loops)
    largest, started = sentences_on_processes(evidence, has_function=bool(hot) and hot[0].rule not in WITHOUT_CAUSE)
    started, details = started[:1], started[1:]
    whole = [*largest, *started, *turns_of_processes(evidence), *regular_bursts(evidence)]
    if is_build(evidence):
        cpu = []
    if whole and main_wait is not None and main_wait.reason in (reasons.CHILD, reasons.PIPE, reasons.INPUT):
        waiting = []  # for one of the started processes, or its output
        whole[len(largest) + 1 : len(largest) + 1] = waits_for_started(evidence, main_wait) if started else ()
    idle = [*idle_machine(evidence)]
    if idle or whole or of_collector:
        cpu = [one for one in cpu if one.rule not in WITHOUT_CAUSE]
    if hot and started and started[0].numbers.get("share of copies", 0.0) >= HALF and started[0].numbers["started"] < STARTED:
        are_all = started[0].numbers["copies"] == started[0].numbers["started"]  # not so if a script starts Python, as that of pyenv
        cpu, whole = [hot[0], *(started if are_all else ()), *(one for one in cpu if one is not hot[0])], whole[1:]  # workers run own code
    few = [*few_samples(evidence)]
    rarely = [*rarely_runs(evidence)]
    whole += idle
    if main_wait is not None and waits_first(evidence, main_wait):
        is_at_rest = (evidence.seconds or 0.0) < AT_REST * evidence.elapsed
        hot = [
            one
            for one in cpu
            if one.rule not in ("busiest command", "compilation", *WITHOUT_CAUSE)
            and evidence.functions.samples >= VERY_FEW_SAMPLES
            and not is_at_rest
        ]
        # waits are measured: the note is on shares alone
        is_rest = any(one.rule == "bursts" for one in whole) and main_wait.reason in (*FOR_WORK, reasons.SLEEP)
        sentences = [*whole, *loops, *(hot if is_rest else ()), *waiting, *(() if is_rest else hot), *(few if hot else ())]
    elif idle and not cpu:
        sentences = [*whole, *loops, *rarely, *waiting]
    elif evidence.functions.samples < VERY_FEW_SAMPLES or not cpu:
        sentences = [*whole, *few, *loops, *rarely, *cpu, *waiting]
    else:
        sentences = [*whole, *cpu, *loops, *rarely, *waiting, *few]
    told = [*lost, *killed_processes(evidence), *stuck, *sentences][:_MOST]
    return [*told, *(details if any(one.rule == "started processes" for one in told) else ())]


def sentences_on_code(evidence: Evidence, loops: Sequence[Sentence]) -> tuple[list[Sentence], list[Sentence], bool]:
    """Return the sentences on functions, those on all code that used CPUs, and whether the runtime has most of it.

    loops: the sentences on pools and event loops.
    """
    hot, of_runtime = [*hot_functions(evidence)], [*work_of_runtime(evidence)]
    if not any(one.rule == "builtin" and builtin_text(one.names["callee"]).startswith("JSON.") for one in hot):  # it is told already
        of_runtime[:0] = json_of_v8(evidence)
    is_of_runtime = of_runtime and hot and hot[0].rule == "function of others" and hot[0].numbers["own"] <= of_runtime[0].numbers["share"]
    is_first = bool(of_runtime) and (not hot or hot[0].rule in WITHOUT_CAUSE or bool(is_of_runtime))
    of_imports = [*imports(evidence)]
    has_pool = bool(loops) and loops[0].rule == "process pool"
    # modules that import others are none, and workers of a pool are no programs of their own
    is_none = bool(of_imports) or (has_pool and any(one.is_program for one in evidence.phases))
    phases = [] if is_none else [*phases_of_program(evidence)]
    spins = [*goroutines_that_give_way(evidence)]
    hot = [*of_imports, *spins, *(one for one in hot if not (phases or spins) or one.rule not in WITHOUT_CAUSE)]
    cpu = [*(of_runtime if is_first else ()), *hot, *phases, *(() if is_first else of_runtime), *busiest_command(evidence)]
    return hot, cpu, is_first and of_runtime[0].numbers["share"] >= HALF


class FoldedReport:
    """A report of one pass over the samples that it shares with other reports (fold_together)."""

    def __init__(self, recording: Recorded, options: ReportOptions, symbols: SymbolOptions | None) -> None:
        options = options._replace(sample_filter=recording.within(options.sample_filter))
        timeline, symbolizer = recording.naming(symbols, keep_exited=options.names.keep_exited)
        plan = plan_report(recording.data, options)
        scan, machine = planned_scan(plan, recording.data, timeline, symbolizer)
        self._planned = PlannedReport(plan, scan, machine, recording.payloads(symbolizer))
        self.fold = Fold(scan)

    def report(self) -> Report:
        """Return the report."""
        return self._planned.report(self.fold.profile)


def verdicts_of_parts(recording: Recorded, sample_filters: Sequence[SampleFilter]) -> list[list[Sentence]]:
    """Return the verdict on each part of a recording, all of them by one pass over the samples."""
    with recording.shared_symbols:
        where = recording.symbol_options or SymbolOptions()
        _, symbolizer = recording.naming(where)
        unfolded = where._replace(fold_interpreters=False) if symbolizer.folds_interpreters else None
        headlines = [FoldedReport(recording, headline_options(one), where) for one in sample_filters]
        waits = [FoldedReport(recording, headline_options(one), unfolded) if unfolded else None for one in sample_filters]
        fold_together([one.fold for one in (*headlines, *waits) if one is not None])
        return [
            profile_verdict(headline.report(), recording.data, None if unfolded_report is None else unfolded_report.report)
            for headline, unfolded_report in zip(headlines, waits, strict=True)
        ]


def headline_options(sample_filter: SampleFilter) -> ReportOptions:
    """Return the options of a headline's reports."""
    chains, names = ChainOptions(CallGraph()), NameOptions(tiers_as_one=True)
    return ReportOptions(sample_filter=sample_filter, chains=chains, rows=RowOptions(by_thread=True), names=names)


def charged_amounts(report: Report) -> dict[str, tuple[int, int]]:
    """Return the samples and the period of each function of own code in the first event, with all that is charged to it.

    The report is made with headline_options().
    """
    histogram = next((one for one in report.histograms if one.leader.samples and not is_off_cpu(one.leader.event)), None)
    functions = sampled_functions(report, histogram) if histogram is not None else None
    return {} if functions is None else functions.charged_amounts()


# Sentences about the use of CPUs.
#
# A share is only named if the 99 % interval of its samples agrees with the sentence: the interval's lower end, or for "no function stands
# out" its upper end, is compared with the threshold.


IS_SECOND: Final = 0.15  # the least share of the functions named beside it
IS_SMALL: Final = 0.25  # functions below this do not stand out
_GIVES_WAY: Final = "sched_yield"  #: a system call that lets other threads run
MOSTLY: Final = 0.8  # of a function's samples: its own, not those of callees
IN_PART: Final = 0.9  # of a function's samples including callees: with fewer its charged share is not the whole answer
IN_TREE: Final = 0.4  # the least share of a function including its callees that is named if none alone stands out
MAINLY: Final = 0.6  # of a Python function's samples: what it mostly calls
NEARLY_ALL: Final = 0.98  # of a function's samples with a known caller: other callers do not matter
FEWEST: Final = 100  # with fewer a share of 50 % is accurate to 10 points
VERY_FEW_SAMPLES: Final = 30  # with fewer the number of samples is told first
OTHER_KIND: Final = 0.1  # of the time of a JVM's most frequent kind of collections: others that are told
IN_COLLECTOR: Final = 0.1  # the least share of garbage collection that is named
NO_SHARES: Final = 10  # with fewer samples no function is named
MANY_THREADS: Final = 3  # the least threads of a process in which one can be the busy one
IDLE: Final = 0.5  # of the time of the CPUs
MOST_IN_IMPORTS: Final = 0.5  # of the CPU time
SURELY_IN_IMPORTS: Final = 0.33
OF_IMPORTS: Final = 0.1  # of the time of imports: modules that are named
OF_CALL: Final = 0.08  # of the samples: the least share of a part of a library's function that is named
_ANY: Final = 1e-9  # a share
RARELY_RUNS: Final = 0.5  # of the elapsed time, for recordings without waits
#: rules that name no cause; they are left out if the CPUs were idle, or many processes were started
WITHOUT_CAUSE: Final = ("no function stands out", "largest share")


_OF_INTERRUPTS: Final = re.compile(
    r"irqentry_\w+|(?:asm_)?sysvec_\w+|(?:asm_)?common_interrupt|\w*softirqs?(?:\.\w+)*|_*irq_exit\w*|hrtimer_interrupt"
)
#: what libraries put around a function, which its caller does not name: decorators, and objects that are called
_WRAPPER: Final = re.compile(r"__call__\(\)|wrap|inner|decorat|^the import of ", re.IGNORECASE)
_COLLECTED: Final = {"young": "young objects", "full": "the whole heap"}
_MODULE_OF_NODE: Final = re.compile(r" (node:[\w/.-]+):\d+:\d+$")
_LARGEST_HEAP: Final = re.compile(r"--max[-_](?:old[-_]space|heap)[-_]size=([1-9]\d{0,8})")  # options of V8
_SWITCH: Final = re.compile(r"finish_task_switch\b|__schedule$|__switch_to\w*$")  # the kernel's functions that change threads


class _Beginning(NamedTuple):
    """A sentence without its end: the text, and the fields of Sentence."""

    text: str
    rule: str
    numbers: dict[str, float]
    names: dict[str, str]


def few_samples(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that shares are uncertain."""
    functions = evidence.functions
    if functions is None or not 0 < functions.samples < FEWEST or is_sampled_each_time(evidence.event.attr):
        return
    points = margin(50, functions.samples)
    samples = f"{functions.samples} {plural(functions.samples, 'sample')}"
    more = "raise -F" if evidence.event.attr.freq else "lower -c"
    numbers, names = {"samples": float(functions.samples), "points": points}, {}
    doubt = f": shares are uncertain by up to ±{points:.0f} points"
    if functions.samples < NO_SHARES:
        first = next(iter(functions.hottest(1)), None)  # None: damaged samples without a period
        count = functions.samples_of(first.number) if first else 0
        doubt = ": too few for percentages"
        if first and first.category == OWN and first.name and count > 1 and count >= HALF * functions.samples:
            numbers["in function"], names["function of most"] = float(count), first.name
            which = "all" if count == functions.samples else f"{count}"
            doubt = f", {which} of them in {function_text(first.name)}{_source(evidence, first, amount=OTHERS)}{doubt}"
    yield Sentence(FEW_SAMPLES, f"Only {samples}{doubt}; record longer or {more}.", numbers, names)


def losses(report: Report) -> Iterator[Sentence]:
    """Tell the share of lost samples, and the number of lost switches. The remaining ones may not represent the program."""
    share, remedy = share_of_lost_samples(report), remedy_for_losses(report)
    if share >= LOST:
        doubt = "the others do not represent the program" if share >= MOST_LOST else "shares are uncertain"
        which = f"{percent(share)} of the samples" if report.lost else f"About {percent(share)} of the records"
        yield Sentence("lost samples", f"{which} were lost: {doubt}; {remedy}.", {"lost": share})
    if (share := share_of_lost_switches(report)) >= LOST:
        switches = report.losses.switches
        text = f"{switches:,} context switches were lost: the times of waits are uncertain; {remedy}"
        yield Sentence("lost switches", f"{text}.", {"lost": share, "switches": float(switches)})


def idle_machine(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that the CPUs were idle most of the time."""
    functions = evidence.functions
    if functions is None or evidence.seconds is None or not functions.idle:
        return
    share = functions.idle / (functions.idle + functions.period)
    if interval(share, functions.effective + functions.idle_samples).low >= IDLE:
        advice = "" if evidence.records_waits else "; perfpy record --off-cpu shows what programs waited for"
        yield Sentence("idle machine", f"The CPUs were idle {percent(share)} of the time{advice}.", {"idle": share})


def imports(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that most of the CPU time is in imports, and of which modules."""
    functions = evidence.functions
    if functions is None or evidence.seconds is None or not functions.samples:
        return
    share, modules = time_in_imports(functions)
    sure = interval(share, functions.effective)
    if share < MOST_IN_IMPORTS or sure.low < SURELY_IN_IMPORTS:
        return
    texts, names, numbers = [], {}, {"imports": share}
    packages = package_folders(functions.name(number) for number in functions.present.tolist())
    for number, one in enumerate(modules):
        if one.share >= OF_IMPORTS * share:
            path = one.name.partition("<module>:")[2]
            names[f"module {number}"], numbers[f"share {number}"] = one.name, one.share
            time = seconds(one.share * evidence.seconds)
            portion = f" ({time}, {percent(one.share * functions.busy)})" if sure.width <= UNCERTAIN else ""
            texts.append(f"{visible(module_of_code(path, packages) or short_path(path))}{portion}")
    how_much = f"{start_with(share, functions)} of {noun_of(evidence)}"
    of_which = f", above all of {join_names(texts)}" if texts else ""
    yield Sentence("imports", f"{how_much} ({seconds(share * evidence.seconds)}) is in imports{of_which}.", numbers, names)


def hot_functions(evidence: Evidence) -> Iterator[Sentence]:
    """Name the functions with the most samples, or say that none stands out."""
    functions = evidence.functions
    if functions is None or functions.samples < NO_SHARES or not functions.period:
        return
    hottest = functions.hottest()
    if not hottest:  # damaged samples: their periods sum up to nothing
        return
    first, tree = hottest[0], functions.hottest_tree(IN_TREE, MOSTLY)
    is_larger = tree is not None and tree[0] == first.number and first.own < MOSTLY * first.charged < MOSTLY * IN_PART * tree[1]
    if library := _hot_library(evidence, functions, hottest):
        yield library
    elif is_named(first.charged, functions, STANDS_OUT) and not is_larger:
        yield from _named_function(evidence, functions, hottest)
    elif tree:
        yield _named_tree(evidence, functions, *tree)
    elif interpreted := _python_code(functions, hottest):
        yield from _without_own_code(evidence, functions, interpreted)
    elif interval(first.charged, functions.effective).high <= IS_SMALL:
        largest = max(hottest, key=lambda one: one.charged)
        numbers = {"charged": largest.charged, "high": interval(largest.charged, functions.effective).high}
        file = "" if largest.category == OWN or functions.is_generated(largest.number) else source("", None, _shown_file(largest))
        name = (
            f"{function_text(largest.name)}{_source(evidence, largest) or file}"
            if largest.name
            else f"code of {_shown_file(largest)} without symbols"
        )
        text = f"No function stands out: the largest, {name}, has {percent(largest.charged * functions.busy)} of {noun_of(evidence)}."
        yield Sentence("no function stands out", text, numbers, {"function": largest.name})
    elif is_named(first.charged, functions, IS_SECOND) and first.name:
        second = hottest[1].charged if len(hottest) > 1 else 0.0
        if interval(first.charged, functions.effective).low > interval(second, functions.effective).high:
            text = f"{function_text(first.name)}{_source(evidence, first)} has the largest share of {noun_of(evidence)}"
            text += f", {about(first.charged, functions)}."
            yield Sentence("largest share", text, {"charged": first.charged, "second": second}, {"function": first.name})
        elif first.category == OWN:  # several about equal ones
            yield from _named_function(evidence, functions, hottest)


def goroutines_that_give_way(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that goroutines spin: each lets the others run over and over."""
    functions, (share, caller) = evidence.functions, evidence.yielding_goroutines
    if functions is None or functions.samples < FEWEST or not is_named(share, functions, STANDS_OUT):
        return
    names = {"function": caller.function} if caller is not None else {}
    where = f" from {function_text(caller.function)}{source('', (caller.file, caller.line))}" if caller is not None else ""
    text = f"{start_with(share, functions)} of {measure_of(evidence)} in runtime.Gosched(), called over and over{where}"
    yield Sentence("spin", f"{text}.", {"share": share}, names)


def _hot_library(evidence: Evidence, functions: SampledFunctions, hottest: list[ChargedFunction]) -> Sentence | None:
    """Name a library's function that has more samples of its own than any own function is charged with: several call it."""
    library = functions.hottest_library() if hottest[0].category == OWN and not _is_python(hottest[0]) else None
    if library is None or not library.callers or not is_named(library.own, functions, STANDS_OUT) or library.own < hottest[0].charged:
        return None
    parts = [Share(one.name, functions.share_beneath(one.number, library.number)) for one in hottest if one.category == OWN]
    inside = max(parts, key=lambda one: one.share)
    if library.callers[0].share >= MOSTLY * library.own and inside.share < IS_SECOND:
        return None  # the sentence about the only caller tells the same
    text = f"{start_with(library.own, functions)} of {measure_of(evidence)} in {library_text(library, inside, functions.busy)}"
    numbers = {"own": library.own, "inside": inside.share, "recursive": library.recursive}
    return Sentence("library function", f"{text}{_of_process(evidence)}.", numbers, {"library": library.name, "function": inside.name})


def _named_tree(evidence: Evidence, functions: SampledFunctions, number: int, share: float) -> Sentence:
    """Name a function that calls what the time is spent in, where no function alone stands out."""
    tree = functions.tree(number, share)
    numbers, names = {"charged": share}, {"function": tree.name}
    hot = evidence.line_with_callees(number, waits=False) if tree.name.startswith(PYTHON_MARK) else None
    line = source(tree.name, hot, amount=_amount(functions, hot)) if hot is not None else ""
    text = f"{start_with(share, functions)} of {measure_of(evidence)} in {function_text(tree.name)}{line} and the code it calls"
    called = _called_from(functions, tree, share, numbers, names, "caller")
    return Sentence("hot tree", f"{text}{called}{_of_process(evidence)}.", numbers, names)


def _python_code(functions: SampledFunctions, hottest: list[ChargedFunction]) -> ChargedFunction | None:
    """Return a function of CPython, if most samples are in interpreters: many C functions together run one Python function."""
    code = next((one for one in hottest if one.category == INTERPRETER and "python" in one.file), None)
    return code if code and is_named(functions.by_category()[INTERPRETER], functions, HALF) else None


def _named_function(evidence: Evidence, functions: SampledFunctions, hottest: list[ChargedFunction]) -> Iterator[Sentence]:
    first = hottest[0]
    is_nameless = not first.name and first.category not in (KERNEL, INTERPRETER, RUNTIME)
    if is_nameless or first.category != OWN:
        yield from (_without_symbols if is_nameless else _without_own_code)(evidence, functions, first)
        own = next((one for one in hottest[1:] if one.category == OWN and one.name and is_named(one.charged, functions, STANDS_OUT)), None)
        if own is not None:  # stacks that end in code without call frame information do not reach it
            text, _, numbers, names = _own_function(evidence, functions, own)
            yield Sentence("own code beside", f"{text}.", numbers, names)
        return
    further = [one for one in hottest[1:] if one.category == OWN and one.name and is_named(one.charged, functions, IS_SECOND)]
    text, rule, numbers, names = _own_function(evidence, functions, first, is_alone=not further)
    if rule == "hot function" and further:
        text = _with_further(evidence, functions, further, _Beginning(text, rule, numbers, names))
    second = next(iter(further), None)
    if (
        rule in ("hot function and callees", "builtin") and second is not None
    ):  # the same library's code may be called from several functions
        numbers["charged 0"], names["function 0"] = second.charged, second.name
        calls = " and the code it calls" if second.own < MOSTLY * second.charged and not _is_python(second) else ""
        verb = "is" if evidence.seconds is not None else "are"
        is_copy = function_text(second.name) == function_text(first.name) and second.file == first.file  # inlined into some callers
        where = "another copy of it" if is_copy else f"{function_text(second.name)}{_source(evidence, second)}{calls}"
        text += f", and {about(second.charged, functions)} {verb} in {where}"
    yield Sentence(rule, f"{text}{_of_process(evidence)}{_on_one_thread(evidence, first, numbers)}.", numbers, names)


def _with_further(evidence: Evidence, functions: SampledFunctions, further: list[ChargedFunction], first: _Beginning) -> str:
    """Return the text about the first function with further ones; the caller of all of them comes once, at the end."""
    verb = "is" if evidence.seconds is not None else "are"
    parts, callers = [], []
    for number, one in enumerate(further):
        first.numbers[f"charged {number}"], first.names[f"function {number}"] = one.charged, one.name
        callers.append(_called_from(functions, one, one.charged, first.numbers, first.names, f"caller {number}"))
        where, share = _python_function(evidence, one)
        parts.append((about(share, functions), f"in {where}"))
    common = callers[0]
    is_common = first.text.endswith(common) if common else "caller" not in first.names and first.text.endswith(")")
    if is_common and len({*callers}) == 1:
        every = f", {'both' if len(parts) == 1 else 'all'}{common.removeprefix(',')}" if common else ""
        return join_names([first.text.removesuffix(common), *map(" ".join, parts)]) + every
    clauses = [first.text, *(f"{share} {verb} {where}{called}" for (share, where), called in zip(parts, callers, strict=True))]
    return ", and ".join(clauses) if len(clauses) == 2 else f"{'; '.join(clauses[:-1])}; and {clauses[-1]}"


def _own_function(evidence: Evidence, functions: SampledFunctions, hot: ChargedFunction, *, is_alone: bool = False) -> _Beginning:
    """Return the beginning of the sentence about a function of own code.

    is_alone: no other function is named, so that the share of what it calls includes own code that this calls, and has parts.
    """
    measure = measure_of(evidence)
    numbers, names = {"charged": hot.charged, "own": hot.own}, {"function": hot.name}
    work, callee = _largest(hot.kernel_work), _largest(hot.callees)
    if work is not None and work.share >= HALF * hot.charged and is_named(work.share, functions, IS_SECOND):
        numbers["kernel work"], names["kernel work"] = work.share, work.name
        kind = "page faults" if work.name == PAGE_FAULTS else f"the system call {visible(work.name)}()"
        function = f"{function_text(hot.name)}{_source(evidence, hot, in_kernel=True)}"
        is_vague = how_called(hot.vague, work.share) != "called from"
        text = f"{start_with(work.share, functions)} of {measure} in {kind}{', called below' if is_vague else ' of'} {function}"
        if work.share < MOSTLY * hot.charged:
            text = f"{start_with(hot.charged, functions)} of {measure} in {function} and the code it calls, mostly {kind}"
        elif work.name == _GIVES_WAY and not is_vague:  # a function that worked between its calls would have more time of its own
            text += ", which waits in a loop"
        return _Beginning(text, "kernel work", numbers, names)
    is_expression = callee is not None and callee.share >= HALF * hot.charged and callee.name.startswith(EXPRESSION)
    if (builtins := _builtins(hot)) and hot.own < MOSTLY * hot.charged and not is_expression:
        share = sum(one.share for one in builtins)
        numbers["callee"], names["callee"] = share, builtins[0].name
        where = f"{join_names([*dict.fromkeys(builtin_text(one.name) for one in builtins)])}, called from "
        line = _source(evidence, hot, callee=builtins[0].name) if len(builtins) == 1 else ""
        line = line or _source(evidence, hot, amount=OTHERS)
        where += f"{function_text(hot.name)}{line}{_caller_of_nameless(hot)}"
        return _Beginning(f"{start_with(share, functions)} of {measure} in {where}", "builtin", numbers, names)
    if hot.own < MOSTLY * hot.charged and callee and callee.share >= HALF * hot.charged and callee.name and not _is_python(hot):
        share = sum(one.share for one in hot.callees if is_part(one.name, name_in_sentence(callee.name)))
        numbers["callee"], numbers["with parts"], names["callee"] = callee.share, share, callee.name
        is_switch = _SWITCH.match(callee.name) is not None
        where = f"{'switches between threads' if is_switch else function_text(callee.name)}, {how_called(hot.vague, callee.share)} "
        where += f"{function_text(hot.name)}{_source(evidence, hot, callee=callee.name)}{_caller_of_nameless(hot)}"
        return _Beginning(f"{start_with(share, functions)} of {measure} in {where}", "callee", numbers, names)
    if hot.own < MOSTLY * hot.charged and not _is_python(hot):
        callees = [
            one for one in hot.callees if one.name and one.share >= IS_SECOND * hot.charged and not _OF_INTERRUPTS.fullmatch(one.name)
        ]
        called_functions = [*dict.fromkeys(function_text(one.name) for one in callees)]
        which = f" ({join_names(called_functions[:2])})" if called_functions else _system_calls(functions, hot, numbers)
        where = f"{function_text(hot.name)}{_source(evidence, hot)} and the code it calls{which}"
        text = f"{start_with(hot.charged, functions)} of {measure} in {where}"
        return _Beginning(text, "hot function and callees", numbers, names)
    where, share = _python_function(evidence, hot)
    share = share if _is_python(hot) else hot.own
    whole, parts = parts_of_call(functions, hot.number, hot.entries[0].name) if is_alone and hot.entries else (0.0, [])
    if whole >= MOSTLY * share and where.startswith(entry_text(hot.entries[:1], _ANY) or "\0"):
        share, numbers["whole call"] = whole, whole
    else:
        parts = []
    text = f"{start_with(share, functions)} of {measure} in {where}"
    called = _called_from(functions, hot, share, numbers, names, "caller")
    if hot.is_recursive:
        called = f", which calls itself{called.replace(', called', ' and is called', 1)}"
    text += called + _parts_text(functions, parts, numbers, names)
    text += _stretches_text(evidence, hot, numbers) if is_alone else ""
    return _Beginning(text, "hot function", numbers, names)


def _stretches_text(evidence: Evidence, hot: ChargedFunction, numbers: dict[str, float]) -> str:
    """Return in how many long stretches of time a function's C function runs; "" if there are no such stretches."""
    callee = _largest(hot.callees)
    if callee is None or callee.share < MOSTLY * hot.charged or not is_called_c_function(callee.name):
        return ""
    stretches = evidence.stretches(hot.number, callee.name)
    if stretches is None:
        return ""
    numbers |= {"stretches": float(stretches.number), "in stretches": stretches.share}
    shortest, longest = seconds(stretches.shortest), seconds(stretches.longest)
    length = shortest if shortest == longest else f"{shortest} to {longest}"
    how_many = f"{percent(stretches.share)} of that in {number_word(stretches.number)} stretches of {length}"
    return f"; {how_many} without other samples: few of its calls may take the time"


def _parts_text(functions: SampledFunctions, parts: Sequence[Share], numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return the largest of the functions into which the time of a call divides; "" if none is large."""
    told = [one for one in parts[:_MOST] if is_named(one.share, functions, OF_CALL)]
    for number, one in enumerate(told):
        numbers[f"part {number}"], names[f"part {number}"] = one.share, one.name
    texts = [f"{about(one.share, functions)} in {library_function([one], _ANY) or function_text(one.name)}" for one in told]
    return f": {join_names(texts)}" if texts else ""


def _builtins(hot: ChargedFunction) -> list[Share]:
    """Return the functions of V8's library in which a JavaScript function spends most of its time; empty for others."""
    builtins = [one for one in hot.entries if builtin_text(one.name) and one.share >= IS_SECOND * hot.charged]
    return builtins if sum(one.share for one in builtins) >= HALF * hot.charged else []


def _caller_of_nameless(hot: ChargedFunction) -> str:
    """Return which function calls one without a name in nearly all of its samples, "" for functions with a name."""
    is_nameless = name_in_sentence(hot.name) == NAMELESS_SCRIPT
    if not is_nameless or hot.caller is None or not hot.caller.name or hot.caller.share < MOSTLY * hot.charged:
        return ""
    return f", which {function_text(hot.caller.name)}{source(hot.caller.name, None)} calls"


def _system_calls(functions: SampledFunctions, hot: ChargedFunction, numbers: dict[str, float]) -> str:
    """Return the system calls that a function spends most of its time in, if that is several together; "" otherwise."""
    calls = [one for one in hot.kernel_work if one.name != PAGE_FAULTS]
    share = sum(one.share for one in calls)
    if len(calls) < 2 or share < HALF * hot.charged or not is_named(share, functions, IS_SECOND):
        return ""
    numbers["system calls"] = share
    return f", mostly system calls ({join_names([f'{visible(one.name)}()' for one in calls[:_MOST]])})"


def _python_function(evidence: Evidence, hot: ChargedFunction) -> tuple[str, float]:
    """Return a function with its line, and its share; or what it calls in nearly all of its samples: a C function, or one of a library."""
    function, line = function_text(hot.name), _source(evidence, hot)
    callee = _largest(hot.callees)
    if callee is not None and callee.share >= MOSTLY * hot.charged and is_called_c_function(callee.name):
        return f"{function_text(callee.name)} of {function}{line}", callee.share
    if not (called := entry_text(hot.entries, MOSTLY * hot.charged)):
        most = entry_text(hot.entries, MAINLY * hot.charged)
        if not most or most.startswith("the import "):
            return f"{function}{line}", hot.charged
        return f"{function} ({f'{line[2:-1]}, ' if line else ''}mostly {most})", hot.charged
    share = next(total for total in accumulate(one.share for one in hot.entries) if total >= MOSTLY * hot.charged)
    is_top_level = hot.name.startswith(f"{PYTHON_MARK}<module>:")
    return f"{called}{'' if is_top_level and line else f' of {function}'}{line}", share


def _called_from(
    functions: SampledFunctions, hot: ChargedFunction, share: float, numbers: dict[str, float], names: dict[str, str], key: str
) -> str:
    """Return the own function that calls a function in most of its samples, "" for none; share: of these samples.

    The name of a list comprehension or a lambda says already in which function it is.
    """
    if hot.caller is None or hot.caller.share < HALF * share or not hot.caller.name:
        return ""
    if function_text(hot.name).endswith(f" in {function_text(hot.caller.name)}"):
        return ""
    numbers[key], names[key] = hot.caller.share, hot.caller.name
    is_only = hot.caller.share >= NEARLY_ALL * hot.called
    library = "" if hot.is_recursive else entry_text(hot.entries_of_caller, MOSTLY * hot.caller.share)
    by = f"called by {library} in" if library and not _WRAPPER.search(library) else how_called(hot.vague_caller, hot.caller.share)
    return f", {by} {function_text(hot.caller.name)}{'' if is_only else f' ({percent(hot.caller.share * functions.busy)})'}"


def _without_own_code(evidence: Evidence, functions: SampledFunctions, hot: ChargedFunction) -> Iterator[Sentence]:
    """Name a function of a library, an interpreter or the kernel, if no own code called it; or the whole category."""
    if evidence.event.tracepoint:
        return  # all of them are in the kernel
    categories = functions.by_category()
    share, number = max((share, number) for number, share in enumerate(categories))
    measure, process = measure_of(evidence), _of_process(evidence)
    if hot.name and hot.category != INTERPRETER and is_named(hot.own, functions, STANDS_OUT):
        numbers, names = {"charged": hot.charged, "own": hot.own}, {"function": hot.name}
        text = (
            f"{start_with(hot.own, functions)} of {measure} in {function_text(hot.name)}{source(hot.name, None, _shown_file(hot))}{process}"
        )
        yield Sentence("function of others", f"{text}.", numbers, names)
    elif number != OWN and is_named(share, functions, HALF):
        numbers = {"category": share, "number": float(number)}
        kind = "the kernel" if number == KERNEL else f"the {NAMES[number]}" if number in (INTERPRETER, RUNTIME) else NAMES[number]
        where = f"{kind} ({_shown_file(hot)})" if hot.file and hot.category == number != KERNEL else kind
        work = _largest(tuple(functions.kernel_work()))
        if number == KERNEL and work and work.share >= HALF * share:
            numbers["kernel work"] = work.share
            where += f", most of it in {'page faults' if work.name == PAGE_FAULTS else f'the system call {visible(work.name)}()'}"
        is_python = number == INTERPRETER and "python" in hot.file and not evidence.read_python
        advice = "; record --python names its functions" if is_python else ""
        yield Sentence("category", f"{start_with(share, functions)} of {measure} in {where}{process}{advice}.", numbers)
    elif not hot.name:
        yield from _without_symbols(evidence, functions, hot)


def _without_symbols(evidence: Evidence, functions: SampledFunctions, hot: ChargedFunction) -> Iterator[Sentence]:
    if hot.file:
        where = f"code of {_shown_file(hot)} without symbols{_of_process(evidence)}"
        yield Sentence(
            "no symbols", f"{start_with(hot.charged, functions)} of {measure_of(evidence)} in {where}.", {"charged": hot.charged}
        )


def work_of_runtime(evidence: Evidence) -> Iterator[Sentence]:
    """Tell what share of the CPU time collects garbage or compiles."""
    functions = evidence.functions
    if functions is None or functions.samples < FEWEST or evidence.is_system_wide:
        return
    collecting, caller = evidence.in_garbage_collection
    for rule, share in (("garbage collection", collecting), ("compilation", evidence.in_compilers)):
        if is_named(share, functions, IN_COLLECTOR):
            where, numbers = "the compiler of the runtime (JIT)" if rule == "compilation" else rule, {"share": share}
            names: dict[str, str] = {}
            if rule == "garbage collection":
                where += _collections(evidence, numbers) or _of_whole_heap(evidence, functions, share, numbers)
            allocations = _allocations(evidence, numbers, names) if rule == "garbage collection" else ""
            if allocations:
                where += allocations
            elif rule == "garbage collection" and caller is not None and caller.share >= MAINLY:
                names["caller"], numbers["of caller"] = caller
                most = "nearly all" if caller.share >= NEARLY_ALL else percent(caller.share)
                where += f", {most} of it during {function_text(caller.name)}"
            yield Sentence(rule, f"{start_with(share, functions)} of {measure_of(evidence)} in {where}.", numbers, names)


def _allocations(evidence: Evidence, numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return the one or two functions that have most of the time in allocations, "" if they are more."""
    allocators = evidence.allocators
    if allocators and allocators[0][1] >= MAINLY:
        allocators = allocators[:1]
    if sum(share for _, share in allocators) < MAINLY:
        return ""
    for number, (name, share) in enumerate(allocators):
        names[f"allocator {number}"], numbers[f"of allocations {number}"] = name, share
    first, *rest = [f"that of {function_text(name)}" for name, _ in allocators]
    others = [f"{percent(share)} {text}" for (_, share), text in zip(allocators[1:], rest, strict=True)]
    return f"; {join_names([f'{percent(allocators[0][1])} of the time in allocations is {first}', *others])}"


def json_of_v8(evidence: Evidence) -> Iterator[Sentence]:
    """Tell what share of the CPU time converts JSON, and what calls for it: for Node itself, the module."""
    functions, (shares, caller) = evidence.functions, evidence.json_of_v8
    total = sum(one.share for one in shares)
    if functions is None or functions.samples < FEWEST or evidence.is_system_wide or not is_named(total, functions, STANDS_OUT):
        return
    numbers, names, called = {"share": total, **{one.name: one.share for one in shares}}, {}, ""
    if caller is not None and caller.share >= MAINLY * total:
        names["caller"], numbers["of caller"] = caller
        module = _MODULE_OF_NODE.search(caller.name)
        called = f", mostly called from {visible(module[1]) if module else function_text(caller.name)}"
    which = join_names([one.name for one in shares if one.share >= IS_SECOND * total])
    yield Sentence("JSON", f"{start_with(total, functions)} of {measure_of(evidence)} in {which}{called}.", numbers, names)


def _collections(evidence: Evidence, numbers: dict[str, float]) -> str:
    """Return how often a JVM collected garbage, at least, and the option that limits what it collected most; "" for other programs."""
    kinds = sorted(evidence.collections.values(), key=lambda one: -one.looks)
    if not kinds:
        return ""
    numbers |= {f"{one.reason} collections": float(one.seen) for one in kinds}
    kind, option, megabytes = kinds[0].reason, kinds[0].began[0].function, kinds[0].began[0].line
    counts = [
        f"{one.seen:,} {plural(one.seen, 'collection')} of {_COLLECTED.get(one.reason, one.reason)}"
        for one in kinds
        if one.looks >= OTHER_KIND * kinds[0].looks
    ]
    named = f" ({visible(option)})" if option else ""
    # without an option, the JVM chooses the size for young objects, and changes it
    is_limited = megabytes and len(counts) == 1 and (option or kind == "full")
    limit = f", which may {'grow to' if kind == 'full' else 'take up to'} {megabytes:,} MB{named}" if is_limited else ""
    return f": at least {join_names(counts)}{limit}"


def _of_whole_heap(evidence: Evidence, functions: SampledFunctions, share: float, numbers: dict[str, float]) -> str:
    """Return the share in which V8 collects the garbage of its whole heap, and the limit of the heap; "" for other programs."""
    whole = evidence.in_whole_heap
    if not is_named(whole, functions, IS_SECOND):
        return ""
    numbers["of whole heap"] = whole
    found = next((match for one in evidence.heap_options if (match := _LARGEST_HEAP.fullmatch(one))), None)
    limit = f", which may grow to {int(found[1]):,} MB ({visible(found[0])})" if found else ""
    how_much = "mostly" if whole >= MOSTLY * share else f"{about(whole, functions)} in"
    return f", {how_much} that of the whole heap (mark-compact){limit}"


def rarely_runs(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that the program used little CPU time, for recordings that do not have its waits."""
    used, elapsed = evidence.seconds, evidence.elapsed
    if used is None or evidence.records_waits or evidence.is_system_wide or elapsed < LEAST_ELAPSED or evidence.has_several:
        return
    if evidence.is_program and used < RARELY_RUNS * elapsed:
        text = f"CPUs were used for {seconds(used)} of {seconds(elapsed)}; perfpy record --off-cpu shows the waits."
        yield Sentence("rarely runs", text, {"seconds": used, "elapsed": elapsed})


def _largest(shares: tuple[Share, ...]) -> Share | None:
    return shares[0] if shares else None


def _is_python(hot: ChargedFunction) -> bool:
    """Whether the function is run by an interpreter, whose code counts for it."""
    return hot.name.startswith(PYTHON_MARK)


def _source(evidence: Evidence, hot: ChargedFunction, *, callee: str = "", in_kernel: bool = False, amount: str = "") -> str:
    """Return where most samples of a function are, as a suffix, with their share if they are not nearly all.

    Args:
        evidence: of the recording.
        hot: the function.
        callee, in_kernel: only samples in a function that it calls, or in the kernel.
        amount: the words in place of the share.
    """
    line = evidence.line(hot.number, callee=callee, in_kernel=in_kernel) if hot.category == OWN else None
    if line is None or evidence.functions is None:
        return source(hot.name, None)
    amount = "" if line.is_alone else amount or _amount(evidence.functions, line)
    text = source(hot.name, line, amount=amount)
    is_inlined = evidence.is_inlined(hot.number, line.source_line)
    return text.replace("(", "(inlined code, " if amount else "(inlined code at ", 1) if is_inlined else text


def _amount(functions: SampledFunctions, line: HotLine) -> str:
    """Return the share of a line, "" if it has nearly all samples of its function."""
    return "" if line.is_alone else percent(functions.share(line.period) * functions.busy)


def _shown_file(hot: ChargedFunction) -> str:
    return "kernel" if hot.category == KERNEL else visible(hot.file)


def _of_process(evidence: Evidence) -> str:
    """Return the name of the process, if several were recorded and one has nearly all samples."""
    if not evidence.has_several_processes:
        return ""
    pid, share = evidence.processes[0]
    name, others = evidence.comm(pid), {evidence.comm(other) for other, _ in evidence.processes[1:]}
    is_told_apart = share >= ONE_THREAD and name and name not in others
    return f", nearly all of it in {program_text(name)}" if is_told_apart else ""


def _on_one_thread(evidence: Evidence, hot: ChargedFunction, numbers: dict[str, float]) -> str:
    """Return the number of threads, if one of them has nearly all samples.

    Runtimes with a compiler, but not CPython, start threads of their own, which are not the program's.
    """
    busiest = evidence.busiest_thread
    functions = evidence.functions
    if busiest is None or functions is None or busiest.threads < MANY_THREADS or evidence.has_several_processes:
        return ""
    if functions.is_generated(hot.number) and not _is_python(hot):
        return ""
    if not is_named(busiest.share, functions, ONE_THREAD):
        return ""
    numbers["thread"], numbers["threads"] = busiest.share, float(busiest.threads)
    return f"; one thread of {number_word(busiest.threads)} is busy"
