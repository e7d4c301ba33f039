"""Tests of the shortest way: perfpy without arguments, perfpy PROGRAM and perfpy PID."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO

import pytest

from perfpy.capture.runtimes.known_runtimes import runtimes_of
from perfpy.cli import record_and_report, run
from perfpy.errors import KernelRefusedError, WorkloadFailedError
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Sequence


REPORTS = ["report -i perf.data --verdict", "report -i perf.data"]


class Recorded:
    """The commands of a start, which are not run; refused: those of record that the kernel refuses."""

    def __init__(self, status: int = 0, refused: int = 0) -> None:
        self.lines: list[str] = []
        self._status, self._refused = status, refused

    def run(self, name: str, args: Sequence[str]) -> int:
        self.lines.append(" ".join([name, *args]))
        if name == "record" and len(self.lines) <= self._refused:
            raise KernelRefusedError("perf_event_open", 13, cause="not allowed")
        return self._status if name == "record" else 0


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Return the path of an executable file."""
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\nexit 7\n")
    path.chmod(0o755)
    return str(path)


def started(monkeypatch: pytest.MonkeyPatch, recorded: Recorded, *args: str) -> tuple[int, list[str]]:
    """Return the exit status, and the command lines."""
    monkeypatch.setattr(record_and_report, "load_command", lambda _name: recorded)
    return run([*args]), recorded.lines


def test_without_arguments_the_first_steps_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 1  # perf's status
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("  perfpy ./program [ARGS] ")
    assert max(map(len, lines)) < 100
    assert len(lines) < 12


def test_a_program_is_recorded_and_reported(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = started(monkeypatch, Recorded(status=7), program, "-x", "1")
    assert status == 7
    assert lines == [
        f"record --brief --unwind --off-cpu -o perf.data -- {program} -x 1",
        "report -i perf.data --verdict",
        "report -i perf.data",
    ]
    assert capsys.readouterr().err.splitlines() == [
        f"perfpy record --unwind --off-cpu -o perf.data -- {program} -x 1",
        f"perfpy: {program} exited with status 7",
        "perfpy report -i perf.data",
    ]


@pytest.mark.parametrize(("status", "ending"), [(139, "was ended by signal 11 (Segmentation fault)"), (200, "exited with status 200")])
def test_the_end_of_a_program_that_fails_is_said_first(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, ending: str
) -> None:
    assert started(monkeypatch, Recorded(status), program)[0] == status
    assert capsys.readouterr().err.splitlines()[1] == f"perfpy: {program} {ending}"


def test_a_screen_has_the_sentences_itself(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(record_and_report, "sys", SimpleNamespace(stdin=None, stdout=terminal, stderr=sys.stderr))
    monkeypatch.setattr("perfpy.cli.line.pager.page", lambda _name: None)
    assert started(monkeypatch, Recorded(), program)[1][1:] == ["report -i perf.data"]


def test_a_running_process_is_recorded_for_ten_seconds_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_and_report, "print_first_answer", lambda *_: None)
    status, lines = started(monkeypatch, Recorded(), str(os.getpid()))
    assert status == 0
    assert lines == [f"record --brief --python --off-cpu -o perf.data -p {os.getpid()} -- sleep 10", *REPORTS]


@pytest.mark.parametrize(
    ("work", "ready", "known", "commands", "amount", "most_looks"),
    [
        (10_000_000, False, True, ["stacks --running", "record --brief"], "", 1),  # it works
        (0, False, True, ["stacks {pid}", "record --brief"], "nothing ran", 15),
        (100_000, False, True, ["stacks {pid}", "record --brief"], "hardly anything ran", 15),  # it ticks
        (0, True, True, ["stacks --running", "record --brief"], "", 15),  # it waits for a CPU
        (0, False, False, ["record --brief"], "", 0),  # the kernel does not count
    ],
)
def test_stacks_are_printed_if_a_process_does_hardly_anything(
    work: int,
    ready: bool,
    known: bool,
    commands: list[str],
    amount: str,
    most_looks: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """work: nanoseconds on CPUs from one look to the next."""
    looks: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.02 * len(looks) + 0.001, sleep=looks.append)
    monkeypatch.setattr(record_and_report, "time", clock)
    monkeypatch.setattr(record_and_report, "_run_time", lambda _: record_and_report._RunTime(work * len(looks), ready, known))
    lines = started(monkeypatch, Recorded(), str(os.getpid()))[1]
    first_words = [" ".join(line.split()[:2]) for line in lines if not line.startswith("report")]
    assert first_words == [words.format(pid=os.getpid()) for words in commands]
    assert capsys.readouterr().err.startswith(f"{amount} in the last 0.3 s; " if amount else "recording process")
    assert len(looks) <= most_looks


def test_the_time_of_this_process_is_known() -> None:
    first = record_and_report._run_time([os.getpid()])
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert first.is_known
    assert record_and_report._run_time([os.getpid()]).time - first.time >= 40_000_000
    assert not record_and_report._run_time([1 << 30]).is_known


def test_several_processes_are_recorded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_and_report, "print_first_answer", lambda *_: None)
    pids = f"{os.getpid()},{os.getppid()}"
    assert started(monkeypatch, Recorded(), pids)[1][0].endswith(f"-p {pids} -- sleep 10")


def test_a_process_of_another_user_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel refuses every event of it: nothing is tried before."""

    def refuse(*_arguments: object, **_options: object) -> int:
        raise KernelRefusedError("perf_event_open", 13, cause="process 12 belongs to another user", remedy="run as its user")

    monkeypatch.setattr("perfpy.kernel.syscalls.perf_event_open", refuse)
    assert started(monkeypatch, Recorded(), str(os.getpid())) == (255, [])
    assert capsys.readouterr().err == "perfpy: process 12 belongs to another user; run as its user\n"


def test_other_refusals_are_those_of_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has other events to try."""
    monkeypatch.setattr(record_and_report, "print_first_answer", lambda *_: None)

    def refuse(*_arguments: object, **_options: object) -> int:
        raise KernelRefusedError("perf_event_open", 13, cause="a seccomp filter forbids it")

    monkeypatch.setattr("perfpy.kernel.syscalls.perf_event_open", refuse)
    assert started(monkeypatch, Recorded(), str(os.getpid()))[1][0].startswith("record ")


def test_a_process_that_ends_meanwhile_is_recorded_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its parent, this process, does not wait for it, so that its number stays."""
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] != "Z":
            pass
        monkeypatch.setattr(record_and_report, "_refuse_foreign", lambda _: None)
        status, lines = started(monkeypatch, Recorded(refused=3), str(process.pid))
    assert status == 255
    assert [line.split()[0] for line in lines] == ["stacks", "record"]
    assert capsys.readouterr().err.endswith(f"\nperfpy: process {process.pid} has ended\n")


def test_annotate_records_a_process_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = Recorded()
    monkeypatch.setattr(record_and_report, "load_command", lambda _name: recorded)
    monkeypatch.setattr(record_and_report, "print_first_answer", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perf.data").write_bytes(simple_recording(20).file())
    assert run(["annotate", str(os.getpid())]) in (0, 255)
    assert recorded.lines == [f"record --brief --python --off-cpu -o perf.data -p {os.getpid()} -- sleep 10"]
    assert "perfpy annotate\n" in capsys.readouterr().err
    run(["annotate", "-i", "perf.data", str(os.getpid())])
    assert len(recorded.lines) == 1, "the name of a function of a recording"


def test_a_process_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert started(monkeypatch, Recorded(), "4294967295") == (255, [])
    assert capsys.readouterr().err == "perfpy: no process 4294967295 is running; perfpy top shows the running ones\n"


@pytest.mark.parametrize("words", [["9" * 5000], ["12,"], ["1", "2"], ["-12"], ["1_2"]])
def test_other_words_with_digits_name_no_process(words: list[str]) -> None:
    assert record_and_report.processes_of(words) == []


def test_an_option_leaves_out_the_children():
    own = str(os.getpid())
    assert record_and_report.processes_of([own]) == record_and_report.processes_of([own, "--no-descendants"]) == [os.getpid()]
    assert record_and_report.processes_of([own, "--descendants"]) == []


def test_a_refused_option_is_dropped(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, lines = started(monkeypatch, Recorded(refused=2), program)
    assert status == 0
    assert lines[1:] == [
        f"record --brief --unwind -o perf.data -- {program}",
        f"record --brief -g -o perf.data -- {program}",
        *REPORTS,
    ]


def test_the_last_refusal_is_the_error(program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = started(monkeypatch, Recorded(refused=3), program)
    assert status == 255
    assert not any(line.startswith("report") for line in lines)
    assert "not allowed" in capsys.readouterr().err


def test_words_that_name_no_program_stay_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.txt").write_text("")
    for word in ("reprot", "daemon", str(tmp_path / "data.txt"), str(tmp_path / "absent"), str(tmp_path)):
        recorded = Recorded()
        monkeypatch.setattr(record_and_report, "load_command", lambda _name, recorded=recorded: recorded)
        assert run([word]) == 129
        assert not recorded.lines
    assert "did you mean 'report'" in capsys.readouterr().err


def test_called_as_perf_it_starts_nothing(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/perf"])
    status, lines = started(monkeypatch, Recorded(), program)
    assert (status, lines) == (129, [])


@pytest.mark.parametrize(
    ("first_line", "expected"),
    [
        ("#!/usr/bin/python3", "--python"),
        ("#!/usr/bin/env python3.12", "--python"),
        ("#!/usr/bin/env -S A=1 python3 -u", "--python"),
        ("#!/usr/bin/env node", "--jit"),
        ("#!/usr/bin/java --source 17", "--jit"),
        ("#!/bin/sh", "--unwind"),
        ("\x7fELF", "--unwind"),
    ],
)
def test_the_interpreter_decides_on_stacks(first_line: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    assert record_and_report.stack_options(runtimes_of([str(path)])) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exec /opt/bin/python3.12 app.py", ["--python"]),
        ('"$INTERPRETER" app.py', ["--python"]),
        ("exec node app.js", ["--jit"]),
        ("./emit | java -cp . Fold", ["--jit"]),
        ("exec node app.js &\npython3 -m http.server", ["--python", "--jit"]),
        ("exec make -j2", ["--python", "--jit"]),
        ("# not python3\nexec ./program 5 # nor node", ["--unwind"]),
        ("exec bash other.sh", ["--python"]),
        ("./again.sh", ["--unwind"]),
    ],
)
def test_a_shell_script_tells_what_it_starts(text: str, expected: list[str], tmp_path: Path) -> None:
    for name, lines in (("again.sh", f"#!/bin/bash\n{text}\n"), ("other.sh", "python3 app.py"), ("program", "\x7fELF")):
        (tmp_path / name).write_text(lines)
        (tmp_path / name).chmod(0o755)
    assert record_and_report.stack_options(runtimes_of([str(tmp_path / "again.sh")])) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["sh", "-c", "python3 app.py"], ["--python"]),
        (["bash", "-e", "absent.sh"], ["--unwind"]),
        (["timeout", "5", "node", "app.js"], ["--jit"]),
        (["make", "all"], ["--python", "--jit"]),
        ([], ["--unwind"]),
    ],
)
def test_a_program_that_starts_others_tells_which(command: list[str], expected: list[str]) -> None:
    assert record_and_report.stack_options(runtimes_of(command)) == expected


def test_scripts_that_name_many_paths_are_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_regular(path: str) -> BinaryIO:
        opened.append(path)
        return (tmp_path / path).open("rb")

    monkeypatch.setattr("perfpy.capture.runtimes.known_runtimes.open_regular", open_regular)
    for number in range(40):
        (tmp_path / f"s{number}.sh").write_text("#!/bin/sh\n" + "\n".join(f"./bin/{number}/{other}" for other in range(100)))
    (tmp_path / "all.sh").write_text("#!/bin/sh\n" + "\n".join(f"./s{number}.sh\n./s{number}.sh" for number in range(40)))
    (tmp_path / "all.sh").chmod(0o755)
    assert runtimes_of([str(tmp_path / "all.sh")]) == []
    texts = [path for path in opened if opened.count(path) > 1]
    assert len(opened) <= 256 + 16 + 1
    assert len({*texts}) <= 16


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "python3.13").write_bytes(b"\x7fELF")
    (tmp_path / "interpreter").symlink_to(tmp_path / "python3.13")
    assert record_and_report.stack_options(runtimes_of([str(tmp_path / "interpreter")])) == ["--python"]


def test_a_script_that_is_not_executable_is_run_by_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == "python3" else None)
    assert record_and_report.program_of([str(tmp_path / "app.py"), "1"]) == ["python3", str(tmp_path / "app.py"), "1"]


def test_a_workload_that_fails_to_start_is_not_tried_again(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Recorded):
        def run(self, name: str, args: Sequence[str]) -> int:
            super().run(name, args)
            raise WorkloadFailedError(program, "no such file")

    status, lines = started(monkeypatch, Failing(), program)
    assert status != 0
    assert len(lines) == 1


def test_words_that_name_files_have_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("")
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(100))
    (tmp_path / "work").write_text("#!/bin/sh")
    (tmp_path / "work").chmod(0o755)
    remedies = {
        "./absent": "no such file",
        "absent.py": "no such file",
        ".": "is a directory",
        "data.txt": "chmod +x data.txt",
        "perf.data": "perfpy report -i perf.data",
        "work": "perfpy ./work",
    }
    for word, remedy in remedies.items():
        assert run([word]) == 129
        text = capsys.readouterr().err
        assert remedy in text
        assert text.count("\n") == 1


def test_a_report_does_not_read_the_standard_input_of_its_program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """report without -i reads a standard input that is a pipe, which the program has read."""
    reading, writing = os.openpty()
    with open(reading, closefd=True) as terminal, open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert started(monkeypatch, Recorded(), program)[1][-1] == "report -i perf.data"
        monkeypatch.setattr(sys, "stdin", terminal)
        assert started(monkeypatch, Recorded(), program)[1][-1] == "report"
    os.close(writing)
