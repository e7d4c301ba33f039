"""The options that --jit chooses."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perfpy.capture.record_options import BufferOptions, Callchain, OffCpuOptions, RecordOptions, SamplingOptions, SideBandOptions
from perfpy.capture.runtimes.known_runtimes import complete_options, runtime_of
from perfpy.capture.runtimes.session import RuntimeNames

PUSHES = b"\x55\x48\x89\xe5" + b"\x90" * 12


@pytest.fixture(autouse=True)
def x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: type("Uname", (), {"machine": "x86_64"}))


def choice(command: str, options: RecordOptions | None = None) -> RecordOptions:
    return complete_options(options or RecordOptions(), runtime_of(command, {}), command)


def python(folder: Path, functions: int) -> str:
    (folder / "bin").mkdir()
    path = folder / "bin" / "python3.12"
    path.write_bytes(b"\x7fELF" + bytes(1 << 20) + PUSHES * functions)
    return str(path)


def test_times_have_the_clock_of_jitdumps():
    assert choice("sh").sampling.clockid == time.CLOCK_MONOTONIC
    assert choice("sh", RecordOptions(sampling=SamplingOptions(clockid=time.CLOCK_BOOTTIME))).sampling.clockid == time.CLOCK_BOOTTIME


def test_python_without_frame_pointers_gets_copies_of_stacks_and_fewer_samples(tmp_path: Path):
    options = choice(python(tmp_path, 10))
    assert (options.sampling.callchain, options.sampling.unwind, options.sampling.freq) == (Callchain("dwarf", 32768), True, 999)


@pytest.mark.parametrize(
    "requested",
    [
        RecordOptions(buffers=BufferOptions(overwrite=True)),
        RecordOptions(side_band=SideBandOptions(tail_synthesize=True)),
        RecordOptions(sampling=SamplingOptions(user_regs=1)),
    ],
)
def test_stacks_not_unwound_at_once_are_unwound_later(requested: RecordOptions):
    options = choice("sh", requested)
    assert (options.sampling.callchain, options.sampling.unwind) == (Callchain("dwarf", 32768), False)
    options.check()


def test_python_with_frame_pointers_does_not_need_them(tmp_path: Path):
    options = choice(python(tmp_path, 3000))
    assert (options.sampling.callchain, options.sampling.freq) == (Callchain("fp"), None)


def test_the_interpreter_may_be_in_a_library_beside_the_program(tmp_path: Path):
    path = Path(python(tmp_path, 0))
    path.write_bytes(b"\x7fELF")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libpython3.12.so.1.0").write_bytes(PUSHES * 3000)
    assert choice(str(path)).sampling.callchain == Callchain("fp")


def test_code_of_node_has_frame_pointers():
    assert choice("/usr/bin/node").sampling.callchain == Callchain("fp")


def test_waits_of_node_need_copies_of_stacks():
    """They begin in functions of the C library and of V8, which have no frame pointers."""
    options = choice("/usr/bin/node", RecordOptions(off_cpu=OffCpuOptions(enabled=True)))
    assert (options.sampling.callchain, options.sampling.unwind, options.sampling.freq) == (Callchain("dwarf", 32768), True, 999)


def test_methods_that_java_interprets_are_found_in_stacks():
    options = choice("/usr/bin/java")
    assert (options.sampling.callchain, options.sampling.unwind) == (Callchain("dwarf", 32768), True)


def test_an_unknown_program_may_start_python(tmp_path: Path):
    assert choice("sh").sampling.callchain == Callchain("dwarf", 32768)


def test_requested_options_stay():
    options = RecordOptions(sampling=SamplingOptions(callchain=Callchain("fp", max_stack=3), freq=50))
    assert choice("python3", options) == options._replace(sampling=options.sampling._replace(clockid=time.CLOCK_MONOTONIC))
    assert choice("node", RecordOptions(sampling=SamplingOptions(unwind=True))).sampling.unwind
    assert choice("python3", RecordOptions(sampling=SamplingOptions(period=1000))).sampling.freq is None
    assert choice("python3", RecordOptions(sampling=SamplingOptions(freq=4000))).sampling.freq == 4000


def test_elsewhere_compilers_keep_frame_pointers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "uname", lambda: type("Uname", (), {"machine": "aarch64"}))
    assert choice("python3").sampling.callchain == Callchain("fp")


def test_recordings_unwound_at_once_have_perf_maps_and_stacks():
    """Jitdumps are read at the end of a recording, too late to unwind their code."""
    options = RecordOptions(sampling=SamplingOptions(unwind=True, callchain=Callchain("dwarf", 8192)), jit=True)
    names = RuntimeNames(options, ["node"], lambda _line: None)
    assert "PYTHONPERFSUPPORT" in names.variables
    assert "PYTHON_PERF_JIT_SUPPORT" not in names.variables
    assert names.options.sampling.callchain == options.sampling.callchain


@pytest.mark.parametrize(("period", "size"), [(1, 8192), (99, 8192), (100, 32768), (1_000_000, 32768)])
def test_samples_that_come_as_fast_as_page_faults_have_small_copies_of_stacks(period: int, size: int, tmp_path: Path):
    options = choice(python(tmp_path, 10), RecordOptions(sampling=SamplingOptions(period=period)))
    assert options.sampling.callchain == Callchain("dwarf", size)
