"""`perfpy kvm stat report`: exits of virtual machines by reason."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.cli.kvm.options import DEFAULT_FILE
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from perfpy.cli.kvm.options import KvmReportOptions


def report(options: KvmReportOptions) -> int:
    """Show the exits of a recording. The table goes to standard error, as perf's does."""
    from perfpy.analysis.guests.exits import EVENTS, SORT_KEYS, guest_durations, sorted_durations
    from perfpy.views.guests.exit_table import exit_lines

    if options.event not in EVENTS:
        fail(f"--event {options.event}: unknown event; expected {', '.join(EVENTS)}")
    if options.key not in SORT_KEYS:
        fail(f"-k {options.key}: unknown sort key; expected {', '.join(SORT_KEYS)}")
    pids = _pids(options.pid)
    with open_recording(options.input or DEFAULT_FILE, force=options.force, verbose=options.verbose) as recording:
        durations = sorted_durations(guest_durations(recording.data, options.event, vcpu=options.vcpu, pids=pids), options.key)
    sys.stdout.flush()
    sys.stderr.writelines(one_line_each(exit_lines(durations, options.event, pids=options.pid, vcpu=options.vcpu)))
    return 0


def _pids(text: str) -> set[int]:
    words = [word for word in text.split(",") if word]
    for word in words:
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            fail(f"-p {text}: expected process ids, with commas between them")
    return {int(word) for word in words}
