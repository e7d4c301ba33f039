"""The processes of a recording: their parents, the programs that they execute, the program that recorded, and what each one is for.

Workers of a service have the comm of their master. Their command lines tell more (ObservedCommand in perfpy.perfdata.kept_files): the title
that a process has given itself, its script or module, and who started it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import MISC_COMM_EXEC, RecordType
from perfpy.abi.framing import cut_comm
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND
from perfpy.perfdata.kept_files import BUILD_TOOL
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from perfpy.analysis.verdict.functions import SampledFunctions
    from perfpy.perfdata.kept_files import ObservedCommand, ObservedState
    from perfpy.perfdata.sample_source import SampleSource

    SourceLine = tuple[str, int]


MOST: Final = 0.8  #: of the time, in the function that is named
NEARLY_ALL: Final = 0.9  # of the started processes
LOOKS: Final = 8  # at a shell or a thread, at least
_MOST_LINES: Final = 3  # of a script that are named
_DEEPEST: Final = 64  # processes that descend from each other


class StartedProcesses(NamedTuple):
    """The processes that were started during a recording.

    Attributes:
        pids: those that `starter` created, directly or not, since it executed its program; without one, all.
        starter: the process that created nearly all of them, directly or not, and no other one within it; 0 for none.
        starter_name: its last name.
        script: the script that it runs, if the recorded command tells; "" otherwise.
        is_alone: whether processes of that name created all of them.
        programs: the program that each of them executed; processes without one are missing.
        life: the median of the seconds from their start to their end, 0.0 if that is unknown.
        through: another program than the starter's whose processes created most of them, these, and how many processes of the program were
            started; "" for none.
    """

    pids: frozenset[int]
    starter: int
    starter_name: str
    script: str
    is_alone: bool
    programs: dict[int, str]
    life: float
    through: tuple[str, frozenset[int], int] = ("", frozenset(), 0)

    @property
    def commands(self) -> list[tuple[str, int]]:
        """The programs that they executed, and how many did, the most frequent first."""
        return Counter(self.programs.values()).most_common()

    def pids_of(self, program: str) -> frozenset[int]:
        """Return the processes that executed a program."""
        return frozenset(pid for pid, name in self.programs.items() if name == program)


class LargestProcess(NamedTuple):
    """The one of several processes of a program that has most of the CPU time.

    Attributes:
        share: of all samples.
        number: the number of processes of the program.
        alone_from: seconds from the first sample until it was the only process with work, 0.0 if that is not certain.
        alone: how long it was, in seconds; 0.0 if that is not certain.
    """

    pid: int
    share: float
    number: int
    alone_from: float = 0.0
    alone: float = 0.0


class KilledProcesses(NamedTuple):
    """Processes of one program that a signal killed.

    Attributes:
        signal: its name.
        number: of those that the recorder saw.
        started: the number of processes of the program that were started meanwhile.
        parent: the name of the process that created all of them, "" for several.
        function, line: where most of those got the signal for which that is known; "" and None for none.
        in_function: their number.
    """

    program: str
    signal: str
    number: int
    started: int
    parent: str
    function: str = ""
    line: SourceLine | None = None
    in_function: int = 0


_BUILD_TOOL: Final = re.compile(BUILD_TOOL)


def is_build_tool(name: str) -> bool:
    """Whether a program is a compiler, an assembler or a linker."""
    return _BUILD_TOOL.fullmatch(name) is not None


def compiled_files(commands: Iterable[ObservedCommand]) -> dict[int, str]:
    """Return what each process of a build tool compiles, or makes; processes that do not tell are missing."""
    return {
        command.pid: os.path.basename(command.words[1]) or command.words[1]
        for command in commands
        if len(command.words) == 2 and is_build_tool(os.path.basename(command.words[0]))
    }


class ProcessStart(NamedTuple):
    """Where a process starts others.

    Attributes:
        function: own code; "" for lines of a script that are in no function.
        line: the path and the line, or the most frequent of several lines; 0 for many.
        lines: those of a script.
        is_nearly_all: whether it starts nearly all of them there.
        is_wait: whether it is only known to wait for them there.
        vague: the share that functions may start which this one calls.
    """

    function: str
    line: SourceLine | None
    is_nearly_all: bool
    lines: Sequence[int] = ()
    is_wait: bool = False
    vague: float = 0.0


def find_start_in_script(states: Iterable[ObservedState]) -> ProcessStart | None:
    """Return the function and lines of a shell script in which its children were started; None if it is unknown or there are many."""
    counts: dict[tuple[str, str], Counter[int]] = {}
    for state in states:
        if state.frames:
            function, file, line = state.frames[0]
            counts.setdefault((function, file), Counter())[line] += state.seen
    total = sum(lines.total() for lines in counts.values())
    (function, file), lines = max(counts.items(), key=lambda item: item[1].total(), default=(("", ""), Counter[int]()))
    if total < LOOKS or lines.total() < MOST * total:
        return None
    chosen: list[int] = []
    for line, _ in lines.most_common(_MOST_LINES):
        chosen.append(line)
        if sum(lines[one] for one in chosen) >= MOST * total:
            break
    else:
        chosen = []  # the script starts them everywhere
    return ProcessStart(function, (file, chosen[0] if chosen else 0), lines.total() >= NEARLY_ALL * total, sorted(chosen))


class Processes:
    """The processes of a recording.

    Args:
        data: of the recording.
        commands: the command lines, which also tell the parents of processes that were there before.
    """

    def __init__(self, data: SampleSource, commands: Iterable[ObservedCommand] = ()) -> None:
        self._data, self._commands = data, commands

    @cached_property
    def _created(self) -> list[tuple[int, int, int]]:
        """Each created process, its parent, and the delivery key of its record, in order."""
        side_band = self._data.side_band([RecordType.FORK]).tasks()
        tasks = side_band.tasks
        new = (tasks.type == RecordType.FORK) & (tasks.pid != tasks.ppid) & (tasks.pid == tasks.tid)
        keys = side_band.keys[tasks.rank[new] - 1]
        return list(zip(tasks.pid[new].tolist(), tasks.ppid[new].tolist(), keys.tolist(), strict=True))

    @cached_property
    def _parents(self) -> dict[int, int]:
        """Process -> the process that created it, in order."""
        before = {command.pid: command.parent for command in sorted(self._commands, key=lambda one: (one.began, one.pid))}
        return before | {pid: parent for pid, parent, _ in self._created}

    @cached_property
    def _names(self) -> tuple[dict[int, str], dict[int, str], dict[int, int]]:
        """The last name of each process, the last program that it executed, and the delivery key of that record."""
        names: dict[int, str] = {}
        programs: dict[int, str] = {}
        executed: dict[int, int] = {}
        for side in self._data.side_band([RecordType.COMM]):
            record = side.record
            if record.pid == record.tid:
                names[record.pid] = record.comm
                if record.misc & MISC_COMM_EXEC:
                    programs[record.pid], executed[record.pid] = record.comm, side.key
        return names, programs, executed

    def find_started(self) -> StartedProcesses | None:
        """Return the processes that were created during the recording, None without any."""
        begin = self._data.sample_times[0]
        pids = {pid: key for pid, _, key in self._created if key >= begin}
        if not pids:
            return None
        programs = self._names[1]
        descendants: Counter[int] = Counter()
        depths: dict[int, int] = {}
        for pid in pids:
            ancestors = self._ancestors(pid)
            descendants.update(ancestors)
            depths |= {ancestor: len(ancestors) - number for number, ancestor in enumerate(ancestors)}
        common = [pid for pid, count in descendants.items() if count >= NEARLY_ALL * len(pids)]
        starter = max(common, key=depths.__getitem__, default=0)
        of_starter = self._since_its_program(starter, [pid for pid in pids if starter in self._ancestors(pid)])
        name = self._name_of(starter)
        is_alone = all(self._name_of(self._parents[pid]) == name for pid in of_starter)
        executed = {pid: program for pid in of_starter or pids if (program := programs.get(pid, ""))}
        lives = [(end - pids[pid]) / NANOSECONDS_A_SECOND for pid, end in self._ends.items() if end >= pids.get(pid, end + 1)]
        life = float(np.median(lives)) if lives else 0.0
        script = self._script_of(starter, name)
        creators = {pid: self._name_of(self._parents[pid]) for pid in of_starter}
        creator, count = next(iter(Counter(creators.values()).most_common(1)), ("", 0))
        is_other = creator not in ("", name) and count >= MOST * len(of_starter)
        created = frozenset(pid for pid in creators if creators[pid] == creator) if is_other else frozenset()
        through = (creator if is_other else "", created, Counter(executed.values())[creator])
        return StartedProcesses(frozenset(of_starter or pids), starter, name, script, is_alone, executed, life, through)

    def _since_its_program(self, starter: int, pids: list[int]) -> list[int]:
        """Return the processes that the starter's last program created, directly or not; all if it created none.

        A script that runs some tools and then executes an interpreter (pyenv's) has started the others.
        """
        executed = self._names[2].get(starter, 0)
        created = {pid for pid, parent, key in self._created if parent == starter and key > executed}
        return [pid for pid in pids if created.intersection((pid, *self._ancestors(pid)))] or pids

    def _name_of(self, pid: int) -> str:
        """Return the last name of a process; a process without one has its parent's."""
        names = self._names[0]
        return next((names[one] for one in (pid, *self._ancestors(pid)) if one in names), "")

    def _ancestors(self, pid: int) -> list[int]:
        """Return the processes that a process descends from, the nearest first."""
        ancestors: list[int] = []
        while (pid := self._parents.get(pid, 0)) and pid not in ancestors and len(ancestors) < _DEEPEST:
            ancestors.append(pid)
        return ancestors

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Process -> the delivery key of the record of its end."""
        side_band = self._data.side_band([RecordType.EXIT]).tasks()
        tasks = side_band.tasks
        ended = (tasks.type == RecordType.EXIT) & (tasks.pid == tasks.tid)
        return dict(zip(tasks.pid[ended].tolist(), side_band.keys[tasks.rank[ended] - 1].tolist(), strict=True))

    def _script_of(self, pid: int, name: str) -> str:
        """Return the name of the script that the recorded command runs if a process is that command; "" otherwise."""
        words = self._command
        is_command = bool(words) and cut_comm(os.path.basename(words[0])) == name and len(words) > 1 and not words[1].startswith("-")
        return os.path.basename(words[1]) if is_command and not self._names[1].get(self.parent_of(pid)) else ""

    def with_descendants(self, pids: Collection[int]) -> set[int]:
        """Return those of some processes that another one of them descends from."""
        return {ancestor for pid in pids for ancestor in self._ancestors(pid)}.intersection(pids)

    def parent_of(self, pid: int) -> int:
        """Return the process that created a process, 0 for none."""
        return self._parents.get(pid, 0)

    def children_of(self, pid: int) -> list[int]:
        """Return the processes that a process created."""
        return [child for child, parent in self._parents.items() if parent == pid]

    def end_of(self, pid: int) -> int:
        """Return the delivery key of the end of a process, 0 if it is unknown."""
        return self._ends.get(pid, 0)

    def created_by(self, pid: int) -> list[int]:
        """Return the processes that a process created during the recording."""
        begin = self._data.sample_times[0]
        return [child for child, parent, key in self._created if parent == pid and key >= begin]

    def has_executed(self, pid: int) -> bool:
        """Whether a process executed a program during the recording."""
        return pid in self._names[1]

    @cached_property
    def _command(self) -> list[str]:
        """The words of the recorded command, empty if it is not known."""
        words = [str(word) for word in self._data.features.get("cmdline") or ()]
        return words[words.index("--") + 1 :] if "--" in words[:-1] else []

    @cached_property
    def recorder(self) -> str:
        """The name of the program that recorded: that of the parent of the recorded command; "" if it is not known."""
        command = cut_comm(os.path.basename(self._command[0])) if self._command else ""
        names, programs, _ = self._names
        pids = [pid for pid, name in programs.items() if name == command]
        return names.get(self._parents.get(pids[0], -1), "") if pids and command else ""


# What the processes of a service are for, by their command lines.


_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*[a-z]?")
_SPAWNED: Final = re.compile(r"from multiprocessing\.(spawn|forkserver|resource_tracker) import.*", re.DOTALL)
_EXECNET: Final = "import sys;exec(eval(sys.stdin.readline()))"  # how pytest-xdist starts its workers
_PYTEST: Final = ("pytest", "py.test")
_TITLE: Final = re.compile(r"[^ ]*[ :].*", re.DOTALL)  # of the title that a process gives itself; programs are one word
_DETAILS: Final = re.compile(r"[ :]*(?:\[[^\]]*\]|\([^)]*\))$")  # at the end of a title
_LONGEST: Final = 60
_HELPERS: Final = {"forkserver": "fork server", "resource_tracker": "resource tracker"}
_TARGET: Final = re.compile(PYTHON_MARK + r"(?:BaseProcess\.|Process\.)?run:.*/multiprocessing/process\.py", re.DOTALL)
#: targets that are no task of the program: the workers of pools, which its processes run for it
_OF_POOLS: Final = re.compile(PYTHON_MARK + r".*/(?:multiprocessing|concurrent/futures)/\w+\.py", re.DOTALL)
_SEVERAL: Final = 2  # workers make a service


class NamedProcess(NamedTuple):
    """A process with a name of its own.

    Attributes:
        is_worker: whether it is one of several that another process started for the same work.
        program: the name, without the number of a process that only runs the same program as others.
    """

    name: str
    is_worker: bool
    program: str


def name_processes(commands: Iterable[ObservedCommand], targets: Mapping[int, str]) -> dict[int, NamedProcess]:
    """Return the names of processes: of what they run, and of workers their parent's with their number in the order of their start.

    Args:
        commands: the command lines.
        targets: process -> the function that it was started for.
    """
    by_pid = {command.pid: command for command in commands if command.words and command.words[0]}
    order = sorted(by_pid.values(), key=lambda command: (command.began, command.pid))
    roles = {command.pid: _role(command, by_pid) for command in order}
    with_workers = Counter(owner for _, owner, is_worker in roles.values() if is_worker)
    count: Counter[tuple[int, str]] = Counter()
    same = Counter((owner, role) for role, owner, _ in roles.values())
    names: dict[int, NamedProcess] = {}
    for command in order:
        role, owner, is_worker = roles[command.pid]
        number = count[owner, role]
        count[owner, role] += 1
        is_numbered = is_worker or same[owner, role] > 1
        name = f"{role}{number}" if role.endswith(" gw") else f"{role} {number + 1}" if is_numbered else role
        suffix = ": main process" if command.pid in with_workers and ":" not in name else ""
        if (target := targets.get(command.pid)) and is_worker:
            suffix += f", {target}()"
        program = role if is_numbered and not is_worker and ":" not in role else name
        names[command.pid] = NamedProcess(name + suffix, is_numbered, program + suffix)
    return names


def texts_of_names(commands: Iterable[ObservedCommand], *, of_services: bool = False) -> dict[int, str]:
    """Return the names of processes whose callchains are unknown. of_services: only names that tell a task, as "gunicorn: worker 2"."""
    names = name_processes(commands, {}).items()
    return {pid: named.name for pid, named in names if not of_services or named.is_worker or ":" in named.name}


def _role(command: ObservedCommand, by_pid: Mapping[int, ObservedCommand], depth: int = 0) -> tuple[str, int, bool]:
    """Return what a process is for, the process that started it for that, and whether it is a worker."""
    words, parent = command.words, by_pid.get(command.parent)
    if len(words) == 1 and _TITLE.fullmatch(words[0]):
        return _title(words[0]), command.parent, False
    started = _SPAWNED.fullmatch(words[2]) if len(words) > 2 and words[1] == "-c" else None
    kind = started[1] if started else ""
    if parent is None or parent.pid == command.pid or depth >= _DEEPEST:
        return _HELPERS.get(kind) or _program(words), command.parent, False
    if kind in _HELPERS and not (kind == "forkserver" and parent.words == words):
        return f"{_owner(parent, by_pid, depth)}: {_HELPERS[kind]}", parent.pid, False
    if words[-1] == _EXECNET and _program(parent.words) in _PYTEST:
        return "pytest-xdist gw", parent.pid, True
    if kind == "forkserver":  # forked by the server for its parent
        owner = by_pid.get(parent.parent, parent)
        return f"{_owner(owner, by_pid, depth)}: worker", owner.pid, True
    if kind == "spawn" or words == parent.words:
        return f"{_owner(parent, by_pid, depth)}: worker", parent.pid, True
    return _program(words), command.parent, False


def _owner(command: ObservedCommand, by_pid: Mapping[int, ObservedCommand], depth: int) -> str:
    """Return the name of the service that a process belongs to."""
    return _role(command, by_pid, depth + 1)[0].partition(":")[0]


def _title(text: str) -> str:
    """Return a title without what differs between equal processes: "gunicorn: worker" for "gunicorn: worker [app:app]"."""
    text = " ".join(text.split())
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return (_DETAILS.sub("", inner) or inner)[:_LONGEST]


def _program(words: Sequence[str]) -> str:
    """Return the name of a script or module that an interpreter runs, or of a program."""
    name = os.path.basename(words[0]).removeprefix("-") or words[0]
    if len(words) > 2 and words[1] == "-m":
        return words[2][:_LONGEST]
    if len(words) == 2:
        folder, script = os.path.split(words[1])
        return (os.path.basename(folder) if script == "__main__.py" and folder else script)[:_LONGEST] or name
    return name[:_LONGEST]


def find_targets(functions: SampledFunctions) -> dict[int, str]:
    """Return the functions that processes of multiprocessing were started for, by their callchains."""
    runs = np.zeros(len(functions.category_of), np.bool_)
    for number in functions.present.tolist():
        runs[number] = _TARGET.fullmatch(functions.name(number)) is not None
    if not runs.any() or "pid" not in functions.rows.dimensions:
        return {}
    rows = np.arange(len(functions.leaf))
    inner = functions.leaf.astype(np.int64).copy()  # of each row, the function that was reached before
    pids, targets = functions.rows.dimensions["pid"], np.full(len(rows), -1, np.int64)
    for reached, callers in functions.outwards(rows):
        is_started = runs[callers] & (targets[reached] < 0)
        targets[reached[is_started]] = inner[reached[is_started]]
        inner[reached] = callers
    votes: dict[int, Counter[int]] = {}
    for pid, target in zip(pids[targets >= 0].tolist(), targets[targets >= 0].tolist(), strict=True):
        votes.setdefault(pid, Counter())[target] += 1
    names = {pid: functions.name(counted.most_common(1)[0][0]) for pid, counted in votes.items()}
    return {
        pid: name.removeprefix(PYTHON_MARK).partition(":")[0]
        for pid, name in names.items()
        if name.startswith(PYTHON_MARK) and not _OF_POOLS.fullmatch(name)
    }


class ProcessRow(NamedTuple):
    """What one process of a service did.

    Attributes:
        name: by its command line, else that of its main thread; "" if neither is known.
        share: of the samples.
        period: of the event.
        function: its hottest own function, "" for none.
        in_function: the share of the process that is charged to that function.
        has_namesakes: whether other processes have the same name.
    """

    pid: int
    name: str
    share: float
    period: int
    function: str
    in_function: float
    has_namesakes: bool = False

    @property
    def text(self) -> str:
        """The name, with the number of the process where several have it."""
        if not self.name:
            return f"process {self.pid}"
        return f"{self.name} ({self.pid})" if self.has_namesakes else self.name


def process_rows(functions: SampledFunctions, names: Mapping[int, NamedProcess], comm: Callable[[int], str]) -> list[ProcessRow]:
    """Return all processes of a service with several workers, most CPU time first; empty for other recordings.

    comm: returns the name of a thread, for processes whose command line was not seen.
    """
    dimensions = functions.rows.dimensions
    if "pid" not in dimensions or sum(one.is_worker for one in names.values()) < _SEVERAL:
        return []
    pids, group = np.unique(dimensions["pid"], return_inverse=True)
    totals = sum_by(group.ravel(), functions.rows.period, len(pids))
    hottest: dict[int, tuple[int, int]] = {}
    for (symbol, number), period in functions.charged_by(group.ravel()).items():
        if period > hottest.get(number, (0, -1))[0]:
            hottest[number] = (period, symbol)
    order = [number for number in np.argsort(-totals, kind="stable").tolist() if totals[number]]
    texts = {number: names[pid].program if (pid := int(pids[number])) in names else comm(pid) for number in order}
    namesakes = Counter(texts.values())
    rows = []
    for number in order:
        total, name = int(totals[number]), texts[number]
        period, symbol = hottest.get(number, (0, -1))
        function = functions.name(symbol) if symbol >= 0 else ""
        rows.append(ProcessRow(int(pids[number]), name, functions.share(total), total, function, period / total, namesakes[name] > 1))
    return rows
