"""Names of others on pages, in paths and on terminals, and data that becomes larger."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import tracemalloc
import unicodedata
import zlib
from typing import IO, TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.untrusted import files
from perfpy.untrusted.expansion import ExpansionError, allowance, expand
from perfpy.untrusted.files import UnsafeNameError
from perfpy.untrusted.page import Base64, page_json
from perfpy.untrusted.terminal import Painted, Terminal, control, escape_of, guard_terminal
from perfpy.untrusted.text import lines, one_line, one_line_bytes, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# JSON for a script element.


def test_nothing_in_a_text_ends_the_element() -> None:
    text = page_json({"</script>": ["<!--", "\u2028&"]})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"</script>": ["<!--", "\\u2028&"]}


@pytest.mark.parametrize("text", ["</script>", "QUJD\n", "QU JD", "\u202e", "===", "QUJD-_"])
def test_only_base64_is_taken_for_base64(text: str) -> None:
    with pytest.raises(ValueError, match="no base64"):
        Base64(text)
    assert page_json({"z": Base64("QUJD+/==")}) == '{"z":"QUJD+/=="}'


# Names that others chose stay below the folder that they belong in.


ID = "ab" * 20
OUTSIDE = ["../x", "/a/../../x", "memfd:x/../../..", "/memfd:../../.. (deleted)/../x", "..", ".", "a/./b", "", "/", "//", "a\0b"]


@pytest.mark.parametrize("name", [*OUTSIDE, "x" * 256, "x/" * 2100])
def test_unsafe_names_are_refused(name: str):
    with pytest.raises(UnsafeNameError):
        files.below("/folder", name)
    with pytest.raises(UnsafeNameError):
        files.home_parts(name, ID)


@pytest.mark.parametrize("name", ["/bin/ls", "[vdso]", "[kernel.kallsyms]", "//anon", "/memfd:x (deleted)", "/a/..b/c..", "/é", "/\udcff"])
def test_safe_names_stay_below_the_folder(name: str):
    path = files.below("/folder", name)
    assert path.startswith("/folder/")
    assert path.endswith(name.lstrip("/"))
    assert files.home_parts(name, ID) == [*name.strip("/").split("/"), ID]


def test_the_folder_may_be_the_root():
    assert (files.below("", "/a/b"), files.below("/", "a")) == ("/a/b", "/a")


@pytest.mark.parametrize("text", ["", "a", "ab", "../..", "AB" * 20, "ab" * 65, "xy" * 20, "abc", "/etc", "ab" * 19 + "/."])
def test_only_hexadecimal_digits_are_a_build_id(text: str):
    for make in (
        files.build_id_hex,
        files.index_parts,
        lambda text: files.build_id_path("/c", text),
        lambda text: files.home_parts("/x", text),
    ):
        with pytest.raises(UnsafeNameError):
            make(text)


def test_paths_of_the_build_id_index():
    assert files.build_id_path("/c", ID, "elf") == f"/c/.build-id/ab/{ID[2:]}/elf"
    assert files.debug_file("/usr/lib/debug", ID) == f"/usr/lib/debug/.build-id/ab/{ID[2:]}.debug"


def test_no_program_path_collides_with_the_index():
    with pytest.raises(UnsafeNameError):
        files.home_parts("/.build-id/ab/cd", ID)


@pytest.mark.parametrize("link", ["../../etc/shadow", "/etc/shadow", "..", ""])
def test_a_debuglink_is_a_name_without_folders(link: str):
    with pytest.raises(UnsafeNameError):
        list(files.debuglinks("", "/usr/lib/debug", "/bin/ls", link))
    assert next(files.debuglinks("/root", "/usr/lib/debug", "/bin/ls", "ls.debug")) == "/root/bin/ls.debug"


@pytest.mark.parametrize("name", ["../../../../tmp/x", "a/b", ".."])
def test_a_module_is_a_name_without_folders(name: str):
    with pytest.raises(UnsafeNameError):
        files.module_notes(name)


def test_a_refusal_can_be_printed_on_any_terminal():
    with pytest.raises(UnsafeNameError) as refusal:
        files.below("/c", "../\x1b]0;title\x07")
    assert str(refusal.value).isprintable()


# Names as text that does nothing.


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("main", "main"),
        ("größe 漢字 ✓", "größe 漢字 ✓"),
        ("\x1b[31m", "^[[31m"),
        ("\x00\x07\x7f", "^@^G^?"),
        ("a\tb\nc\r", "a^Ib^Jc^M"),
        ("\u0085\u009b5n", "\\x85\\x9b5n"),
        ("\udc9b\udcff", "\\x9b\\xff"),
        ("a\u202eb\u2066\u200b\ufeff\u2028", "a\\u202eb\\u2066\\u200b\\ufeff\\u2028"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_invisible_characters_are_escaped(name: str, output: str) -> None:
    assert visible(name) == output


def test_no_format_characters_remain() -> None:
    """Of all characters: what Unicode calls a control, or an embedding, an override, an isolate or a mark of direction."""
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}
    remaining = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if (unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(chr(code)) in directions)
        and visible(chr(code)) == chr(code)
        and unicodedata.category(chr(code)) != "Cn"
    ]
    assert remaining == []
    assert not any(chr(code).isprintable() for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xFEFF))


def test_one_line_escapes_only_line_breaks() -> None:
    assert one_line("a\nb\rc\x1b\t") == "a^Jb^Mc\x1b\t"
    assert one_line_bytes(b"a\nb\rc\x1b\xff") == b"a^Jb^Mc\x1b\xff"
    assert list(lines(["a", "b\nc", ""])) == ["a\n", "b^Jc\n", "\n"]


# The door to a terminal.


class Screen:
    """A terminal, as the program that writes to it has it, and what arrived there."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        modes = termios.tcgetattr(slave)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self.plain = open(slave, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115  # closed by close
        self.stream: IO[str] = guard_terminal(self.plain)

    def arrived(self) -> bytes:
        self.stream.flush()
        pieces = []
        while select.select([self._master], [], [], 0.1)[0]:
            pieces.append(os.read(self._master, 1 << 16))
        return b"".join(pieces)

    def close(self) -> None:
        self.plain.close()
        os.close(self._master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    drawing = Screen()
    yield drawing
    drawing.close()


def test_line_feeds_and_tabs_pass(screen: Screen) -> None:
    print("a\tb\nc \x1b]0;x\x07 \x9b \udc9b \u202e é", file=screen.stream)
    assert screen.arrived() == "a\tb\nc ^[]0;x^G \\x9b \\x9b \\u202e é\n".encode()


def test_bytes_are_escaped_like_text(screen: Screen) -> None:
    buffer: IO[bytes] = screen.stream.buffer  # type: ignore[attr-defined]
    buffer.write(b"plain\n")
    buffer.write(b"\x1b[2J \xc2\x9b \x9b \xe2\x80\xae \xc3\xa9 \xed\xb0\x9b31m\n")  # at the end: a sign of ours, as bytes
    buffer.flush()
    assert screen.arrived() == "plain\n^[[2J \\x9b \\x9b \\u202e é \\xed\\xb0\\x9b31m\n".encode()


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "1"}, {"LC_ALL": "C.UTF-8"}, {"LANG": ""}])
def test_terminals_of_other_locales_get_ascii(locale: dict[str, str]) -> None:
    """LC_ALL=C is a locale of ASCII; without any setting, Python chooses C.UTF-8."""
    code = """if True:
        import sys
        from perfpy.untrusted.terminal import guard_terminal
        guarded = guard_terminal(sys.stdout)
        guarded.write("█▌▏ a → b… é ±2\\n")
        guarded.buffer.write("├ é\\n".encode())
        guarded.buffer.flush()
    """
    master, slave = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("LANG", "PYTHONUTF8", "PYTHONIOENCODING", *locale)}
    plain = {name: value for name, value in plain.items() if not name.startswith("LC_")}
    subprocess.run([sys.executable, "-c", code], env=plain | locale, stdout=slave, check=True, timeout=60)
    os.close(slave)
    text = os.read(master, 1 << 12).decode().replace("\r", "")
    os.close(master)
    assert text == ("##: a > b~ \\xe9 +-2\n+ \\xe9\n" if locale == {"LC_ALL": "C"} else "█▌▏ a → b… é ±2\n├ é\n")


def test_a_discarded_terminal_with_a_closed_stream_is_no_error(screen: Screen) -> None:
    buffer: IO[bytes] = screen.stream.buffer  # type: ignore[attr-defined]
    screen.plain.close()
    buffer.close()  # as its finaliser does
    assert buffer.closed


def test_lines_of_many_pieces_are_escaped_like_text(screen: Screen) -> None:
    screen.stream.writelines(["a\x1b\n", "b\x07\n"])
    assert screen.arrived() == b"a^[\nb^G\n"


def test_perfpys_control_sequences_pass(screen: Screen) -> None:
    control(screen.stream, "\r\x1b[K")
    screen.stream.write(f"{escape_of(screen.stream)}[31mred{escape_of(screen.stream)}[m \x1b[31m")
    Painted(screen.stream).write("\x1b[1mbold")
    assert screen.arrived() == b"\r\x1b[K\x1b[31mred\x1b[m ^[[31m\x1b[1mbold"


def test_no_bytes_decode_to_the_prefix_of_control_sequences() -> None:
    begin = escape_of(Terminal.__new__(Terminal))
    assert begin != "\x1b"
    every = bytes(range(256)) + bytes(a for b in range(256) for a in (0xED, 0xB0, b))
    assert begin not in every.decode("utf-8", "surrogateescape")


def test_other_streams_are_returned_unchanged(tmp_path: object) -> None:
    memory = io.StringIO()
    assert guard_terminal(memory) is memory
    control(memory, "\r\x1b[K")
    assert memory.getvalue() == "\r\x1b[K"
    assert escape_of(memory) == "\x1b"
    with open(os.devnull, "w") as file:
        assert guard_terminal(file) is file


def test_a_guarded_stream_is_returned_unchanged(screen: Screen) -> None:
    assert guard_terminal(screen.stream) is screen.stream


# Compressed bytes become what is inside, and never more than they may.


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.compress, "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd.compress}
KINDS = sorted(COMPRESS)
MB = 1 << 20


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=2000), times=st.integers(1, 50))
def test_compressed_data_round_trip(kind: str, data: bytes, times: int):
    assert expand(kind, COMPRESS[kind](data * times)) == data * times


@pytest.mark.parametrize("kind", KINDS)
def test_data_longer_than_a_piece_round_trip(kind: str):
    data = os.urandom(MB) + bytes(MB)
    assert expand(kind, memoryview(COMPRESS[kind](data))) == data


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_consecutive_parts_are_joined(kind: str):
    compress = COMPRESS[kind]
    assert expand(kind, compress(b"one") + compress(b"") + compress(b"two") + bytes(8)) == b"onetwo"


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_inclusive(kind: str):
    data = COMPRESS[kind](bytes(1000))
    assert expand(kind, data, 1000) == bytes(1000)
    with pytest.raises(ExpansionError, match="become more than 999"):
        expand(kind, data, 999)
    with pytest.raises(ExpansionError):
        expand(kind, data, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_data_beyond_the_limit_take_no_more_memory_than_the_limit(kind: str):
    bomb = COMPRESS[kind](bytes(64 * MB))
    tracemalloc.start()
    try:
        with pytest.raises(ExpansionError):
            expand(kind, bomb, MB)
        assert tracemalloc.get_traced_memory()[1] < 12 * MB  # the dictionary of xz takes 8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_data_cut_anywhere_are_refused(kind: str):
    data = COMPRESS[kind](b"some text, " * 20)
    for size in range(len(data)):
        with pytest.raises(ExpansionError):
            expand(kind, data[:size])


@pytest.mark.parametrize("kind", KINDS)
@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_damaged_data_raise_or_stay_within_the_limit(kind: str, at: int, bit: int):
    data = bytearray(COMPRESS[kind](os.urandom(150)))
    data[at % len(data)] ^= 1 << bit
    with contextlib.suppress(ExpansionError):
        assert len(expand(kind, bytes(data), 4096)) <= 4096


def test_a_dictionary_of_gigabytes_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    data = bytearray(lzma.compress(b"x", filters=filters))
    at = data.index(b"\x21\x01", 12)  # the filter's number and the size of its properties: one byte, the size of the dictionary
    data[at + 2] = 40  # 4 GB
    header = bytes(data[12 : 12 + (data[12] + 1) * 4 - 4])
    data[12 + len(header) : 12 + len(header) + 4] = struct.pack("<I", zlib.crc32(header))
    with pytest.raises(ExpansionError, match="emory"):
        expand("xz", bytes(data))


def test_thousands_of_empty_parts_are_refused():
    with pytest.raises(ExpansionError, match="parts"):
        expand("gzip", gzip.compress(b"") * 5000)


def test_the_allowance_grows_with_the_size_between_its_bounds():
    assert allowance(10) == 4 * MB
    assert allowance(MB) == 32 * MB
    assert allowance(100 * MB) == 256 * MB
