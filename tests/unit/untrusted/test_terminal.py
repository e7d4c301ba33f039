"""The door to a terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import termios
from typing import IO, TYPE_CHECKING

import pytest

from perfpy.untrusted.terminal import Painted, Terminal, control, escape_of, guard_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


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
