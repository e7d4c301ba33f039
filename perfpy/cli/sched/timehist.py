"""`perfpy sched timehist`: each switch with its times."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.sched.latency import written_by_seven
from perfpy.cli.sched.opening import chosen_cpus, dump_records, open_sched
from perfpy.errors import PerfError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import History, Switches
    from perfpy.cli.sched.options import TimehistOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.tasks.address_space import TaskTimeline


def run(options: TimehistOptions) -> int:
    """Show each switch with the times that its thread waited and ran."""
    if (options.wakeups and options.summary) or (options.next and options.summary):
        print(" Error: -s and -[n|w] are mutually exclusive.", file=sys.stderr)
        fail("-s excludes -n and -w; use -S for both")
    with open_sched(options) as recording:
        _Timehist(recording, options).show()
    return 0


class _Timehist:
    """One run over an open recording."""

    def __init__(self, recording: Recording, options: TimehistOptions) -> None:
        self._recording = recording
        self._options = options

    @cached_property
    def _timeline(self) -> TaskTimeline:
        """The names of threads. Made after the samples are read: so the recording is read only once."""
        return self._recording.make_timeline(keep_exited=False, has_spaces=False)

    def show(self) -> None:
        """Print lines and summary."""
        from perfpy.analysis.sched.events import read_events
        from perfpy.analysis.sched.timehist import make_history

        recording, options = self._recording, self._options
        dump_records(recording, options)
        has_chains = options.call_graph and self._has_chains()
        takes_names = bool(options.pre_migrations or options.comm or options.prio) or written_by_seven(recording)
        shows_chains = has_chains and (options.idle_hist or not options.summary)
        events = read_events(recording.data, runtimes=False, chains=shows_chains, comms=options.next or takes_names)
        # The filters look at the threads that woke others, too.
        shows_wakers = bool(options.wakeups or options.migrations or options.pid or options.tid or options.comm or options.prio)
        history = make_history(events, recording.data, self._timeline, takes_names=takes_names, shows_wakers=shows_wakers)
        shown, history = self._narrowed(history)
        if not options.summary:
            self._print_events(history, shown, with_chains=has_chains)
        if options.summary or options.with_summary:
            self._print_summary(history, shown, with_chains=has_chains)

    def _has_chains(self) -> bool:
        """Whether switches have callchains; print perf's line if they do not."""
        from perfpy.abi.flags import SampleType
        from perfpy.analysis.sched.events import SWITCH

        if any(event.name == SWITCH and event.attr.sample_type & SampleType.CALLCHAIN for event in self._recording.events):
            return True
        print("Samples of sched_switch event do not have callchains.", file=sys.stderr)
        return False

    def _narrowed(self, history: History) -> tuple[NDArray[np.bool_], History]:
        """Apply the filters; return a mask of the shown switches."""
        from perfpy.analysis.sched.narrowing import Narrowing, TaskFilter

        options, recording = self._options, self._recording
        span = (0, 0)
        if options.time:
            from perfpy.analysis.filters.time_ranges import ranges_of

            span = ranges_of(options.time, recording.times()).bounded_pairs[0]
        comms = self._timeline.comms
        tasks = TaskFilter(
            _numbers("-p", options.pid), _numbers("-t", options.tid), _words(options.comm), _numbers("--prio", options.prio), comms
        )
        narrowing = Narrowing(tasks, chosen_cpus(options.cpu), span, idle_only=options.idle_hist)
        return narrowing.apply(history)

    def _print_events(self, history: History, shown: NDArray[np.bool_], *, with_chains: bool) -> None:
        from perfpy.views.sched.timehist_lines import TimehistLines, TimehistStyle, header_lines

        options = self._options
        style = TimehistStyle(
            wakeups=options.wakeups, migrations=options.migrations, next=options.next, state=options.state, priority=options.show_prio,
            before_migration=options.pre_migrations, cpus=self._cpu_count() + 1 if options.cpu_visual else 0, chains=with_chains,
            idle_chains=options.idle_hist,
        )  # fmt: skip
        from perfpy.analysis.sched.narrowing import taken

        switches = taken(history.switches, shown)
        print_lines(header_lines(style))
        chains = self._chain_texts(switches) if with_chains else None
        blocks = TimehistLines(style, self._timeline.comms).blocks(
            switches, chains, history.wakeups if options.wakeups else None, history.migrations if options.migrations else None
        )
        sys.stdout.flush()
        for block in blocks:
            sys.stdout.buffer.write(block)

    def _chain_texts(self, switches: Switches) -> list[bytes]:
        import numpy as np

        from perfpy.abi.columns import Columns
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.shared import SymbolFileOptions
        from perfpy.cli.line.symbol_values import symbol_options_of
        from perfpy.views.sched.chain_text import chain_texts

        options = self._options
        files = SymbolFileOptions(symfs=options.symfs, kallsyms=options.kallsyms, vmlinux=options.vmlinux)
        symbols: SymbolOptions = symbol_options_of(files, load(), self._recording, force=options.force)
        columns = Columns(len(switches.time), {"callchain": switches.chains} if switches.chains is not None else {})
        symbolizer = self._recording.symbolizer(symbols)
        texts = chain_texts(columns, switches.task.pid.astype(np.int32), switches.key, symbolizer, options.max_stack)
        if options.idle_hist:
            return texts
        return [b"" if tid == 0 else text for tid, text in zip(switches.task.tid.tolist(), texts, strict=True)]

    def _print_summary(self, history: History, shown: NDArray[np.bool_], *, with_chains: bool) -> None:
        from perfpy.analysis.sched.summary import idle_chains, make_summary
        from perfpy.views.sched.summary_text import summary_lines

        options = self._options
        summary = make_summary(
            history, shown, self._recording.data, cpus=self._cpu_count(), with_migrations=options.migrations or options.pre_migrations,
            idle_only=options.idle_hist,
        )  # fmt: skip
        if with_chains and options.idle_hist:
            summary = summary._replace(idle_chains=idle_chains(history.switches, shown, self._chain_texts))
        is_complete = bool(shown.all()) or not (options.pid or options.tid or options.comm or options.prio)
        comms, cpus = self._timeline.comms, chosen_cpus(options.cpu)
        print_lines(summary_lines(summary, comms, idle_only=options.idle_hist, is_complete=is_complete, cpus=cpus))

    def _cpu_count(self) -> int:
        count = self._recording.header.get("nrcpus")
        return int(count.online) if count else 1


def _numbers(option: str, text: str) -> frozenset[int] | None:
    if not text:
        return None
    try:
        return frozenset(int(word) for word in text.split(","))
    except ValueError:
        raise PerfError(f"{option} {text}: expected a list of numbers, for example 10,20") from None


def _words(text: str) -> frozenset[str] | None:
    return frozenset(text.split(",")) if text else None
