"""One measurement as a user of the command line meets it: signals, messages, the exit status.

What enters: a plan and where its output goes. What leaves: printed tallies
and the status to exit with.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from perfpy.capture.measurement import Hooks, Measurement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.analysis.tally import Tally
    from perfpy.capture.measurement import Plan
    from perfpy.cli.stat_output import Output


class Session(Hooks):
    """Carries a plan out, and tells about it as perf stat does."""

    def __init__(self, plan: Plan, output: Output, options: Mapping[str, Any]) -> None:
        self._plan = plan
        self._output = output
        self._options = options
        self._signal = 0
        output.title = title(plan)

    def run(self) -> int:
        """The exit status: the command's, or 128 + n when signal n ended the waiting."""
        control = None
        if self._options["control"]:
            from perfpy.capture.control import Control

            control = Control(self._options["control"])
        with _Signals(self, endless=self._plan.repeat == 0):
            outcome = Measurement(self._plan, self, control=control).run()
        if self._signal and not self._plan.command:
            return 128 + self._signal
        return outcome.exit_code

    def interrupted(self, signum: int) -> None:
        """Ctrl-C: what waits without a command, or prints intervals, ends; a command ends by itself."""
        self._signal = signum
        if not self._plan.command or self._plan.interval or self._plan.repeat != 1:
            self.stopped = True

    def show(self, tally: Tally) -> None:
        self._output.show(tally)

    def note(self, text: str) -> None:
        if not self._options["quiet"]:
            print(text, file=sys.stderr)

    def warn(self, text: str) -> None:
        if self._options["verbose"]:
            print(f"Warning:\n{text}", file=sys.stderr)

    def run_started(self, number: int) -> None:
        if self._options["verbose"] and self._plan.repeat != 1:
            print(f"[ perf stat: executing run #{number + 1} ... ]", file=sys.stderr)

    def killed(self, program: str, signum: int) -> None:
        print(f"{program}: {signal.strsignal(signum)}", file=sys.stderr)


class _Signals:
    """SIGINT and SIGTERM as a wish to end, for as long as the context lasts."""

    def __init__(self, session: Session, *, endless: bool) -> None:
        self._session = session
        self._signals = (signal.SIGINT, signal.SIGTERM)
        self._before: list[Any] = []
        self._read, self._write = os.pipe()

    def __enter__(self) -> _Signals:
        os.set_blocking(self._write, False)
        self._before = [signal.signal(signum, self._handle) for signum in self._signals]
        self._session.stop_fd = self._read
        return self

    def _handle(self, signum: int, frame: object) -> None:
        self._session.interrupted(signum)
        if self._session.stopped:
            os.write(self._write, b"s")

    def __exit__(self, *exc: object) -> None:
        for signum, handler in zip(self._signals, self._before, strict=True):
            signal.signal(signum, handler)
        self._session.stop_fd = -1
        os.close(self._read)
        os.close(self._write)


def title(plan: Plan) -> str:
    """What is measured, as the heading has it."""
    target = plan.target
    if target.kind in ("system", "threads"):
        return "'system wide'"
    if target.kind == "cpu":
        return f"'CPU(s) {target.text}'"
    if target.kind == "pid":
        return f"process id '{target.text}'"
    if target.kind == "tid":
        return f"thread id '{target.text}'"
    return f"'{' '.join(plan.command)}'"
