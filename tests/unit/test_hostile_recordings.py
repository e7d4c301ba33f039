"""Recordings made to take time or memory, or to write into terminals and pages."""

from __future__ import annotations

import ast
import os
import pty
import random
import re
import resource
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy import cli
from perfpy.abi import perf_records, records
from perfpy.abi.flags import RecordType, SampleType
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.event_format import parse_format
from perfpy.perfdata.header import Compression, EventGroup, Feature, decode_feature, encode_feature
from perfpy.perfdata.print_format import PrintFormatLimitError, parse_print_fmt
from perfpy.perfdata.reader import PerfData
from perfpy.views.tracepoints.event_text import TraceText
from perfpy.views.tracepoints.values import Runtime
from tests.builders import hostile_names
from tests.builders.browser import Browser
from tests.builders.hostile_names import COMMANDS, FORGED, hostile, hostile_program, hostile_recording
from tests.builders.perfdata import PerfDataBuilder, header_of, simple_recording, usual_attr
from tests.builders.syntax import nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from _typeshed import TraceFunction


# Formats and print formats that a file could have and no kernel has: bounded in time and memory, told in a line, the rest is printed.


SYSTEM = "sys"
FIELDS = """name: evil
ID: 9
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:u64 a;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char s[8];\toffset:16;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] d;\toffset:24;\tsize:4;\tsigned:0;
\tfield:{extra};

print fmt: """
PLAIN = "u32 z;\toffset:28;\tsize:4;\tsigned:0"
RAW = b"\x09\0" + bytes(6) + (7).to_bytes(8, "little") + b"text\0\0\0\0" + (32 | 8 << 16).to_bytes(4, "little") + bytes(4)
LONGEST = 2.0  # seconds of CPU time


def printed(print_fmt: str, *, extra: str = PLAIN, rows: int = 3, data: bytes = b"\x55" * 8) -> tuple[list[str], list[str]]:
    """(texts of some samples, what was warned of)."""
    warnings: list[str] = []
    text = TraceText(
        parse_format(FIELDS.replace("{extra}", extra) + print_fmt, SYSTEM, warn=warnings.append), Runtime(warn=warnings.append)
    )
    raw = RAW + data
    sizes = np.full(rows, len(raw))
    start = time.process_time()
    texts = text.texts(np.frombuffer(raw * rows, np.uint8), np.arange(rows) * len(raw), sizes)
    assert time.process_time() - start < LONGEST
    return texts, warnings


def test_nothing_of_a_file_is_run_as_code() -> None:
    runs = {"eval", "exec", "compile"}
    paths = [
        path for path in sorted(Path(perfpy.__file__).parent.rglob("*.py")) if re.search(r"\b(eval|exec|compile)\s*\(", path.read_text())
    ]
    results = [
        path.name
        for path in paths
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in runs
    ]
    assert results == ["program.py"]  # views/scripting: a program that the user named (script -s)


@pytest.mark.parametrize(
    "extra",
    [
        "char huge[16];\toffset:16;\tsize:4000000000;\tsigned:0",
        "u64 far;\toffset:2000000000;\tsize:8;\tsigned:0",
        "u32 z;\toffset:28;\tsize\x0e4;\tsigned:0",
        "u32 " + "z" * 1000 + ";\toffset:28;\tsize:4;\tsigned:0",
        "u32 z;\toffset:" + "9" * 400 + ";\tsize:4;\tsigned:0",
    ],
)
def test_a_field_that_cannot_be_costs_itself_only(extra: str) -> None:
    texts, warnings = printed('"%d %s %s", REC->a, REC->s, REC->huge', extra=extra)
    assert texts == ["7 text "] * 3
    assert len(warnings) == 1
    assert re.match(r"tracepoint sys:evil: (malformed field|field )", warnings[0])
    assert warnings[0].endswith("; skipped")


def test_a_long_sum_is_computed() -> None:
    assert printed('"%d", ' + "+".join(["REC->a"] * 150))[0] == ["1050"] * 3


@pytest.mark.parametrize(
    "print_fmt",
    [
        '"%s", ' + "".join(f'REC->a == {i} ? "x{i}" : ' for i in range(600)) + '"y"',
        '"%d", ' + "(" * 5000 + "1" + ")" * 5000,
        '"%d", ' + "!" * 5000 + "1",
        '"%d", ' + "+".join(["REC->a"] * 5000),
        '"' + "x" * 70000 + '"',
        '"' + "%s" * 300 + '", ' + ", ".join(["__get_str(d)"] * 300),
        '"' + "%9999d" * 100 + '", ' + ", ".join(["REC->a"] * 100),
        '"%s", __print_flags(REC->a, "|", ' + ", ".join(f'{{ {i}, "n" }}' for i in range(1, 3000)) + ")",
    ],
)
def test_a_print_format_without_bounds_costs_its_own_text_only(print_fmt: str) -> None:
    texts, warnings = printed(print_fmt)
    assert texts == [texts[0]] * 3
    assert texts[0].startswith("[FAILED TO PARSE] a=7 s=text d=UUUUUUUU")
    (warning,) = warnings
    assert warning.startswith("tracepoint sys:evil: ")
    assert warning.endswith("; its samples' fields are shown as they are")


@pytest.mark.parametrize("conversion", ["%99999999999d", "%.99999999d", "%5-3d", "%..3d", "%--*.*d"])
def test_conversions_that_are_none_are_not_tried(conversion: str) -> None:
    assert printed(f'"{conversion}", REC->a')[0][0].startswith("[FAILED TO PARSE]")


def test_widths_from_the_data_have_a_limit() -> None:
    (text,) = printed('"%*d", 2147483647, REC->a', rows=1)[0]
    assert text.strip() == "7"
    assert len(text) < 5000


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_numbers_beyond_64_bits_are_the_largest(number: str) -> None:
    assert printed(f'"%llu", {number}')[0] == ["18446744073709551615"] * 3


def test_places_beyond_the_data_are_nothing() -> None:
    print_fmt = '"%d %d %s", REC->s[4000000000], ((u8 *)__get_dynamic_array(d))[REC->s], __print_array(REC->s, 18446744073709551615, 8)'
    assert printed(print_fmt, data=b"")[0][0].startswith("0 0 {0x74786574")


def test_very_many_cpus_are_listed_quickly() -> None:
    texts, _ = printed('"%s", __get_cpumask(d)', data=b"\x55" * 8)
    assert texts[0] == ",".join(str(bit) for bit in range(0, 64, 2))
    raw = RAW[:24] + (28 | 65000 << 16).to_bytes(4, "little") + b"\x55" * 65000
    text = TraceText(parse_format(FIELDS.replace("{extra}", PLAIN) + '"%s", __get_cpumask(d)', SYSTEM), Runtime())
    start = time.process_time()
    (line,) = text.texts(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)]))
    assert time.process_time() - start < LONGEST
    assert line.endswith(",519998")


def test_texts_that_are_long_together_are_omitted_at_last() -> None:
    texts, warnings = printed('"' + "x" * 40000 + '%d", REC->a', rows=2000)
    assert texts[0].endswith("x7")
    assert texts[-1] == "[TOO LONG]"
    assert warnings == ["tracepoint sys:evil: very long texts; some are skipped"]


def test_too_deep_expressions_are_distinguished_from_invalid_ones() -> None:
    with pytest.raises(PrintFormatLimitError, match="nested"):
        parse_print_fmt(parse_format(FIELDS.replace("{extra}", PLAIN) + '"%d", ' + "(" * 300, SYSTEM))


# Names from recordings reach a terminal as text, and lines as parts of lines.


#: what we send to a terminal ourselves: colours (perf's, those of rich's styles), and the line of progress on a slow machine
OURS = re.compile(r"\x1b\[(0|1|2|3|31|32|33|1;31|1;32|2;3[0-9])?m|\r[a-z ]+: +\d+%|\r +\r")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

#: each command, told where standard output leads; {} is the recording
COMMAND_LINES = [
    "report -i {}",
    "report --no-children -g -s comm,dso,symbol -i {}",
    "report --stdio -i {}",
    "report --stdio -g caller -s comm,dso,sym,cgroup -i {}",
    "report --stdio --hierarchy -s comm,dso,sym -i {}",
    "report --stdio -s comm,trace -i {}",
    "report --header-only -I -i {}",
    "report --stdio --header -i {}",
    "report -D -i {}",
    "report --tasks -i {}",
    "report --mmaps -i {}",
    "report --stats -i {}",
    "report --json=- -i {}",
    "report --folded=- -i {}",
    "report --speedscope=- -i {}",
    "report --firefox=- -i {}",
    "report --pprof=- -i {}",
    "report --flamegraph=- -i {}",
    "script -i {}",
    "script -F comm,tid,event,ip,sym,dso,trace -i {}",
    "script --header -i {}",
    "script --show-task-events --show-mmap-events --show-cgroup-events --show-bpf-events -i {}",
    "script -D -i {}",
    "evlist -i {}",
    "evlist -v -i {}",
    "evlist -F --trace-fields -i {}",
    "buildid-list -i {}",
    "diff {} {}",
    "diff --json=- {} {}",
]
#: error lines
REFUSED = [
    ["report", "-i", hostile("missing")],
    ["script", "-F", hostile("field"), "-i", "{}"],
    ["report", "--sort", hostile("key"), "-i", "{}"],
    ["report", "-i", "{}", hostile("--option")],
    [hostile("command")],
    ["evlist", "-i", hostile("cut")],
    ["report", "--stdio", "-i", hostile("cut")],
    ["stat", "-e", hostile("event"), "true"],
    ["report", "--json", hostile("/nowhere/file"), "-i", "{}"],
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    recording = hostile_recording().file()
    (folder / "perf.data").write_bytes(recording)
    os.makedirs(folder / "root")
    (folder / "root" / hostile("file")).write_bytes(hostile_program())
    (folder / hostile("cut")).write_bytes(recording[: len(recording) // 2])
    return folder


def on_terminal(arguments: list[str], folder: Path) -> bytes:
    """Everything that a command sends to the terminal that it runs on."""
    ours, its = pty.openpty()
    modes = termios.tcgetattr(its)
    modes[1] &= ~termios.OPOST  # line feeds as they come
    termios.tcsetattr(its, termios.TCSANOW, modes)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "400", "HOME": str(folder), "PERF_CONFIG": "/dev/null", "PYTHONUTF8": "1"}
    environment["PERF_PAGER"] = "cat"  # nobody is there to leave another
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "perfpy", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, cwd=folder, env=environment):
        os.close(its)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # how a terminal ends
                break
            pieces.append(piece)
    os.close(ours)
    return b"".join(pieces)


def line_of(text: str) -> list[str]:
    words = text.replace("{}", "perf.data").split()
    with_symbols = words[0] in ("report", "script", "diff") and "--header-only" not in words
    return [*words, "--symfs", "root"] if with_symbols else words


def obeyed(output: bytes) -> list[str]:
    """What of the output a terminal would obey, or not show."""
    text = output.decode()  # every byte is UTF-8
    return [result[0] for result in UNSEEN.finditer(OURS.sub("", text))]


@pytest.mark.parametrize("line", COMMAND_LINES)
@pytest.mark.slow
def test_texts_of_a_recording_do_not_control_the_terminal(line: str, room: Path) -> None:
    output = on_terminal(line_of(line), room)
    assert not obeyed(output)
    assert b"\x1b[8m" not in output
    assert not [line for line in output.splitlines() if line.lstrip().startswith(FORGED.encode())]
    assert b"Traceback" not in output
    assert ("script -i" not in line and "sym" not in line) or b"hot^[]0;" in output
    if "--stats" not in line and "--pprof" not in line and "--flamegraph" not in line:
        assert b"owned" in output  # it is shown, only not obeyed


@pytest.mark.parametrize("words", REFUSED, ids=range(len(REFUSED)))
def test_a_terminal_obeys_nothing_that_an_error_line_quotes(words: list[str], room: Path) -> None:
    output = on_terminal([word.replace("{}", "perf.data") for word in words], room)
    assert output
    assert not obeyed(output)
    assert b"Traceback" not in output
    assert not [line for line in output.splitlines() if line.startswith(FORGED.encode())]


@pytest.mark.parametrize("line", ["script -i {}", "report --folded=- -i {}", "report -D -i {}", "evlist -i {}"])
def test_a_pipe_has_the_bytes_but_no_forged_lines(line: str, room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *line_of(line)]
    output = subprocess.run(command, capture_output=True, cwd=room, check=True, timeout=60).stdout
    result = COMMANDS.rstrip("\r").replace(";", ":" if "--folded" in line else ";")  # which parts folded frames
    assert result.encode("utf-8", "surrogateescape") + b"^M^J" in output
    assert not [line for line in output.splitlines() if line.lstrip().startswith(FORGED.encode())]


def test_a_report_in_a_pipe_has_perfs_bytes(room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *line_of("report --stdio -i {}")]
    output = subprocess.run(command, capture_output=True, cwd=room, check=True, timeout=60).stdout
    assert COMMANDS.encode("utf-8", "surrogateescape") + b"\n" in output


def test_colours_are_ours(room: Path) -> None:
    """The door does not take colours away: perf's red of large shares, with names in the same row."""
    output = on_terminal(line_of("report --stdio -s comm -i {}"), room)
    assert re.search(rb"\x1b\[31m +\d+\.\d\d%\x1b\[m +.*comm\^\[\]0;owned\^G", output)
    piped = subprocess.run(
        [sys.executable, "-m", "perfpy", *line_of("report --stdio --stdio-color always -s comm -i {}")],
        capture_output=True,
        cwd=room,
        check=True,
        timeout=60,
    ).stdout
    assert re.search(rb"\x1b\[31m +\d+\.\d\d%\x1b\[m ", piped)


# Pages that commands make of recordings whose every name is markup: in a real browser nothing of it runs.


MARKUP = (
    "</script><img src=x onerror=owned()><svg/onload=owned()>--><!--<script>owned()</script>"
    "'\"`${owned()}&lt;b onclick=owned()&gt;\u202egpj"
)
NOTICES = "window.ran = 0; window.owned = () => { window.ran++; };"


@pytest.fixture
def hostile_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recordings, and in root the file with the symbols and a source file, all named so."""
    monkeypatch.setattr(hostile_names, "COMMANDS", MARKUP)
    for name in ("perf.data", "after.data"):
        (tmp_path / name).write_bytes(hostile_names.hostile_recording().file())
    program = tmp_path / "root" / hostile_names.hostile("/file").lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_bytes(hostile_names.hostile_program())
    return tmp_path


@pytest.mark.parametrize(
    "words", [["report", "-i", "perf.data", "--html=page.html"], ["diff", "--html=page.html", "perf.data", "after.data"]]
)
@pytest.mark.slow
def test_texts_of_a_recording_do_not_run_in_its_page(words: list[str], hostile_room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *words, "--symfs", "root"]
    process = subprocess.run(
        command, cwd=hostile_room, env={**os.environ, "HOME": str(hostile_room)}, capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr
    page = hostile_room / "page.html"
    with Browser(hostile_room) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=NOTICES)
        browser.open(page)
        browser.focus("#graph")
        for key in ("ArrowUp", "ArrowUp", "Enter", "s"):
            browser.press(key)
        browser.click("#tab-functions")
        browser.until("document.querySelector('#functions tbody tr') !== null")
        browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
        result = browser.run("document.documentElement.textContent")
        assert "onerror=owned()" in result
        assert "hot</script><img" in result
        assert "\u202e" not in result
        assert browser.run("[window.ran, document.images.length, document.querySelectorAll('svg').length]") == [0, 0, 0]
        assert (
            browser.run("[...document.querySelectorAll('*')].filter(e => e.hasAttribute('onclick') || e.hasAttribute('onerror')).length")
            == 0
        )
        assert browser.requests == [page.as_uri()]


# Recordings that say much and hold little: what reading them costs is bounded by their size, tried in a process with limits.


if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor
else:
    from backports.zstd import ZstdCompressor

MEMORY = 1 << 30  # of address space, in bytes; numpy and its libraries map some hundred MB of it
SECONDS = 10  # of CPU time: the machine of a test may be slow
ALL = (1 << 64) - 1


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """perfpy within limits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    command = [sys.executable, "-m", "perfpy", *args]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", preexec_fn=limit, env=environment, timeout=60
    )


def bomb(size: int) -> bytes:
    """A COMPRESSED record of `size` bytes of small records."""
    one = header_of(RecordType.FINISHED_INIT, 8)
    zstd = ZstdCompressor()
    return perf_records.encode(perf_records.Compressed(0, zstd.compress(one * (size // len(one)), zstd.FLUSH_BLOCK)), "<")


def test_a_record_unpacks_to_its_stated_size_at_most(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    builder = simple_recording(3)
    builder.feature(Feature.COMPRESSED, Compression(1, 1, 1, 5, 65536))
    before = len(builder.body)
    path.write_bytes(builder.raw(bomb(1 << 20)).file())
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches()) == 3
        assert data.record_index.type_counts[RecordType.FINISHED_INIT] < 1 << 17
        assert any("more than 65536 bytes" in warning for warning in data.warnings)
    assert before


def test_a_zstd_bomb_without_a_size_ends_soon(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).raw(bomb(1 << 27)).file())
    result = run("script", "-i", str(path))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3
    assert "more than 8 records for each byte of the compressed ones" in result.stderr


@pytest.mark.thorough
def test_a_bomb_of_large_records_ends_too(tmp_path: Path) -> None:
    zstd = ZstdCompressor(level=19)
    one = header_of(RecordType.CGROUP, 0xFFF8) + bytes(0xFFF0)
    packed = b"".join(zstd.compress(one) for _ in range(8192)) + zstd.flush()  # half a gigabyte
    assert len(packed) < 0xFFF0
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).record(perf_records.Compressed(0, packed)).file())
    result = run("script", "-i", str(path))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3
    assert "unpack to more than 3072 times their size" in result.stderr


def test_stacks_that_hardly_change_are_no_bomb(tmp_path: Path) -> None:
    """`perf record -z22 --call-graph dwarf,65528` of a loop was packed to a 1,723rd."""
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.STACK_USER, sample_stack_user=60_000)
    built = PerfDataBuilder(attrs=[attr])
    for number in range(300):
        top = random.Random(number).randbytes(16)
        built.sample(ip=number, pid=7, tid=7, time=number + 1, user_stack=top + bytes(60_000 - len(top)))
    whole = len(built.body)
    path = tmp_path / "perf.data"
    path.write_bytes(built.compressed().file())
    assert whole > 1000 * path.stat().st_size
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches(["ip"])) == 300
        assert not data.warnings


def test_very_many_zstd_frames_in_a_record_are_no_recording(tmp_path: Path) -> None:
    frame = ZstdCompressor().flush()
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(3).record(perf_records.Compressed(0, frame * 5000)).file())
    with PerfData(path) as data:
        assert sum(len(batch) for batch in data.batches()) == 3
        assert any("zstd frames" in warning for warning in data.warnings)


def many_events(path: Path, count: int, step: int = 1) -> Path:
    """A recording of so many events; those whose number is a multiple of `step` have a sample."""
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.IDENTIFIER)
    builder = PerfDataBuilder(attrs=[attr] * count, ids=[(number + 1,) for number in range(count)])
    for number in range(0, count, step):
        builder.sample(number, ip=number, pid=7, tid=7, time=number)
    path.write_bytes(builder.file())
    return path


def lines_run(args: Sequence[str]) -> int:
    """How many lines of perfpy's code a command runs; each turn of a loop counts, in a comprehension too."""
    count = 0

    def in_function(_frame: FrameType, event: str, _: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return in_function

    def entered(frame: FrameType, _event: str, _: object) -> TraceFunction | None:
        return in_function if frame.f_globals.get("__name__", "").startswith("perfpy.") else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        assert cli.run(args) == 0
    finally:
        sys.settrace(before)
    return count


MANY_EVENTS = pytest.mark.parametrize("command", [["report", "--stdio"], ["script"], ["evlist"], ["report", "--stats"]], ids=" ".join)


@MANY_EVENTS
@pytest.mark.slow
def test_the_work_for_many_events_grows_as_their_number(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An event costs the same however many there are: nothing is looked through for each of them."""
    paths = [many_events(tmp_path / f"{count}.data", count) for count in (60, 60, 120, 240)]  # the first one loads modules
    _, few, more, most = (lines_run([*command, "-i", str(path)]) for path in paths)
    assert most - more < 2.2 * (more - few)
    assert capsys.readouterr().out


@MANY_EVENTS
@pytest.mark.slow
def test_very_many_events_are_read_within_limits(tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "-i", str(many_events(tmp_path / "perf.data", 6000, 10)))
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_ids_that_lie_in_each_other_are_refused(tmp_path: Path) -> None:
    data = bytearray(PerfDataBuilder(attrs=[usual_attr()] * 100, ids=[tuple(range(1, 9))] * 100).file())
    (table,) = struct.unpack_from("<Q", data, 24)
    (entry,) = struct.unpack_from("<Q", data, 16)
    for number in range(100):
        struct.pack_into("<2Q", data, table + (number + 1) * entry - 16, 0, len(data) & ~7)
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    with pytest.raises(BadPerfDataError, match="longer than the file"):
        PerfData(path)


@pytest.mark.parametrize("groups", [(EventGroup("g", 0, 1 << 31),), (EventGroup("g", 0, 9), EventGroup("h", 4, 9))])
def test_groups_that_cannot_be_are_omitted(groups: tuple[EventGroup, ...]) -> None:
    with pytest.raises(ValueError, match="group"):
        decode_feature(Feature.GROUP_DESC, encode_feature(Feature.GROUP_DESC, groups))


@pytest.mark.thorough
def test_updates_of_events_are_kept_within_bounds(tmp_path: Path) -> None:
    update = struct.pack("<QQ", 2, 1)
    update = update.replace(struct.pack("<Q", 2), struct.pack("<Q", perf_records.EVENT_UPDATE_CPUS), 1)
    body = update + struct.pack("<HBxHH", perf_records.RANGE, 0, 0, 65535)
    builder = PerfDataBuilder(ids=[(1,)])
    for _ in range(2000):
        builder.raw(header_of(RecordType.EVENT_UPDATE, 8 + len(body)) + body)
    path = tmp_path / "perf.data"
    path.write_bytes(builder.pipe())
    result = run("evlist", "-i", str(path))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("start", [b"y\n" * 60, bytes(120), b"PERFILE2" + struct.pack("<Q", 16) + bytes(120)])
@pytest.mark.parametrize("command", ["script", "report"])
def test_a_pipe_that_is_no_recording_is_refused_though_it_does_not_end(start: bytes, command: str) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, start)  # and nothing more, nor an end
        result = subprocess.run(
            [sys.executable, "-m", "perfpy", command, "-i", "-"], check=False, stdin=reading, capture_output=True, text=True, timeout=30
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert result.returncode == 255
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["script"],
        ["script", "-D"],
        ["report", "--stdio"],
        ["report", "--stdio", "-g"],
        ["evlist", "-v"],
    ],
)
def test_the_largest_numbers_cost_nothing(tmp_path: Path, command: list[str]) -> None:
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD | SampleType.CALLCHAIN)
    builder = PerfDataBuilder(attrs=[attr])
    builder.record(records.Comm(0, 0xFFFFFFFF, 0xFFFFFFFF, "most"))
    builder.record(records.Mmap(0, 0xFFFFFFFF, 0xFFFFFFFF, ALL - 4096, ALL, ALL, "/bin/most"))
    for task in (0, -1, 0x7FFFFFFF, -0x80000000):
        for value in (0, 1 << 63, ALL):
            builder.sample(ip=value, pid=task, tid=task, time=value, cpu=task, period=value, callchain=[value, ALL - 511, value])
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    result = run(*command, "-i", str(path))
    assert result.returncode == 0, result.stderr
    assert "error" not in result.stderr
