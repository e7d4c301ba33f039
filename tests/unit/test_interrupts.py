"""Ctrl-C ends a command at once and in silence, whatever it is importing, and leaves no half of a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.cli.output.output_files import write_bytes, write_text
from tests.builders.perfdata import simple_recording

CHECKOUT = Path(__file__).resolve().parents[2]
# as an extension module that is interrupted while it is loaded: it knows only that something went wrong
INTERRUPTED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ImportError("this installation is broken") from None
"""
# runs the command as its script or `python -m` does, and interrupts it when something of this name is imported
AT_AN_IMPORT = """
import os, runpy, signal, sys
run, name, *sys.argv[1:] = sys.argv[1:]
def interrupt(event, args):
    if event == "import" and args[0] == name:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
if run == "-m":
    runpy.run_module("perfpy", run_name="__main__", alter_sys=True)
else:
    runpy.run_path(run, run_name="__main__")
"""
SCRIPT = str(CHECKOUT / "scripts/perfpy")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(code: str, *args: str, folder: Path, path: str = str(CHECKOUT)) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": path}
    started = [sys.executable, "-c", code, *args]
    return subprocess.run(started, env=environment, cwd=folder, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("command", ["report --stdio", "script", "diff --json", "inject -b -o new.data"])
def test_ctrl_c_while_libraries_are_loaded(command, tmp_path):
    (tmp_path / "numpy.py").write_text(INTERRUPTED)
    for name in ("perf.data", "perf.data.old"):
        (tmp_path / name).write_bytes(simple_recording().file())
    started = f"import sys; sys.argv[1:] = {command.split()}; from perfpy.cli import main; main()"
    ended = run(started, folder=tmp_path, path=f"{tmp_path}:{CHECKOUT}")
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")
    assert not (tmp_path / "new.data").exists()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("perfpy.cli", "stat -- true"),
        ("perfpy.cli.line.option_parsing", "record -- true"),
        ("perfpy.cli.stat.command", "stat -- true"),
        ("perfpy.capture.measurement", "stat -- true"),
        ("perfpy.cli.record", "record -- true"),
        ("perfpy.capture.session.recorder", "record -- true"),
        ("perfpy.kernel.ring", "record -- true"),
        ("perfpy.events.machine", "list"),
        ("click", "--help"),
        ("perfpy.cli.top_level", "nosuch"),
    ],
)
@pytest.mark.parametrize("way", [SCRIPT, "-m"])
def test_ctrl_c_while_the_command_is_loaded(name, command, way, tmp_path):
    ended = run(AT_AN_IMPORT, way, name, *command.split(), folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")
    assert not os.listdir(tmp_path)


def test_a_job_in_the_background_of_a_script_stays_deaf_to_it(tmp_path):
    """Its SIGINT was ignored by who started it."""
    code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{AT_AN_IMPORT}"
    ended = run(code, SCRIPT, "perfpy.cli.version", "version", folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_cleanup_code_gets_an_exception(tmp_path):
    ended = run(AT_AN_IMPORT, SCRIPT, "perfpy.cli.build_ids", "buildid-cache", "-l", folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (130, b"")


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("before", [None, "what was there"])
def test_a_signal_in_the_middle_of_a_result_keeps_the_old_file(number, before, tmp_path):
    path = tmp_path / "out.json"
    if before is not None:
        path.write_text(before)
    code = f"""
import os, signal
from perfpy.cli.output.output_files import write_text
signal.signal(signal.SIGINT, signal.SIG_DFL)
def pieces():
    yield "half" * 100_000
    os.kill(os.getpid(), {int(number)})
    yield "more"
write_text({str(path)!r}, pieces())
"""
    ended = run(code, folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (-number, b"")
    assert os.listdir(tmp_path) == ([] if before is None else ["out.json"])
    assert before is None or path.read_text() == before


def test_a_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "out"
    path.write_text("before")

    def pieces():
        yield "half" * 100_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_text(str(path), pieces())
    assert (os.listdir(tmp_path), path.read_text()) == (["out"], "before")


def test_results_keep_links_modes_and_devices(tmp_path):
    real, link, other = tmp_path / "real", tmp_path / "link", tmp_path / "other"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to("real")
    write_text(str(link), ["after"])
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "after", 0o640)
    os.link(real, other)
    write_bytes(str(other), b"both", quiet=True)
    assert real.read_text() == "both"
    write_bytes(os.devnull, b"gone", quiet=True)
    assert not Path(os.devnull).is_file()
    assert sorted(os.listdir(tmp_path)) == ["link", "other", "real"]


def test_new_results_have_the_modes_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(str(tmp_path / "new"), ["x"])
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_a_name_too_long_for_another_beside_it_is_written_where_it_is(tmp_path):
    path = tmp_path / ("n" * 255)
    write_text(str(path), ["x"])
    assert path.read_text() == "x"
