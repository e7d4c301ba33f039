"""Sentences about the processes of a recording: who started them, whether they run side by side, and what they do when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND
from perfpy.analysis.verdict.categories import KERNEL
from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import (
    HALF,
    LEAST_ELAPSED,
    ONE_THREAD,
    STANDS_OUT,
    Sentence,
    about,
    beginning,
    function_text,
    is_named,
    join_names,
    measure_of,
    noun_of,
    number_word,
    percent,
    program_text,
    seconds,
    source,
    start_with,
    starting_code,
    within,
)
from perfpy.views.verdict.waits import AT_REST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.processes import ProcessStart, StartedProcesses


STARTED: Final = 50  # the least number of started processes, and
STARTED_A_SECOND: Final = 30
PERIODS_A_LIFE: Final = 3  # with fewer, samples of short processes are too few: a new one has none before its first period ends
RATE_FOR_SHORT: Final = 9999  # samples a second
BESIDE: Final = 0.03  # of the elapsed time: a phase that begins earlier begins with the program
LONGEST: Final = 160  # characters of a sentence on started processes
_MOST_PROGRAMS: Final = 3  # that are named


def sentences_on_processes(evidence: Evidence, *, has_function: bool) -> tuple[list[Sentence], list[Sentence]]:
    """Return the sentences on the largest process or the files of a build, and on started processes; without what others tell better.

    has_function: whether a function is named, with the process.
    """
    largest, started, files = [*largest_process(evidence)], [*started_processes(evidence)], [*compiled_files(evidence)]
    if largest and started and "largest" in started[0].numbers and "alone" not in largest[0].numbers and not is_build(evidence):
        largest = []  # the other one tells who started it
    is_only_one = has_function and started and "largest" in started[0].numbers and "function" not in started[0].names
    if files or largest or is_only_one or is_build(evidence):
        started = []
    return largest or files, started


def is_build(evidence: Evidence) -> bool:
    """Whether most of the CPU time is in compilers of several files, whose functions tell nothing of the program that they compile."""
    return len(evidence.compiled) > 1 and evidence.in_build_tools >= HALF


def killed_processes(evidence: Evidence) -> Iterator[Sentence]:
    """Tell which processes a signal killed. The recorder may not have seen the ends of all."""
    for killed in evidence.killed[:1]:
        is_all = killed.number >= killed.started > 1
        count = f"all {number_word(killed.number)}" if is_all else number_word(killed.number)
        number = f"at least {count}" if 1 < killed.number < killed.started else count
        of_what = f"{plural(killed.number, 'process', 'processes')} of {program_text(killed.program)}"
        parent = f", which {program_text(killed.parent)} started," if killed.parent not in ("", killed.program) else ""
        verb = "was" if killed.number == 1 else "were"
        text = beginning(f"{number} {of_what}{parent} {verb} killed by {visible(killed.signal)}")
        if killed.function:
            each = (
                ("", "each ")[killed.number > 1] if killed.in_function == killed.number else f"{number_word(killed.in_function)} of them "
            )
            text += f", {each}in {function_text(killed.function)}{source(killed.function, killed.line)}"
        numbers = {"killed": float(killed.number), "started": float(killed.started)}
        yield Sentence("killed", f"{text}.", numbers, {"program": killed.program, "signal": killed.signal})


def started_processes(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that many processes were started, or that few have most of the CPU time: which, by what, and what they cost.

    Of a long sentence, the programs of the processes and those between are a second one.
    """
    started, elapsed, functions = evidence.started, evidence.elapsed, evidence.functions
    if started is None or elapsed < LEAST_ELAPSED:
        return
    count = len(started.pids)
    if count == 1 and not started.programs:
        return  # one worker that runs own code: its functions tell more
    are_many = count >= STARTED and count / elapsed >= STARTED_A_SECOND
    start = evidence.start_of(started) if started.starter else None
    is_at_rest = evidence.records_waits and (evidence.seconds or 0.0) < AT_REST * elapsed
    of_all = evidence.share_of_processes(started.pids)
    largest, of_largest = _largest_process(evidence, started) if count > 1 and not are_many else (0, 0.0)
    has_cause = start is not None or largest in started.programs
    is_unimportant = functions is None or not has_cause or not is_named(of_all, functions, HALF)
    if not are_many and (is_at_rest or is_unimportant):
        return
    names = {"starter": started.starter_name} | ({"function": start.function} if start is not None else {})
    pids, programs = started.pids, _programs(started)
    command, most = next(iter(started.commands), ("", 0))
    which = f" ({programs})" if programs else ""
    if most >= ONE_THREAD * count:
        pids, programs, which = started.pids_of(command), "", f" of {program_text(command)}"
    when = f" in {seconds(elapsed)}" + ("" if seconds(elapsed) == "1 s" else f" ({len(pids) / elapsed:,.0f} a second)") if are_many else ""
    how_many, through = _started_through(started, pids)
    where = f"{f', {how_many} of them by {through}' if through else ''}{_code_that_started(started, start)}"
    starter = _starter(started, where)
    copies = [pid for pid in started.pids if pid not in started.programs]
    numbers = {"started": float(count), "elapsed": elapsed, "named": float(len(pids)), "copies": float(len(copies))}
    numbers["share of copies"] = evidence.share_of_processes(copies)
    is_share_known = are_sampled = not are_many or _lives_are_sampled(evidence, started.life)
    share, kernel = 0.0, ""
    if functions is not None and functions.period:
        in_kernel, share = functions.by_category()[KERNEL], evidence.share_of_processes(pids)
        is_share_known &= is_named(share, functions, HALF)
        if is_named(in_kernel, functions, HALF):
            numbers["kernel"] = in_kernel
            of_what = "is" if starter and is_share_known else f"of {measure_of(evidence)}"
            kernel = f"; {percent(in_kernel * functions.busy)} {of_what} in the kernel"
    text, verb = f"{len(pids):,} {plural(len(pids), 'process', 'processes')}{which}", "started" if started.programs else "forked"
    if largest in pids:
        numbers["largest"] = share = of_largest
        named = f", one of {text.partition(' (')[0]}"
        text = f"{program_text(program)}{named}" if (program := started.programs.get(largest, "")) != command else f"one of {text}"
    if starter and is_share_known and functions is not None:
        numbers["share"] = share
        text = f"{start_with(share, functions)} of {measure_of(evidence)} in {text}, which {starter} {verb}{when}{where}{kernel}"
    elif starter:
        text = f"{starter} {verb} {text}{when}{where}{kernel}"
    else:
        text += f" were {verb}{when}{kernel}"
    text += "" if are_sampled else _short_lives(started, numbers)
    yield from _in_two(Sentence("started processes", f"{text}.", numbers, names), len(pids), programs, how_many, through)


def _short_lives(started: StartedProcesses, numbers: dict[str, float]) -> str:
    """Return how long processes live that are too short for samples, "" if it is unknown."""
    if not started.life:
        return ""
    numbers["life"] = started.life
    return f"; most live for about {seconds(started.life)}, too short for samples at this rate: record -F {RATE_FOR_SHORT} counts them"


def _starter(started: StartedProcesses, where: str) -> str:
    """Return the program that started processes, "" if it is unknown; its script, if no code is told (where)."""
    name = started.script if started.script and not where else started.starter_name
    return f"{program_text(name)}{'' if started.is_alone else ' and its children'}" if started.starter_name else ""


def _in_two(sentence: Sentence, count: int, programs: str, how_many: str, through: str) -> Iterator[Sentence]:
    """Return a sentence on started processes; of a long one the programs and the processes between as a second sentence.

    Args:
        sentence: the whole one.
        count: the processes that it names.
        programs: their programs, "" for one.
        how_many, through: see _started_through().
    """
    if len(sentence.text) <= LONGEST or not (programs or through) or "largest" in sentence.numbers:
        yield sentence
        return
    short = sentence.text.replace(f" ({programs})", "", 1)
    yield sentence._replace(text=short.replace(f", {how_many} of them by {through}", "", 1) if through else short)
    parts = [f"the {count:,} processes are {programs}"] if programs else []
    parts += [f"{through} started {how_many} of {'them' if programs else f'the {count:,} processes'}"] if through else []
    yield Sentence("programs of started processes", f"{beginning('; '.join(parts))}.", {"named": float(count)})


def _largest_process(evidence: Evidence, started: StartedProcesses) -> tuple[int, float]:
    """Return the started process with nearly all of their CPU time, and its share of all; 0 for none."""
    functions, of_all = evidence.functions, evidence.share_of_processes(started.pids)
    pid, share = next(((pid, share) for pid, share in evidence.processes if pid in started.pids), (0, 0.0))
    return (pid, share) if functions is not None and share >= ONE_THREAD * of_all and is_named(share, functions, HALF) else (0, 0.0)


def largest_process(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that one of several processes of a program has most of the CPU time, and since when it works alone."""
    largest, functions = evidence.largest_process, evidence.functions
    if largest is None or functions is None or not is_named(largest.share, functions, HALF):
        return
    numbers = {"share": largest.share, "processes": float(largest.number), "pid": float(largest.pid)}
    program = program_text(evidence.comm(largest.pid))
    named = evidence.process_names.get(largest.pid)
    name = f"{program_text(named.name)} (process {largest.pid})" if named and named.is_worker else f"process {largest.pid}"
    if largest.pid in evidence.compiled:
        name = f"process {largest.pid}, which compiles {visible(evidence.compiled[largest.pid])}"
    text = f"{start_with(largest.share, functions)} of {measure_of(evidence)} in {name}, one of {number_word(largest.number)} of {program}"
    if largest.alone:
        end = largest.alone_from + largest.alone
        until = "on" if end >= (1 - BESIDE) * evidence.elapsed else f"to {seconds(end)}"
        numbers |= {"alone from": largest.alone_from, "alone": largest.alone}
        when = f"from {seconds(largest.alone_from)} {until} ({seconds(largest.alone)} of {seconds(evidence.elapsed)})"
        text += f"; {when}, it works alone"
    yield Sentence("largest process", f"{text}.", numbers, {"command": evidence.comm(largest.pid)})


def compiled_files(evidence: Evidence) -> Iterator[Sentence]:
    """Tell which files of a build take most of the CPU time."""
    functions = evidence.functions
    totals: dict[str, float] = {}
    programs: dict[str, str] = {}
    for pid, share in evidence.processes:
        if (file := evidence.compiled.get(pid)) is not None:
            totals[file] = totals.get(file, 0.0) + share
            programs.setdefault(file, evidence.comm(pid))
    if functions is None or len(totals) < 2 or not is_named(sum(totals.values()), functions, HALF):
        return
    files = sorted(totals, key=lambda file: -totals[file])[:_MOST_PROGRAMS]
    first, *rest = ((f"{visible(file)} ({visible(programs[file])})", about(totals[file], functions)) for file in files)
    texts = [f"{first[0]} takes {first[1]} of {noun_of(evidence)}", *(f"{file} {share}" for file, share in rest)]
    numbers = {f"share {number}": totals[file] for number, file in enumerate(files)}
    names = {f"file {number}": file for number, file in enumerate(files)}
    yield Sentence("compiled files", f"Building {join_names(texts)}; {number_word(len(totals))} files in all.", numbers, names)


def _started_through(started: StartedProcesses, pids: frozenset[int]) -> tuple[str, str]:
    """Return how many of the processes those of a program between started, and which these are; "" for both unless that is most.

    pids: the processes that the sentence names.
    """
    creator, created, runs = started.through
    if not runs or len(created & pids) < HALF * len(pids):
        return "", ""
    how_many = "all" if created >= pids else percent(len(created & pids) / len(pids))
    return how_many, f"{runs:,} {plural(runs, 'process', 'processes')} of {program_text(creator)}"


def _code_that_started(started: StartedProcesses, start: ProcessStart | None) -> str:
    """Return the code that starts processes, or waits for them, as it follows "which PROGRAM started"."""
    if start is None:
        return ""
    how = f"; {'it waits' if started.is_alone else 'their parents wait'} for them" if start.is_wait else ","
    return f"{how} {'' if start.is_nearly_all else 'mostly '}{within(starting_code(start), start.vague)}"


def _programs(started: StartedProcesses) -> str:
    """Return how many processes ran the most frequent programs; "" for none."""
    counts = [(count, program_text(name)) for name, count in started.commands]
    texts = [f"{count:,} of {name}" for count, name in counts[:_MOST_PROGRAMS]]
    rest = sum(count for count, _ in counts[_MOST_PROGRAMS:])
    copies = len(started.pids) - len(started.programs)
    texts += [f"{rest:,} of others"] if rest else []
    texts += [f"{copies:,} {plural(copies, 'copy', 'copies')} of their parents"] if copies and started.programs else []
    return join_names(texts) if texts else ""


def _lives_are_sampled(evidence: Evidence, life: float) -> bool:
    """Whether processes that live so long, in seconds, have their share of the samples: the first one comes after a whole period.

    life: 0.0 for processes that did not end.
    """
    functions = evidence.functions
    if functions is None or not functions.samples or evidence.seconds is None:
        return functions is not None
    return not life or life >= PERIODS_A_LIFE * functions.period / functions.samples / NANOSECONDS_A_SECOND


def turns_of_processes(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that processes worked one after the other, although they could work side by side."""
    turns = evidence.turns
    if turns is None:
        return
    names = {evidence.comm(pid) for pid in turns.pids}
    of_what = f" of {program_text(names.pop())}" if len(names) == 1 else ""
    jobs = evidence.allowed_jobs
    text = f"Only one process at a time had work in {percent(turns.share)} of {seconds(evidence.elapsed)}"
    text += f": {number_word(len(turns.pids))} processes{of_what} ran one after the other"
    text += f", although {visible(jobs)} allows more" if jobs else ""
    yield Sentence("turns", f"{text}.", {"share": turns.share, "processes": float(len(turns.pids)), "elapsed": evidence.elapsed})


def regular_bursts(evidence: Evidence) -> Iterator[Sentence]:
    """Tell that the program uses CPUs at regular times only; of few bursts what was recorded."""
    bursts = evidence.bursts
    if bursts is None:
        return
    pid, share = next(iter(evidence.processes), (0, 0.0))
    who = program_text(evidence.comm(pid)) if share >= ONE_THREAD and evidence.comm(pid) else "The program"
    every = f"{'every' if bursts.is_certain else 'about every'} {seconds(bursts.every)}"
    verb = "works" if bursts.is_certain else "worked"
    text = f"{who} {verb} in bursts: {seconds(bursts.seconds)} of CPU time {every}, {number_word(bursts.number)} times."
    yield Sentence("bursts", text, {"every": bursts.every, "seconds": bursts.seconds, "count": float(bursts.number)})


def phases_of_program(evidence: Evidence) -> Iterator[Sentence]:
    """Tell which functions or programs have nearly all CPU time one after the other, and when."""
    texts: list[str] = []
    numbers: dict[str, float] = {}
    names: dict[str, str] = {}
    for number, phase in enumerate(evidence.phases):
        is_last = number == len(evidence.phases) - 1
        since = f"from {seconds(phase.begin)} " if number or phase.begin > BESIDE * evidence.elapsed else ""
        is_until_end = is_last and phase.end >= (1 - BESIDE) * evidence.elapsed
        until = "on" if is_until_end and since else f"{'to' if since else 'until'} {seconds(phase.end)}"
        of_what = " of the CPU time" + (" of the threads that run its code" if phase.is_of_threads else "") if not number else ""
        name = program_text(phase.function) if phase.is_program else function_text(phase.function)
        texts.append(f"{since}{until}, {percent(phase.share)}{of_what} is in {name}")
        numbers |= {f"begin {number}": phase.begin, f"end {number}": phase.end, f"share {number}": phase.share}
        names[f"function {number}"] = phase.function
    if texts:
        yield Sentence("phases", f"{beginning('; '.join(texts))}.", numbers, names)


def busiest_command(evidence: Evidence) -> Iterator[Sentence]:
    """Name the command with most samples, if several processes were recorded."""
    functions = evidence.functions
    if functions is None or not evidence.has_several_processes:
        return
    name, share = evidence.busiest_command
    if evidence.is_recorder(name):
        return  # its work is not there without the measurement
    if name and share < ONE_THREAD and is_named(share, functions, STANDS_OUT):
        text = f"{program_text(name)} has {about(share, functions)} of {noun_of(evidence)}."
        yield Sentence("busiest command", text, {"share": share}, {"command": name})
