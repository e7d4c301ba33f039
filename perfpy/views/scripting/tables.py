"""Rows of database tables, for scripts with perf_db_export_mode, which get these instead of process_event.

The script's functions are evsel_table, machine_table, thread_table, comm_table, comm_thread_table, dso_table, symbol_table,
branch_type_table, call_path_table, sample_table and context_switch_table, with perf's arguments. Each row is written once, before the
first row that refers to it. Row numbers start at 1; 0 is "unknown". There is no call_return_table, because only decoded hardware traces
have returns.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi import records

if TYPE_CHECKING:
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.scripting.program import ScriptProgram
    from perfpy.views.scripting.samples import FrameValues, SampleValues

    SampleRow = tuple[str, dict[str, Any], int, "int | None", list[int]]
    from collections.abc import Callable

_HOST: Final = 1
_HOST_PID: Final = -1
#: branch flags of hardware traces -> the kind of branch
_BRANCHES: Final = {
    0: "no branch", 3: "call", 5: "return", 9: "conditional jump", 1: "unconditional jump", 67: "software interrupt",
    69: "return from interrupt", 19: "system call", 21: "return from system call", 33: "asynchronous branch",
    99: "hardware interrupt", 129: "transaction abort", 257: "trace begin", 513: "trace end", 2051: "vm entry", 4099: "vm exit",
}  # fmt: skip
_TRACE_BEGIN: Final = 256
_TRACE_END: Final = 512
_ALONE: Final = ("trace begin", "trace end")


class TableRows:
    """The script's functions for tables."""

    def __init__(self, program: ScriptProgram, frames: FrameValues) -> None:
        self._program = program
        self._frames = frames
        self._chains = program.asks_for("perf_db_export_callchains")
        self.tasks = KnownTasks(frames.visible_text)
        self._events: dict[str, int] = {}
        self._machine = False
        self._dsos: dict[int, int] = {}
        self._symbols: dict[int, int] = {}
        self._unnamed: dict[tuple[int, int], int] = {}
        self._paths: dict[tuple[int, int, int], int] = {}
        self._last = dict.fromkeys(("symbol", "thread", "comm", "comm_thread", "sample", "context_switch"), 0)

    def begin(self) -> None:
        """Write the rows that do not depend on the recording."""
        for number, name in branch_types():
            self._row("branch_type", number, name)

    def sample(self, name: str, values: dict[str, Any], frame: int, data_frame: int | None, chain: list[int]) -> None:
        """Write a sample.

        Args:
            name: of its event
            frame, data_frame: ids of its addresses' frames
            chain: of its callchain, innermost frame first
        """
        event = self._events.get(name)
        if event is None:
            event = self._events[name] = len(self._events) + 1
            self._row("evsel", event, name)
        self._know_machine()
        thread = self.tasks.thread(_signed_number(values["pid"], 32), _signed_number(values["tid"], 32))
        program = self._know_task(thread)
        last_symbol = self._last["symbol"]
        located = self._locate(frame)
        path = self._path(chain, frame) if chain else 0
        data = (0, 0, 0) if data_frame is None else self._locate(data_frame, again=data_frame == frame and located[1] > last_symbol)
        address = 0 if data_frame is None else values["addr"]
        numbers = (values["ip"], values["time"], _signed_number(values["cpu"], 32), *data, address, values["period"])
        memory = (values["weight"], values["transaction"], values["datasrc"])
        rest = (0, 0, path, 0, 0, 0, values["id"], values["stream_id"], values["ins_lat"])  # no branch: only hardware traces have them
        row = (self._next("sample"), event, _HOST, thread.row, program.row if program else 0, *located, *numbers, *memory, *rest)
        self._row("sample", *map(_signed_number, row))

    def switch(self, time: int, cpu: int, task: tuple[int, int], other: tuple[int, int] | None, *, out: bool, preempted: bool) -> None:
        """Write a context switch of a task to another task (`out`) or from it, if that is known."""
        self._know_machine()
        mine, others = self._of_switch(*task), (0, 0) if other is None else self._of_switch(*other)
        ends = (*mine, *others) if out else (*others, *mine)
        self._row("context_switch", self._next("context_switch"), _HOST, _signed_number(time), cpu, *ends, out | preempted << 1)

    def _of_switch(self, pid: int, tid: int) -> tuple[int, int]:
        thread = self.tasks.thread(pid, tid)
        if not thread.is_named:  # it has exited, and only its last switch follows
            return 0, 0
        program = self._know_task(thread)
        return thread.row, program.row if program else 0

    def _know_machine(self) -> None:
        if not self._machine:
            self._machine = True
            self._row("machine", _HOST, _HOST_PID, "")

    def _know_task(self, thread: Thread) -> ThreadName | None:
        """Insert the thread, its process and their commands; return the process's command."""
        program = None
        main = thread if thread.pid == thread.tid else self.tasks.thread(thread.pid, thread.pid) if thread.pid >= 0 else None
        if main is not None:
            self._know_thread(main, main)
            program = main.program()
            if not program.row:
                self._know_command(program, main)
                self._row("comm_thread", self._next("comm_thread"), program.row, main.row)
        if not thread.row:
            self._know_thread(thread, main or thread)
            if program is not None:
                self._row("comm_thread", self._next("comm_thread"), program.row, thread.row)
        if not thread.commands[-1].row:
            self._know_command(thread.commands[-1], thread)
        return program

    def _know_thread(self, thread: Thread, main: Thread) -> None:
        if not thread.row:
            thread.row = self._next("thread")
            self._row("thread", thread.row, _HOST, main.row, thread.pid, thread.tid)

    def _know_command(self, command: ThreadName, thread: Thread) -> None:
        command.row = self._next("comm")
        self._row("comm", command.row, command.name, thread.row, _signed_number(command.since), int(command.by_exec))

    def _locate(self, frame: int, *, caller: bool = False, again: bool = False) -> tuple[int, int, int]:
        """Return the rows of a frame's dso and symbol, and the offset in the symbol.

        Args:
            caller: the frame is in a callchain
            again: the frame is new with this sample, whose addresses perf resolves before it creates a symbol for an address without one
        """
        frames = self._frames.symbolizer.resolve()
        number = int(frames.dso[frame])
        if number < 0:
            return 0, 0, 0
        dso = self._dsos.get(number)
        if dso is None:
            dso = self._dsos[number] = len(self._dsos) + 1
            one = self._frames.symbolizer.dsos[number]
            short, long = self._frames.visible_text(one.short_name), self._frames.visible_text(one.name)
            self._row("dso", dso, _HOST, short, long, one.build_id or "")
        symbol = int(frames.symbol[frame])
        if symbol < 0:  # each address without a symbol is a symbol of its own
            address = _signed_number(int(frames.ip[frame] if caller else frames.address[frame]))
            row = None if again else self._unnamed.get((dso, address))
            if row is None:
                row = self._new_symbol(dso, address, address, 0, "unknown")
            return dso, row if again else self._unnamed.setdefault((dso, address), row), 0
        if symbol not in self._symbols:
            symbols = self._frames.symbolizer.symbols
            bounds = _signed_number(symbols.start(symbol)), _signed_number(symbols.end(symbol))
            self._symbols[symbol] = self._new_symbol(dso, *bounds, symbols.binding(symbol), self._frames.name(symbol))
        return dso, self._symbols[symbol], int(frames.symbol_offset[frame])

    def _new_symbol(self, *described: Any) -> int:
        row = self._next("symbol")
        self._row("symbol", row, *described)
        return row

    def _path(self, chain: list[int], sampled: int) -> int:
        """Return the row of a whole callchain in the tree of calls, whose root is row 1."""
        if not self._chains:
            return 0
        frames = self._frames.symbolizer.resolve()
        calls = [(self._locate(frame, caller=frame != sampled)[1], int(frames.ip[frame])) for frame in reversed(chain)]
        path = self._known_path(0, 0, 0)
        for symbol, ip in calls:
            path = self._known_path(path, symbol, 0 if symbol else _signed_number(ip))
        return path

    def _known_path(self, parent: int, symbol: int, ip: int) -> int:
        row = self._paths.get((parent, symbol, ip))
        if row is None:
            row = self._paths[parent, symbol, ip] = len(self._paths) + 1
            self._row("call_path", row, parent, symbol, ip)
        return row

    def _next(self, table: str) -> int:
        self._last[table] += 1
        return self._last[table]

    def _row(self, table: str, *values: Any) -> None:
        self._program.call_if_there(f"{table}_table", *values)


def sample_rows(samples: SampleValues, batch: Batch, name: str) -> list[SampleRow]:
    """Return the arguments of TableRows.sample for each row of a batch of one event."""
    frames, data, chains = samples.frame_ids(batch), samples.data_frame_ids(batch), samples.chain_frames(batch)
    ids: list[list[int]] = [[]] * len(batch)
    if chains is not None:
        each, ends = chains[0].tolist(), chains[1].cumsum().tolist()
        ids = [each[begin:end] for begin, end in itertools.pairwise([0, *ends])]
    of_data: list[int | None] = [None] * len(batch) if data is None else data.tolist()
    return list(zip(itertools.repeat(name, len(batch)), samples.samples(batch), frames.tolist(), of_data, ids, strict=True))


def branch_types() -> list[tuple[int, str]]:
    """Return number and name of each kind of branch, including the begin and end of hardware traces."""
    plain = [(number, name) for number, name in _BRANCHES.items() if name not in _ALONE]
    both = [(_TRACE_BEGIN, "trace begin / no branch"), (_TRACE_END, "no branch / trace end")]
    for number, name in plain:
        if number and not name.startswith("vm ") and name != "unconditional jump":
            both += [(number | _TRACE_BEGIN, f"trace begin / {name}"), (number | _TRACE_END, f"{name} / trace end")]
    both += [(2051 | _TRACE_BEGIN, "trace begin / vm entry"), (2051 | _TRACE_END, "vm entry / trace end")]
    return [*_BRANCHES.items(), *both, (4099 | _TRACE_BEGIN, "trace begin / vm exit"), (4099 | _TRACE_END, "vm exit / trace end")]


def _signed_number(number: int, bits: int = 64) -> int:
    """Return a number as perf passes it to table functions: signed."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


_EXEC: Final = 1 << 13
_NO_TIME: Final = -1
_SWAPPER: Final = "swapper"


class ThreadName:
    """A name of a thread, valid from a time on."""

    __slots__ = ("by_exec", "name", "row", "since")

    def __init__(self, name: str, since: int, *, by_exec: bool) -> None:
        self.name = name
        self.since = since
        self.by_exec = by_exec
        self.row = 0  #: the row in the table; 0 before it is inserted


class Thread:
    """A thread and its commands, newest last."""

    __slots__ = ("commands", "is_named", "pid", "row", "tid")

    def __init__(self, pid: int, tid: int) -> None:
        self.pid = pid
        self.tid = tid
        self.commands = [ThreadName(f":{tid}" if tid else _SWAPPER, 0, by_exec=False)]
        self.is_named = not tid  #: whether a record named it
        self.row = 0

    def call(self, name: str, since: int, *, by_exec: bool) -> None:
        """Set the name from a time on."""
        if not self.is_named:
            self.commands.clear()
        self.commands.append(ThreadName(name, since, by_exec=by_exec))
        self.is_named = True

    def program(self) -> ThreadName:
        """Return the name that the last exec set; without an exec the first name, which is the parent's if that was known at the start."""
        last_exec = next((command for command in reversed(self.commands) if command.by_exec), None)
        if last_exec is not None:
            return last_exec
        first = self.commands[0]
        return self.commands[1] if len(self.commands) > 1 and not first.since and self.pid == self.tid else first


class KnownTasks:
    """All threads at the current record.

    Args:
        visible_text: converts a name to the text for scripts
    """

    def __init__(self, visible_text: Callable[[str], str]) -> None:
        self._visible_text = visible_text
        self._threads: dict[int, Thread] = {}

    def see(self, record: Any) -> None:
        """Apply a FORK, COMM or EXIT record."""
        if isinstance(record, records.Fork):
            parent = self._threads.get(record.ptid)
            child = self._threads[record.tid] = Thread(record.pid, record.tid)
            if parent is not None and parent.is_named:
                child.call(parent.commands[-1].name, record.sample_id.time or 0 if record.sample_id else record.time, by_exec=False)
        elif isinstance(record, records.Comm):
            since = record.sample_id.time if record.sample_id else None
            name, by_exec = self._visible_text(record.comm), bool(record.misc & _EXEC)
            self.thread(record.pid, record.tid).call(name, _NO_TIME if since is None else since, by_exec=by_exec)
        elif isinstance(record, records.Exit):
            self._threads.pop(record.tid, None)

    def thread(self, pid: int, tid: int) -> Thread:
        """Return the thread of a sample."""
        thread = self._threads.get(tid)
        if thread is None:
            thread = self._threads[tid] = Thread(pid, tid)
        return thread
