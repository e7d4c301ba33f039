"""Checks of the script command before it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi.flags import MISC_MMAP_BUILD_ID, MISC_USER, BranchSample, SampleType
from perfpy.abi.perf_records import AuxtraceInfo
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.cli import run
from perfpy.cli.commands import load_command
from perfpy.cli.script import ScriptCommandOptions, command
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.elf import ALLOC, ET_EXEC, EXEC, Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


def recorded(path: Path, sample_type: int, **fields: int) -> str:
    built = PerfDataBuilder(attrs=[usual_attr(sample_type)])
    for time in (1, 2):
        built.sample(ip=1, pid=7, tid=7, time=time, period=1, misc=2, **fields)
    path.write_bytes(built.file())
    return str(path)


@pytest.mark.parametrize("name", ["script", "report"])
def test_stitching_of_call_stacks_is_refused_only_if_there_are_some(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording().file())
    assert run([name, "-i", str(path), "--stitch-lbr"]) == 0
    assert capsys.readouterr().err.startswith("no call stacks of branch records (record --call-graph lbr); --stitch-lbr has no effect\n")
    kinds = USUAL | SampleType.BRANCH_STACK
    path.write_bytes(PerfDataBuilder([usual_attr(kinds, branch_sample_type=BranchSample.CALL_STACK)]).file())
    assert run([name, "-i", str(path), "--stitch-lbr"]) == 255
    assert "drop --stitch-lbr" in capsys.readouterr().err


def test_cpus_of_samples_that_name_none_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="drop -C"):
        command.run("script", ["-C", "1", "-i", recorded(tmp_path / "perf.data", USUAL)])


def test_cpus_of_samples_that_name_them_are_read(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = recorded(tmp_path / "perf.data", USUAL | SampleType.CPU, cpu=1)
    assert command.run("script", ["-C", "1", "-i", path, "--symfs", "/nonexistent"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 2
    assert command.run("script", ["-C", "0", "-i", path, "--symfs", "/nonexistent"]) == 0
    assert capfdbinary.readouterr().out == b""


def test_a_pipes_features_are_shown_with_its_samples(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    built = simple_recording(1).feature(Feature.HOSTNAME, "vm").feature(Feature.ARCH, "x86_64")
    for shape, output in ((built.pipe(), b"# hostname : vm\n# arch : x86_64\n"), (built.file(), b"")):
        (tmp_path / "perf.data").write_bytes(shape)
        assert command.run("script", ["-I", "-F", "tid", "-i", str(tmp_path / "perf.data")]) == 0
        assert capfdbinary.readouterr().out.startswith(output + b" ")


def test_debug_mode_counts_samples_out_of_order(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    built = PerfDataBuilder()
    for time in (5, 3, 4):
        built.sample(ip=1, pid=7, tid=7, time=time, period=1, misc=2)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert command.run("script", ["-d", "--show-round-events", "-i", str(path), "--symfs", "/nonexistent"]) == 0
    assert capfdbinary.readouterr() == (b"", b"Samples misordered, previous: 5 this: 3\nMisordered timestamps: 1\n")


def test_debug_mode_finds_samples_without_times_in_order(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(PerfDataBuilder(attrs=[usual_attr(SampleType.IP | SampleType.TID)]).sample(ip=1, pid=7, tid=7).file())
    assert command.run("script", ["-d", "-F", "ip", "-i", str(path), "--symfs", "/nonexistent"]) == 0
    assert capfdbinary.readouterr().err == b"Misordered timestamps: 0\n"


@pytest.mark.parametrize("build_id", ["", "ab" * 20])
def test_instructions_of_a_stripped_static_program_are_read(
    build_id: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It has neither .symtab nor .dynsym. A file of another build is not read."""
    program = Elf(type=ET_EXEC).segment(0x401000, 0x1000, 16)
    program.section(".text", b"\x90\xc3" * 8, flags=ALLOC | EXEC, addr=0x401000, offset=0x1000)
    path = tmp_path / "bare"
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)]).feature(Feature.ARCH, "x86_64")
    misc = MISC_USER | (MISC_MMAP_BUILD_ID if build_id else 0)
    at = SampleId(pid=7, tid=7, time=1)
    built.record(Mmap2(misc, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, str(path), bytes.fromhex(build_id), at))
    built.sample(ip=0x401001, pid=7, tid=7, time=2, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(built.file())
    path.write_bytes((program.build_id(build_id) if build_id else program).build())
    arguments = ["-F", "insn", "-i", str(tmp_path / "perf.data")]
    assert command.run("script", arguments) == 0
    assert capfdbinary.readouterr().out == b" insn: c3\n"
    if build_id:
        path.write_bytes(path.read_bytes().replace(bytes.fromhex(build_id), b"\0" * 20))
        assert command.run("script", arguments) == 0
        assert capfdbinary.readouterr().out == b"\n"


@pytest.mark.parametrize("styles", ["libdw", "libunwind", "libunwind,libdw"])
def test_perfs_choice_of_an_unwinder_changes_nothing(tmp_path: Path, styles: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    arguments = ["-i", recorded(tmp_path / "perf.data", USUAL), "--symfs", "/nonexistent"]
    assert command.run("script", arguments) == 0
    plain = capfdbinary.readouterr().out
    assert plain
    assert command.run("script", ["--unwind-style", styles, *arguments]) == 0
    assert capfdbinary.readouterr().out == plain


@pytest.mark.parametrize("name", ["script", "inject", "report"])
def test_an_unknown_unwinder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--unwind-style expects libdw or libunwind, not 'x'"):
        load_command(name).run(name, ["--unwind-style", "x"])


@pytest.mark.parametrize("name", ["script", "inject", "report"])
@pytest.mark.parametrize("text", ["zz", "i100x", "10"])
def test_an_unknown_kind_of_sample_is_refused_without_a_hardware_trace(name: str, text: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "perf.data", USUAL)
    output = ["-o", str(tmp_path / "out")] if name == "inject" else ["--stdio"] if name == "report" else []
    with pytest.raises(UsageError, match=f"--itrace={text}"):
        load_command(name).run(name, [f"--itrace={text}", "-i", path, *output])
    assert load_command(name).run(name, ["--itrace=i100us", "-i", path, *output]) == 0


def test_languages_are_listed_without_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.run("script", ["-s", "lang"]) == 0
    out, err = capfd.readouterr()
    assert not out
    assert "Python" in err


# Samples in a file for each event, and in dumps.


def of_two_events(path: Path) -> str:
    """Write samples of cpu-clock at 1 and 3, of task-clock at 2 and 4 seconds, and a comm record at 3.5 s."""
    attrs = [usual_attr(USUAL | SampleType.ID, config=number) for number in (0, 1)]
    built = PerfDataBuilder(attrs=attrs, ids=[(1,), (2,)])
    for second in (1, 2, 3, 4):
        if second == 4:
            built.record(Comm(0, 7, 7, "busy", SampleId(pid=7, tid=7, time=3_500_000_000, id=1)))
        event = (second + 1) % 2
        built.sample(event, ip=1, pid=7, tid=7, time=second * 1_000_000_000, period=1, misc=MISC_USER, id=event + 1)
    path.write_bytes(built.file())
    return str(path)


@pytest.mark.parametrize(
    ("options", "cpu_clock", "task_clock", "printed"),
    [
        ("", "1.0,3.0", "2.0,4.0", ""),
        ("--reltime", "0.0,2.0", "1.0,3.0", ""),
        ("--deltatime", "0.0,1.0", "1.0,1.0", ""),
        ("--switch-on task-clock:u", "3.0", "4.0", ""),
        ("--show-task-events --reltime", "0.0,2.0", "1.0,3.0", "COMM"),
        ("-d", "", "", ""),
        ("-d --show-task-events", "", "", "COMM"),
        ("-D", "1.0,3.0", "2.0,4.0", "raw event"),
    ],
)
def test_each_events_file_has_what_a_single_listing_prints(
    options: str, cpu_clock: str, task_clock: str, printed: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Times are relative to samples of all events, and all of them switch."""
    path = of_two_events(tmp_path / "perf.data")
    assert command.run("script", ["--per-event-dump", "-F", "time", *options.split(), "-i", path, "--symfs", "/nonexistent"]) == 0
    out = capfdbinary.readouterr().out.decode()
    for name, expected in (("cpu-clock:u", cpu_clock), ("task-clock:u", task_clock)):
        times = [line.strip(" :") for line in (tmp_path / f"perf.data.{name}.dump").read_text().splitlines()]
        assert times == [f"{float(time):.6f}" for time in expected.split(",") if time]
        assert f".{name}.dump ({len(times)} samples) ]" in out
    assert (printed in out) if printed else len(out.splitlines()) == 2


@pytest.mark.parametrize("options", ["", "-D"])
def test_a_name_that_is_no_files_is_refused_before_any_output(options: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "perf.data"
    built = PerfDataBuilder(attrs=[usual_attr(USUAL), usual_attr(USUAL, config=1)])
    names = [EventDesc(attr, name, ()) for attr, name in zip(built.attrs, ("one", "two/period=3/"), strict=True)]
    path.write_bytes(built.sample(time=1).feature(Feature.EVENT_DESC, names).file())
    with pytest.raises(PerfError, match="two/period=3/"):
        command.run("script", ["--per-event-dump", *options.split(), "-i", str(path)])
    assert not capfd.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["perf.data"]


def test_the_size_of_an_events_file_is_that_of_whole_blocks_without_v(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path / "perf.data", USUAL)
    for verbose, size in (([], "0.000"), (["-v", "--max-stack", "3"], "0.001")):
        built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
        for time in range(1, 31):
            built.sample(ip=1, pid=7, tid=7, time=time, period=1, misc=2)
        (tmp_path / "perf.data").write_bytes(built.file())
        assert command.run("script", ["--per-event-dump", "-F", "comm,time,event", *verbose, "-i", path, "--symfs", "/nonexistent"]) == 0
        assert f"Wrote {size} MB" in capfd.readouterr().out


def test_a_dump_prints_the_samples_after_the_switching_event(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = of_two_events(tmp_path / "perf.data")
    lines = {}
    for options in ("-D", "-D --switch-on task-clock:u", "-D -d"):
        assert command.run("script", [*options.split(), "-F", "time", "-i", path, "--symfs", "/nonexistent"]) == 0
        out = capfdbinary.readouterr().out.decode().splitlines()
        lines[options] = [line.strip() for line in out if line.endswith(".000000: ")], sum("... thread: " in line for line in out)
    assert lines == {
        "-D": ([f"{time}.000000:" for time in (1, 2, 3, 4)], 4),
        "-D --switch-on task-clock:u": (["3.000000:", "4.000000:"], 4),
        "-D -d": ([], 0),
    }


def test_records_are_shown_by_their_options():
    options = ScriptCommandOptions.read(
        command.parser(["--show-task-events", "--show-text-poke-events", "--show-lost-events", "--no-show-lost-events"])
    )
    assert options.shown_records == {"task", "text-poke"}


def test_rounds_are_shown_where_the_file_has_them():
    output = (["--show-round-events"], ["--dump-unsorted-raw-trace"], ["-D"])
    assert [ScriptCommandOptions.read(command.parser(args)).as_stored for args in output] == [True, True, False]


@pytest.mark.parametrize("name", ["script", "report"])
def test_a_list_of_cpus_that_is_none_is_refused_with_the_reason(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path / "perf.data", USUAL | SampleType.CPU, cpu=1)
    for text, reason in (("3-1", "the range '3-1' runs backwards"), ("0-x", "'0-x' is neither a CPU nor a range"), ("70000", "no machine")):
        with pytest.raises(UsageError, match=reason):
            load_command(name).run(name, ["-C", text, "-i", path])
    assert "%" not in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--call-trace", "--call-ret-trace", "--insn-trace"])
def test_the_stream_of_a_hardware_trace_is_refused(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], option: str) -> None:
    """Other recordings have their samples shown, by the fields that the option chooses."""
    path = recorded(tmp_path / "perf.data", USUAL)
    assert command.run("script", [option, "-i", path, "--symfs", "/nonexistent"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 2
    for more in (["-F", "ip"], ["--insn-trace=disasm"]):
        with pytest.raises(UsageError):
            command.run("script", [option, *more, "-i", path])
    traced = PerfDataBuilder().record(AuxtraceInfo(0, 1, (0,) * 8))
    (tmp_path / "traced.data").write_bytes(traced.file())
    with pytest.raises(PerfError, match="no decoder for this hardware trace"):
        command.run("script", [option, "-i", str(tmp_path / "traced.data")])


def test_code_without_lines_has_its_address_in_the_file_at_each_function(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    elf = Elf().section(".text", b"\x90" * 15 + b"\xc3", flags=ALLOC | EXEC, addr=0x1000, offset=0x1000)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "busy").write_bytes(elf.symbol("first", 0x1000, 8).symbol("second", 0x1008, 8).build())
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, branch_sample_type=8)
    built = PerfDataBuilder(attrs=[attr])
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Mmap2(MISC_USER, 7, 7, 0x1000, 0x1000, 0x1000, 8, 1, 1, 0, 5, 2, "/bin/busy", b"", ids))
    stack = [(0x100F, 0x1000, 0), (0x100F, 0x1000, 0)]
    built.sample(misc=2, ip=0x1000, pid=7, tid=7, time=200, period=1, branch_stack=stack)
    (tmp_path / "perf.data").write_bytes(built.feature(Feature.ARCH, "x86_64").feature(Feature.BRANCH_STACK, b"").file())
    words = ["-F", "ip,brstackinsn,srcline", "-i", str(tmp_path / "perf.data"), "--symfs", str(tmp_path)]
    assert command.run("script", words) == 0
    printed = capfdbinary.readouterr().out
    assert b"\tfirst:\tbusy[1000]\n" in printed
    assert b"\tsecond:\tbusy[1008]\n" in printed
    assert b" srcline: busy[100f]\t#" in printed
