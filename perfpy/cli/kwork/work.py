"""The kernel's work in the input of `perfpy kwork`: its events, within the CPUs, times and names of the options."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.kernel_work.events import WorkEvents
    from perfpy.cli.kwork.options import KworkOptions
    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer


class WorkInput:
    """The events of an open recording.

    Attributes:
        events: within the CPUs, times and names of the options.
        work: int64[n], a number for each piece of work on a CPU.
    """

    def __init__(
        self, recording: Recording, options: KworkOptions, kinds: Sequence[str], phases: Sequence[int], *, chains: bool = False
    ) -> None:
        from perfpy.analysis.kernel_work.events import read_work, vector_names

        self._recording = recording
        self._options = options
        self._kinds = kinds
        self._vectors = vector_names(recording.data)
        events = read_work(recording.data, kinds, phases, chains=chains)
        self.events: WorkEvents = events.take(selected(recording, options, events.cpu, events.time))
        self.work = self.events.work_numbers()
        if options.name:
            self._keep_name(options.name)

    def _keep_name(self, name: str) -> None:
        """Leave out work with another name. Work without a name stays, as in perf."""
        import numpy as np

        _, first, which = np.unique(self.work, return_index=True, return_inverse=True)
        keeps = np.array([self.name(row) in ("", name) for row in first.tolist()], bool)[which.ravel()]
        keeps |= self._precede_names()
        self.events, self.work = self.events.take(keeps), self.work[keeps]

    def _precede_names(self) -> NDArray[np.bool_]:
        """Return a mask of the ends of interrupts before the first begin, which has the name."""
        import numpy as np

        from perfpy.analysis.kernel_work.events import IRQ

        first = np.full(int(self.work.max(initial=-1)) + 1, len(self.work), np.int64)
        named = np.flatnonzero(self.events.name != "")
        np.minimum.at(first, self.work[named], named)
        is_irq = self.events.kind == (self._kinds.index(IRQ) if IRQ in self._kinds else -1)
        precedes: NDArray[np.bool_] = is_irq & (np.arange(len(self.work)) < first[self.work])
        return precedes

    def name(self, event: int) -> str:
        """Return the name of the work of an event, "" without one."""
        kind = self._kinds[int(self.events.kind[event])]
        if kind == "workqueue":
            return self._function_name(int(self.events.function[event]))
        number = int(self.events.number[event])
        return self._vectors.get(number, "") if kind == "softirq" else self._handlers.get(int(self.work[event]), "")

    @cached_property
    def _handlers(self) -> dict[int, str]:
        """The name of each interrupt's first handler, by the number of its work."""
        named: dict[int, str] = {}
        for work, name in zip(self.work.tolist(), self.events.name.tolist(), strict=True):
            if name:
                named.setdefault(work, name)
        return named

    def label(self, event: int) -> str:
        """Return the text of an event's work."""
        from perfpy.views.kernel_work.work_tables import label_of

        return label_of(self._kinds[int(self.events.kind[event])], self.name(event), int(self.events.number[event]))

    def _function_name(self, address: int) -> str:
        if address not in self._functions:
            symbol = self.symbolizer.kernel_symbol(address) if address else None
            self._functions[address] = symbol[0] if symbol else ""
        return self._functions[address]

    @cached_property
    def _functions(self) -> dict[int, str]:
        return {}

    @cached_property
    def symbolizer(self) -> Symbolizer:
        """The symbols of the recording."""
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.shared import SymbolFileOptions
        from perfpy.cli.line.symbol_values import symbol_options_of

        options = self._options
        files = SymbolFileOptions(symfs=options.symfs, kallsyms=options.kallsyms, vmlinux=options.vmlinux)
        return self._recording.symbolizer(symbol_options_of(files, load(), self._recording, force=options.force))


def selected(recording: Recording, options: KworkOptions, cpu: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the events on the CPUs and in the time of the options."""
    import numpy as np

    chosen = np.ones(len(cpu), bool)
    if options.cpu:
        from perfpy.abi.cpu_list import parse_cpu_list

        try:
            cpus = parse_cpu_list(options.cpu)
        except ValueError as error:
            fail(f"-C {options.cpu!r}: {error}")
        chosen &= np.isin(cpu, cpus)
    if options.time:
        from perfpy.analysis.filters.time_ranges import ranges_of

        chosen &= ranges_of(options.time, recording.times()).mask(time.view(np.uint64))
    return chosen


def sort_keys(text: str, known: Sequence[str], default: str) -> list[str]:
    """Return the keys of -s. Rejects unknown ones."""
    keys = [word for word in (text or default).split(",") if word]
    for key in keys:
        if key not in known:
            fail(f"-s {key}: unknown sort key; expected {', '.join(known)}")
    return keys
