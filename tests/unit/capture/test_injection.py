"""inject adds JIT-compiled code and build-ids to recordings."""

from __future__ import annotations

import lzma
import os
import struct
from pathlib import Path

import numpy as np
import pytest

import perfpy
from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_MAX, CONTEXTS, MISC_KERNEL, MISC_USER, RecordType, SampleType
from perfpy.abi.framing import HeaderBuildId
from perfpy.abi.perf_records import TimeConv
from perfpy.abi.records import SampleId
from perfpy.analysis.callchains import user_callchains
from perfpy.capture.injection import BuildIdMapper, CallchainConverter, JitInjector, inject, require_times
from perfpy.cli import run
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata.header import Feature, encode_feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.jitdump import RecordedClock, on_clock, read_dump
from tests.builders import own_corpus
from tests.builders.intel_pt import Options, pt_recording, steps_of
from tests.builders.perfdata import PerfDataBuilder, usual_attr

PID, CODE = 77, 0x7F0000001000


def dump(path: Path) -> None:
    """A jitdump with a function compiled at time 20 and moved at 40."""
    header = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, PID, 5, 0)
    load = struct.pack("<IIQQQQ", PID, PID, CODE, CODE, 16, 3) + b"JS:*fib\0" + b"\x90" * 16
    move = struct.pack("<IIQQQQQ", PID, PID, 0, CODE, CODE + 0x1000, 16, 3)
    parts = [struct.pack("<IIQ", kind, 16 + len(body), time) + body for kind, time, body in ((0, 20, load), (1, 40, move))]
    path.write_bytes(header + b"".join(parts))


def mapping(name: str, address: int, time: int, prot: int = 5) -> records.Mmap2:
    identity = SampleId(PID, PID, time)
    return records.Mmap2(MISC_USER, PID, PID, address, 0x1000, 0, 0, 0, 0, 0, prot, 2, name, sample_id=identity)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    dump(tmp_path / "jit-77.dump")
    builder = PerfDataBuilder(attrs=[usual_attr(use_clockid=1, clockid=1)])
    builder.features[Feature.HOSTNAME] = encode_feature(Feature.HOSTNAME, "here")
    builder.record(mapping(str(tmp_path / "jit-77.dump"), 0x1000, 10))
    builder.record(mapping("//anon", CODE, 30))
    for time, ip in ((15, CODE + 4), (35, CODE + 4), (45, CODE + 0x1004)):
        builder.sample(ip=ip, pid=PID, tid=PID, time=time, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(builder.file())
    return Recording(str(tmp_path / "perf.data"))


def names(recording: Recording) -> list[str]:
    symbolizer = recording.symbolizer()
    results = []
    for batch in recording.data.batches():
        columns = batch.columns
        ids = symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
        symbol = symbolizer.resolve().symbol[ids]
        results += [symbolizer.symbols.name(number) if number >= 0 else "-" for number in symbol.tolist()]
    return results


def test_jitted_functions_are_named_from_when_they_were_made(recording: Recording, tmp_path: Path):
    assert names(recording) == ["-", "-", "-"]
    injector = JitInjector(recording.data, str(tmp_path / "cache"))
    inject(recording.data, str(tmp_path / "out.data"), jit=injector)
    assert (injector.functions, list(injector.dumps)) == (1, [PID])
    assert Path(injector.folder).parent == tmp_path / "cache" / "jit"
    assert [path.name for path in Path(injector.folder).iterdir()] == ["jitted-77-3.so"]
    assert names(Recording(str(tmp_path / "out.data"))) == ["-", "JS:*fib", "JS:*fib"]


def test_everything_else_stays(recording: Recording, tmp_path: Path):
    inject(recording.data, str(tmp_path / "out.data"))
    copy = Recording(str(tmp_path / "out.data"))
    assert copy.data.features["hostname"] == "here"
    assert [event.attr for event in copy.events] == [event.attr for event in recording.events]
    assert [type(record).__name__ for record in copy.records()] == [type(record).__name__ for record in recording.records()]


def test_build_ids_are_put_into_the_table(recording: Recording, tmp_path: Path):
    entry = HeaderBuildId(MISC_USER, -1, b"\xab" * 20, "/bin/x")
    inject(recording.data, str(tmp_path / "out.data"), build_ids=[entry])
    (result,) = Recording(str(tmp_path / "out.data")).data.features["build_id"]
    assert (result.build_id.hex(), result.filename) == ("ab" * 20, "/bin/x")


def test_a_missing_dump_is_reported(recording: Recording, tmp_path: Path):
    (tmp_path / "jit-77.dump").unlink()
    with pytest.raises(PerfError, match=r"jit-77\.dump: No such file"):
        inject(recording.data, str(tmp_path / "out.data"), jit=JitInjector(recording.data, str(tmp_path / "cache")))


def test_images_that_cannot_be_written_are_reported(recording: Recording, tmp_path: Path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(OutputFailedError, match="others may write in it"):
        inject(recording.data, str(tmp_path / "out.data"), jit=JitInjector(recording.data, str(tmp_path / "cache")))


def test_a_recording_is_not_written_over_itself(recording: Recording, tmp_path: Path):
    with pytest.raises(OutputFailedError, match="the output is also the input"):
        inject(recording.data, str(tmp_path / "perf.data"))


def test_times_must_have_the_clock_of_the_jit(tmp_path: Path, recording: Recording):
    with Recording(str(tmp_path / "perf.data")) as good:
        require_times(good.data)
    builder = PerfDataBuilder()
    builder.record(mapping(str(tmp_path / "jit-77.dump"), 0x1000, 10))
    (tmp_path / "other.data").write_bytes(builder.file())
    with Recording(str(tmp_path / "other.data")) as other, pytest.raises(PerfError, match="record with -k mono"):
        inject(other.data, str(tmp_path / "out.data"), jit=JitInjector(other.data, str(tmp_path / "cache")))


def test_ticks_of_the_processor_are_converted(tmp_path: Path):
    """Traces of hardware have no CLOCK_MONOTONIC: JIT compilers write ticks instead (JITDUMP_USE_ARCH_TIMESTAMP)."""
    dump(tmp_path / "jit-77.dump")
    data = bytearray((tmp_path / "jit-77.dump").read_bytes())
    struct.pack_into("<Q", data, 32, 1)
    (tmp_path / "jit-77.dump").write_bytes(data)
    for words, expected in (((1, 3, 1000), [1030, 1060]), ((1, 0, 0), None)):
        builder = PerfDataBuilder(attrs=[usual_attr()])
        builder.record(TimeConv(0, *words)).record(mapping(str(tmp_path / "jit-77.dump"), 0x1000, 10))
        (tmp_path / "ticks.data").write_bytes(builder.file())
        with Recording(str(tmp_path / "ticks.data")) as recording:
            injector = JitInjector(recording.data, str(tmp_path / "cache"))
            if expected is None:
                with pytest.raises(PerfError, match="cannot convert"):
                    inject(recording.data, str(tmp_path / "out.data"), jit=injector)
                continue
            inject(recording.data, str(tmp_path / "out.data"), jit=injector)
        with Recording(str(tmp_path / "out.data")) as injected:
            found = [one.record for one in injected.side_band([RecordType.MMAP2])]
            assert [one.sample_id.time for one in found] == expected


def test_a_dump_of_another_clock_begins_when_it_is_mapped(tmp_path: Path):
    dump(tmp_path / "jit-77.dump")
    parsed = read_dump(mapping(str(tmp_path / "jit-77.dump"), 0x1000, 10))
    moved = on_clock(parsed, "jit-77.dump", RecordedClock(is_monotonic=False), 500)
    assert [event.time for event in moved.events] == [500, 520]


@pytest.mark.parametrize("words", ["-b", "--jit"])
def test_hardware_traces_are_copied(words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    source, copy = tmp_path / "perf.data", tmp_path / "out.data"
    source.write_bytes(pt_recording(steps_of(tmp_path, 50), Options(psb_bytes=64, piece=100))[0])
    assert run(["inject", words, "-i", str(source), "-o", str(copy)]) == 0
    outputs = []
    for path in (source, copy):
        assert run(["script", "-i", str(path), "--itrace=be"]) == 0
        outputs.append(capfd.readouterr())
    assert outputs[0] == outputs[1]
    assert len(outputs[0].out.splitlines()) > 100
    with Recording(str(copy)) as recording:
        assert len(recording.header["auxtrace"]) > 3


def test_times_do_not_matter_where_no_code_was_made(tmp_path: Path):
    (tmp_path / "other.data").write_bytes(PerfDataBuilder().file())
    with Recording(str(tmp_path / "other.data")) as plain:
        injector = JitInjector(plain.data)
        inject(plain.data, str(tmp_path / "out.data"), jit=injector)
    assert (injector.functions, (tmp_path / "out.data").exists()) == (0, True)


def test_files_with_samples_are_hit(recording: Recording):
    from perfpy.analysis.locations import hit_dsos

    assert [dso.name for dso in hit_dsos(recording.data, recording.symbolizer())] == ["/tmp/perf-77.map"]
    assert np.count_nonzero([dso.name.endswith("jit-77.dump") for dso in recording.timeline.dso_table.dsos]) == 1


def mapped(recording: Recording) -> list[tuple[str, bytes]]:
    """Return (name, build-id) of each mapping."""
    results = (side.record for side in recording.side_band() if isinstance(side.record, records.Mmap | records.Mmap2))
    return [(record.filename, getattr(record, "build_id", b"")) for record in results]


@pytest.mark.parametrize(("only_these", "remaining"), [(True, ["/lib/hit", "/lib/nameless", "[kernel.kallsyms]_text"]), (False, None)])
def test_mappings_get_build_ids_and_unhit_files_can_be_dropped(tmp_path: Path, only_these: bool, remaining: list[str] | None):
    builder = PerfDataBuilder(attrs=[usual_attr()])
    names = ["/lib/hit", "/lib/nameless", "/lib/other"]
    for number, name in enumerate(names):
        builder.record(mapping(name, 0x1000 * (number + 1), 10 + number))
    kernel = records.Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, 1 << 63, 0x1000, 1 << 63, "[kernel.kallsyms]_text", sample_id=SampleId(0, 0, 0))
    builder.record(kernel)
    builder.sample(ip=0x1004, pid=PID, tid=PID, time=15, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(builder.file())
    recording = Recording(str(tmp_path / "perf.data"))
    build_ids = {"/lib/hit": b"\x01" * 20, "/lib/nameless": b"", "[kernel.kallsyms]": b"\x02" * 20}
    mapper = BuildIdMapper(recording.data, build_ids, only_these=only_these)
    inject(recording.data, str(tmp_path / "out.data"), mapper=mapper)
    result = Recording(str(tmp_path / "out.data"))
    mappings = dict(mapped(result))
    assert sorted(mappings) == (remaining or sorted([*names, "[kernel.kallsyms]_text"]))
    assert (mappings["/lib/hit"], mappings["/lib/nameless"], mappings["[kernel.kallsyms]_text"]) == (b"\x01" * 20, b"", b"\x02" * 20)
    assert result.timeline.kernels[0].reference == ("_text", 1 << 63)
    assert len(result.samples["ip"]) == 1


def test_code_without_a_file_stays_mapped_where_samples_hit_it(tmp_path: Path):
    """`inject -B` keeps //anon, so that a report still finds the process's perf map."""
    builder = PerfDataBuilder(attrs=[usual_attr()])
    for number, (name, pid) in enumerate([("//anon", PID), ("//anon", PID + 1), ("/anon_hugepage (deleted)", PID), ("/lib/other", PID)]):
        builder.record(mapping(name, 0x1000 * (number + 1), 10 + number)._replace(pid=pid, tid=pid))
    for address in (0x1004, 0x3004):
        builder.sample(ip=address, pid=PID, tid=PID, time=15, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(builder.file())
    assert cli.run(["inject", "-B", "-i", str(tmp_path / "perf.data"), "-o", str(tmp_path / "out.data")]) == 0
    with Recording(str(tmp_path / "out.data")) as result:
        assert [(side.record.pid, side.record.filename) for side in result.side_band() if isinstance(side.record, records.Mmap2)] == [
            (PID, "//anon"),
            (PID, "/anon_hugepage (deleted)"),
        ]


def other_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.untrusted.process_files.trusted_owners", lambda pid: {12345})


def test_a_dump_of_another_user_is_taken_when_forced_only(recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other_owner(monkeypatch)
    with pytest.raises(PerfError, match=r"jit-77\.dump: belongs to user"):
        inject(recording.data, str(tmp_path / "out.data"), jit=JitInjector(recording.data, str(tmp_path / "cache")))
    forced = JitInjector(recording.data, str(tmp_path / "cache"), force=True)
    inject(recording.data, str(tmp_path / "out.data"), jit=forced)
    assert forced.functions == 1


def test_a_dump_that_is_the_file_of_the_mapping_is_its_process_own(recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other_owner(monkeypatch)
    path = str(tmp_path / "jit-77.dump")
    state = os.stat(path)
    place = mapping(path, 0x1000, 10)._replace(maj=os.major(state.st_dev), min=os.minor(state.st_dev), ino=state.st_ino)
    injector, clock = JitInjector(recording.data, str(tmp_path / "cache")), RecordedClock(is_monotonic=True)
    assert len(injector._inject(place, clock)) == 2
    with pytest.raises(PerfError, match="belongs to user"):
        injector._inject(place._replace(ino=state.st_ino + 1), clock)


def test_a_dump_describes_its_own_process_only(recording: Recording, tmp_path: Path):
    path = tmp_path / "jit-77.dump"
    data = path.read_bytes()
    owner = struct.pack("<I", PID)
    assert data.count(owner) >= 5
    path.write_bytes(data[:40] + data[40:].replace(owner, struct.pack("<I", 78)))  # not those of the head
    assert JitInjector(recording.data, str(tmp_path / "cache")).records(recording.side_band()) == []
    path.write_bytes(data.replace(owner, struct.pack("<I", 1)))  # a container's: the dump knows itself as process 1
    assert len(JitInjector(recording.data, str(tmp_path / "cache")).records(recording.side_band())) == 2


def test_a_number_that_comes_twice_leaves_the_first_image(recording: Recording, tmp_path: Path):
    path = tmp_path / "jit-77.dump"
    data = path.read_bytes()
    load = data[40 : 40 + struct.unpack_from("<I", data, 44)[0]]
    path.write_bytes(data[:40] + load + load)
    injector = JitInjector(recording.data, str(tmp_path / "cache"))
    injector.records(recording.side_band())
    assert sorted(image.name for image in Path(injector.folder).iterdir()) == ["2-jitted-77-3.so", "jitted-77-3.so"]


def test_a_machine_that_has_no_room_in_an_elf_header_is_truncated(recording: Recording, tmp_path: Path):
    path = tmp_path / "jit-77.dump"
    data = bytearray(path.read_bytes())
    data[14:16] = b"\xff\xff"
    path.write_bytes(data)
    assert len(JitInjector(recording.data, str(tmp_path / "cache")).records(recording.side_band())) == 2


def test_a_recording_without_events_is_reported(recording: Recording, tmp_path: Path):
    recording.data.events.clear()
    with pytest.raises(PerfError, match="no events in this recording"):
        inject(recording.data, str(tmp_path / "out.data"))
    assert not (tmp_path / "out.data").exists()
    for make in (JitInjector, require_times, lambda data: BuildIdMapper(data, {}, only_these=True)):
        with pytest.raises(PerfError, match="no events in this recording"):
            make(recording.data)


def test_damaged_mappings_are_omitted(recording: Recording):
    mapper = BuildIdMapper(recording.data, {}, only_these=True)
    assert mapper.map_record(RecordType.MMAP2, 2, struct.pack("<IHH", RecordType.MMAP2, 2, 8)) == b""


# --convert-callchain replaces stack copies by callchains; reports of both recordings are equal.


SYMFS = str(own_corpus.HERE / "symfs")


def converted_recording(name: str, folder: Path) -> Path:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((own_corpus.RECORDINGS / f"{name}.data.xz").read_bytes()))
    return path


def converted(path: Path) -> Path:
    output = path.with_suffix(".made")
    with perfpy.open(str(path)) as old:
        callchains = user_callchains(old.data, old.symbolizer(SymbolOptions(symfs=SYMFS)))
        assert callchains is not None
        inject(old.data, str(output), converter=CallchainConverter(old.data, callchains))
    return output


def text_of(path: Path, capfd: pytest.CaptureFixture[str], *options: str) -> str:
    assert run([*options, "--symfs", SYMFS, "--kallsyms", "/dev/null", "-i", str(path)]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("name", ["chains-dwarf", "arm64-chains-dwarf"])
def test_samples_keep_their_chains_and_everything_else(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old = converted_recording(name, tmp_path)
    new = converted(old)
    capfd.readouterr()
    for line in (["script", "--no-inline"], ["script", "--no-inline", "--show-task-events", "--show-mmap-events", "-F", "+period"]):
        assert text_of(new, capfd, *line) == text_of(old, capfd, *line)
    assert new.stat().st_size < old.stat().st_size / 3


def test_requested_fields_of_samples_remain(tmp_path: Path) -> None:
    old = converted_recording("chains-dwarf", tmp_path)
    with perfpy.open(str(old)) as before, perfpy.open(str(converted(old))) as after:
        one, other = before.events[0].attr, after.events[0].attr
        assert one.sample_type & ~other.sample_type == SampleType.REGS_USER | SampleType.STACK_USER
        assert (other.sample_regs_user, other.sample_stack_user, other.exclude_callchain_user) == (0, 0, 0)
        assert after.header["event_desc"][0].attr == other
        counts = [recorded.data.record_index.type_counts for recorded in (before, after)]
        assert counts[1][RecordType.FINISHED_ROUND] == 0
        assert counts[0][RecordType.SAMPLE] == counts[1][RecordType.SAMPLE] > 0
        chains = after.samples["callchain"]
        markers = chains.values[chains.values >= np.uint64(CONTEXT_MAX)]
        assert set(markers.tolist()) <= set(CONTEXTS)
        assert min(chains.lengths.tolist()) > 1


def test_recordings_without_copies_of_stacks_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "--convert-callchain", "-i", str(converted_recording("chains", tmp_path)), "-o", str(tmp_path / "new")]) == 255
    assert "record with --call-graph dwarf" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new = converted_recording("chains-dwarf", tmp_path), tmp_path / "new.data"
    assert run(["inject", "--convert-callchain", "-b", "-i", str(old), "-o", str(new)]) == 0
    with perfpy.open(str(new)) as after:
        assert not after.events[0].attr.sample_type & SampleType.STACK_USER
    assert run(["inject", "--convert-callchain", "-B", "-i", str(old), "-o", str(new)]) == 129
    assert "cannot be combined with -j or -B" in capfd.readouterr().err
