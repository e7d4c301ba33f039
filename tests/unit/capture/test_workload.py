"""The command is held and started, and its end is reported."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.workload import Workload
from perfpy.errors import WorkloadFailedError

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_runs_before_start(tmp_path: Path) -> None:
    """The child waits; leaving the context without a start ends it."""
    with Workload(["touch", str(tmp_path / "ran")]) as workload:
        assert os.path.exists(f"/proc/{workload.pid}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("words", "reason"), [([""], "No such file"), (["true", "a\0b"], "Invalid argument")])
def test_words_that_no_kernel_takes(words: list[str], reason: str) -> None:
    """Python refuses them before the kernel could; it is a failure as any other."""
    with pytest.raises(WorkloadFailedError, match=reason), Workload(words) as workload:
        workload.start()


@pytest.mark.parametrize(("script", "code", "signum"), [("exit 0", 0, 0), ("exit 7", 7, 0), ("kill -9 $$", 137, 9)])
def test_how_it_ended(script: str, code: int, signum: int) -> None:
    """Exit status and signal come through."""
    with Workload(["sh", "-c", script]) as workload:
        workload.start()
        ended = workload.wait()
    assert (ended.exit_code, ended.signal) == (code, signum)


def test_a_failed_execution_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such file, no permission."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # a folder of PATH that is closed to this user would be the reason
    closed = tmp_path / "closed"
    closed.write_text("")
    for name, reason in (("no-such-program", "No such file"), (str(closed), "Permission denied")):
        with pytest.raises(WorkloadFailedError, match=reason), Workload([name]) as workload:
            workload.start()


def test_a_script_without_a_first_line_goes_to_the_shell(tmp_path: Path) -> None:
    """As execvp(3) has it."""
    script = tmp_path / "script"
    script.write_text("exit 4\n")
    script.chmod(0o755)
    with Workload([str(script)]) as workload:
        workload.start()
        assert workload.wait().exit_code == 4


def test_the_search_goes_on_as_execvp_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that lack the program, or forbid it, are passed over; a refusal is told when no folder has it."""
    for folder, mode, status in (("closed", 0o644, 1), ("open", 0o755, 5)):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "tool"
        script.write_text(f"exit {status}\n")
        script.chmod(mode)
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}/closed:{tmp_path}/open")
    with Workload(["tool"]) as workload:
        workload.start()
        assert workload.wait().exit_code == 5
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}/closed")
    with pytest.raises(WorkloadFailedError, match="Permission denied"), Workload(["tool"]) as workload:
        workload.start()


def test_the_program_has_the_usual_signals() -> None:
    """Python ignores SIGPIPE; its programs must not."""
    with Workload(["sh", "-c", "kill -PIPE $$"]) as workload:
        workload.start()
        assert workload.wait().signal == signal.SIGPIPE


def test_leaving_early_ends_the_workload() -> None:
    """An error in the middle leaves no program behind."""
    with Workload(["sleep", "30"]) as workload:
        workload.start()
        assert workload.poll() is None
    assert workload.poll() is not None
