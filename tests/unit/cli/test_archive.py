"""`perfpy archive` packs the files that a recording needs and unpacks them elsewhere; other contents are rejected."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.records import SampleId
from perfpy.cli import archive as tar_stream
from perfpy.symbols.files.build_ids import BuildIdCache
from perfpy.untrusted import expansion
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ID, OTHER = "ab" * 20, "cd" * 20


def image(build_id: str) -> bytes:
    return Elf().text().symbol("f", 0x1000, 8).build_id(build_id).build()


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of a sample in a program that is still there, in a folder that is the current one; its archive's path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    monkeypatch.setenv("PERF_BUILDID_DIR", str(tmp_path / "here"))
    program = tmp_path / "program"
    program.write_bytes(image(ID))
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    at = SampleId(pid=7, tid=7, time=1)
    built.record(records.Mmap2(MISC_USER, 7, 7, 0x1000, 0x1000, 0x1000, 8, 1, 1, 0, 5, 2, str(program), b"", at))
    built.sample(ip=0x1004, pid=7, tid=7, time=10, period=1, misc=MISC_USER)
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path / "perf.data.tar.bz2"


def test_hit_files_are_found_on_another_machine(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["archive"]) == 0
    assert "archive --unpack" in capsys.readouterr().out
    with tarfile.open(recorded) as archive:
        kinds = {member.name.rpartition("/")[2]: member for member in archive}
    assert set(kinds) == {ID[2:], "elf"}
    assert kinds[ID[2:]].linkname == f"../..{recorded.parent}/program/{ID}"
    there = recorded.parent / "there"
    monkeypatch.setenv("PERF_BUILDID_DIR", str(there))
    assert cli.run(["archive", "--unpack"]) == 0
    assert BuildIdCache(str(there)).entries() == [(ID, f"{recorded.parent}/program")]
    assert (there / ".build-id/ab" / ID[2:] / "elf").read_bytes() == image(ID)


def made(path: Path, members: dict[str, bytes | str]) -> None:
    """An archive: text is where a link leads."""
    with tarfile.open(path, "w:bz2") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    "name",
    [
        "../../out/{}/elf",
        "/../out/{}/elf",
        "bin/../../out/{}/elf",
        "bin/nobuildid/elf",
        "bin/{}/other",
        ".build-id/{}/elf",
        "elf",
        "{}/elf",
    ],
)
def test_nothing_leaves_the_cache(name: str, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(recorded, {name.format(ID): image(ID), f"good/{ID}/elf": image(ID)})
    before = {path.relative_to(recorded.parent) for path in recorded.parent.rglob("*")}
    assert cli.run(["archive", "--unpack", str(recorded)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("unpacked 1 file into ")
    assert "skipped" in captured.err
    new = {path.relative_to(recorded.parent) for path in recorded.parent.rglob("*")} - before
    assert {path.parts[0] for path in new} == {"here"}
    assert BuildIdCache(str(recorded.parent / "here")).entries() == [(ID, "/good")]


def test_links_of_an_archive_are_not_followed(recorded: Path) -> None:
    (recorded.parent / "outside").mkdir()
    made(recorded, {"good": str(recorded.parent / "outside"), f".build-id/ab/{ID[2:]}": "/etc", f"good/{ID}/elf": image(ID)})
    assert cli.run(["archive", "--unpack", str(recorded)]) == 0
    assert not list((recorded.parent / "outside").iterdir())
    assert BuildIdCache(str(recorded.parent / "here")).entries() == [(ID, "/good")]


def test_a_file_of_another_build_is_omitted(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(recorded, {f"bad/{ID}/elf": image(OTHER)})
    assert cli.run(["archive", "--unpack", str(recorded)]) == 0
    assert "skipped" in capsys.readouterr().err
    assert BuildIdCache(str(recorded.parent / "here")).entries() == []


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "empty"), (b"no archive", "perf.data.tar.bz2"), (None, "name the archive to unpack")]
)
def test_an_invalid_archive_is_reported_in_a_line(
    content: bytes | None, message: str, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        recorded.write_bytes(content)
    assert cli.run(["archive", "--unpack"]) == 255
    errors = capsys.readouterr().err
    assert message in errors
    assert len(errors.splitlines()) == 1


def test_a_cut_archive_is_reported_in_a_line(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(recorded, {f"good/{ID}/elf": image(ID) + bytes(range(256)) * 2000})
    recorded.write_bytes(recorded.read_bytes()[:-50])
    assert cli.run(["archive", "--unpack"]) == 255
    assert len(capsys.readouterr().err.splitlines()) == 1


PACKERS: dict[str, Callable[[], Any]] = {
    "bz2": bz2.BZ2Compressor,
    "gz": lambda: zlib.compressobj(wbits=31),
    "xz": lambda: lzma.LZMACompressor(preset=0),
    "zst": lambda: expansion.zstd_library().ZstdCompressor(),
}


def bomb(pack: Callable[[], Any], sizes: Iterable[int], kind: str = "kallsyms") -> bytes:
    """An archive of files of zeros."""
    packer, zeros, packed = pack(), bytes(1 << 20), []
    for number, size in enumerate(sizes):
        member = tarfile.TarInfo(f"[kernel.kallsyms]/{number:040x}/{kind}")
        member.size = size
        packed.append(packer.compress(member.tobuf()))
        packed += [packer.compress(zeros) for _ in range(size >> 20)]
    return b"".join([*packed, packer.flush()])


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("sizes", [[40 << 20], [1 << 20] * 40], ids=["one file", "many files"])
@pytest.mark.slow
def test_an_archive_that_expands_without_end_is_refused(
    packer: str, sizes: list[int], recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "_MOST", 32 << 20)  # 256 MB take seconds to pack
    recorded.write_bytes(bomb(PACKERS[packer], sizes))
    size = recorded.stat().st_size
    tracemalloc.start()
    start = time.process_time()
    try:
        assert cli.run(["archive", "--unpack", str(recorded)]) == 255
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert f"{max(32 << 20, 32 * size)}" in errors[0]
    assert peak < 16 << 20
    assert time.process_time() - start < 10
    if len(sizes) == 1:
        assert not BuildIdCache(str(recorded.parent / "here")).entries()


@pytest.mark.parametrize("header", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.slow
def test_an_extended_header_has_a_limit(header: bytes, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = header, 100 << 20
    recorded.write_bytes(bz2.compress(member.tobuf() + bytes(100 << 20)))
    tracemalloc.start()
    assert cli.run(["archive", "--unpack", str(recorded)]) == 255
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    assert "extended header of 104857600 bytes" in capsys.readouterr().err


def test_an_archive_of_very_many_files_is_refused(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_stream, "_MOST_MEMBERS", 200)  # 65,536 take seconds to pack
    recorded.write_bytes(bomb(PACKERS["gz"], [0] * 300, "nothing"))
    assert cli.run(["archive", "--unpack", str(recorded)]) == 255
    assert "more than 200 members" in capsys.readouterr().err


def test_of_many_skipped_files_some_are_named(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.write_bytes(bomb(PACKERS["gz"], [0] * 100, "nothing") + gzip.compress(bytes(1024)))
    assert cli.run(["archive", "--unpack", str(recorded)]) == 0
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 21
    assert "80 more files" in errors[-1]


@pytest.mark.parametrize("name_of_format", ["USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT"])
@pytest.mark.parametrize("packer", ["", *PACKERS])
def test_archives_of_any_tar_are_unpacked(packer: str, name_of_format: str, recorded: Path) -> None:
    """Long names have other headers in each format."""
    folder = "a" * 90 + "/" + "b" * (90 if name_of_format != "USTAR_FORMAT" else 4)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=getattr(tarfile, name_of_format)) as archive:
        member = tarfile.TarInfo(f"{folder}/{ID}/elf")
        member.size = len(image(ID))
        archive.addfile(member, io.BytesIO(image(ID)))
    data = out.getvalue()
    if packer:
        stream = PACKERS[packer]()
        data = stream.compress(data) + stream.flush()
    recorded.write_bytes(data)
    assert cli.run(["archive", "--unpack", str(recorded)]) == 0
    assert BuildIdCache(str(recorded.parent / "here")).entries() == [(ID, f"/{folder}")]


@pytest.mark.parametrize(("line", "status"), [("one two", 129), ("--all", 129), ("nothing.data", 255)])
def test_refused(line: str, status: int, recorded: Path) -> None:
    assert cli.run(["archive", *line.split()]) == status
    assert not recorded.exists()


def test_the_recording_is_named_as_in_other_commands(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-i, for the archive too; once."""
    recorded.with_name("perf.data").rename(recorded.parent / "other")
    assert cli.run(["archive", "-i", "other"]) == 0
    assert (recorded.parent / "other.tar.bz2").exists()
    assert cli.run(["archive", "--unpack", "-i", "other.tar.bz2"]) == 0
    capsys.readouterr()
    assert cli.run(["archive", "-i", "other", "another"]) == 129
    assert "archive takes one file" in capsys.readouterr().err


def test_a_pipes_list_of_build_ids_has_the_files_with_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = simple_recording(1)
    for name in ("/bin/busy", "/bin/unused"):
        built.record(HeaderBuildId(2 | MISC_BUILD_ID_SIZE, -1, bytes(range(20)), name))
    built.record(records.Comm(0, 8, 8, "other", SampleId(pid=8, tid=8, time=110)))
    built.record(records.Mmap2(2, 8, 8, 0x1000, 0x1000, 0, 8, 1, 98, 0, 5, 2, "/bin/plain", b"", SampleId(pid=8, tid=8, time=110)))
    built.sample(misc=2, ip=0x1000, pid=8, tid=8, time=500, period=1)
    (tmp_path / "perf.data").write_bytes(built.pipe())
    assert cli.run(["buildid-list", "-i", str(tmp_path / "perf.data")]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{bytes(range(20)).hex()} /bin/busy", " " * 41 + "/bin/plain"]
