"""The module perf_trace_context: functions by which handlers query the current sample.

Handlers pass their argument `context`. The functions return the tracepoint's common fields and source lines (perf-script-python(1)).
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.framing import as_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.tracepoints.tracing_data import Tracing

#: function -> the common field that it returns
_FIELDS: Final = {"common_pc": "common_preempt_count", "common_flags": "common_flags", "common_lock_depth": "common_lock_depth"}


class SampleContext:
    """The current sample: a row of a batch."""

    def __init__(self, tracing: Tracing | None, source_line: Callable[[Batch, int], tuple[str, int] | None]) -> None:
        self._tracing = tracing
        self._source_line = source_line
        self.batch: Batch | None = None
        self.row = 0

    def common(self, name: str) -> int:
        """Return a common field of the tracepoint; 0 for other samples."""
        raw = self.batch.columns.get("raw") if self.batch is not None else None
        if raw is None or self._tracing is None:
            return 0
        data = raw[self.row].tobytes()
        endian = self._tracing.endian
        form = self._tracing.formats.get(as_number(data[:2], endian))
        field = form.field(name) if form else None
        return 0 if field is None else as_number(data[field.offset : field.offset + field.size], endian)

    def source_line(self) -> tuple[str, int] | None:
        """Return file and line of the sampled address."""
        return self._source_line(self.batch, self.row) if self.batch is not None else None


def context_module(context: SampleContext) -> ModuleType:
    """Return the module that `import perf_trace_context` finds."""
    module = ModuleType("perf_trace_context", "What handlers ask about the sample that they were called for.")

    def asked(name: str) -> Callable[[Any], int]:
        return lambda context: context.common(name)

    def srcline(_context: Any) -> tuple[str, int] | tuple[None, None]:
        return context.source_line() or (None, None)

    for function, field in _FIELDS.items():
        setattr(module, function, asked(field))
    module.__dict__.update(
        perf_script_context=context,
        perf_sample_srcline=srcline,
        perf_sample_srccode=lambda context: (*srcline(context), None),
        perf_sample_insn=lambda _context: None,  # only hardware traces have instructions
        perf_set_itrace_options=lambda _context, _options: -1,
    )
    return module
