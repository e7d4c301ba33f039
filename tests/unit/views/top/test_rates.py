"""The line above perf top's table: the same as perf 6.12's for every target."""

from __future__ import annotations

import pytest

from perfpy.views.top.rates import Rates, Subject, header_lines

RATES = Rates(2.0, 12730, 1044, 0, 0, 0)
ALL = Subject("cpu-clock:ppp", 4000, True, True, "", "", "", "", 2)
NUMBERS = "   PerfTop:    6365 irqs/sec  kernel: 8.2%  exact:  0.0% lost: 0/0 drop: 0/0 "


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (ALL, "[4000Hz cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(cpu_count=1), "[4000Hz cpu-clock:ppp],  (all, 1 CPU)"),
        (ALL._replace(pace=1000000, is_frequency=False), "[1000000 cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(is_alone=False), "[cpu-clock:ppp],  (all, 2 CPUs)"),
        (ALL._replace(pid="12,13"), "[4000Hz cpu-clock:ppp],  (target_pid: 12,13)"),
        (ALL._replace(tid="14"), "[4000Hz cpu-clock:ppp],  (target_tid: 14)"),
        (ALL._replace(cpus="0"), "[4000Hz cpu-clock:ppp],  (all, CPU: 0)"),
        (ALL._replace(cpus="0-1"), "[4000Hz cpu-clock:ppp],  (all, CPUs: 0-1)"),
        (ALL._replace(user="ada"), "[4000Hz cpu-clock:ppp],  (uid: ada, 2 CPUs)"),
    ],
)
def test_the_header_names_event_and_target(subject: Subject, text: str) -> None:
    assert header_lines(RATES, subject) == [NUMBERS + text, "-" * 79, ""]


def test_an_interval_without_samples_has_no_shares() -> None:
    line = header_lines(Rates(1.0, 0, 0, 0, 3, 17), ALL)[0]
    assert line.startswith("   PerfTop:       0 irqs/sec  kernel: 0.0%  exact:  0.0% lost: 3/17 drop: 0/0 [")


def test_all_samples_in_the_kernel_need_no_space() -> None:
    assert "kernel:100.0%  exact: 100.0%" in header_lines(Rates(1.0, 5, 5, 5, 0, 0), ALL)[0]


def test_skipped_samples_have_a_sentence() -> None:
    assert RATES.warning == ""
    assert RATES._replace(dropped=1, total_dropped=9).warning == "1 sample was skipped: this machine is too busy"
    assert RATES._replace(dropped=7).warning == "7 samples were skipped: this machine is too busy"
