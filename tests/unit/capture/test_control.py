"""--control, line by line: actions, messages and acknowledgements, as in perf 6.12."""

from __future__ import annotations

import os

import pytest

from perfpy.capture.control import Command, Control

ACK = b"ack\n\0"


class Controlled:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: list[str] = []
        self.tell = self.told.append

    def switch(self, on: bool, name: str) -> bool:
        self.done.append(f"{'on' if on else 'off'} {name}".strip())
        return name in ("", "cycles")

    def describe(self, option: str) -> str:
        return f"<{option}>"


@pytest.fixture
def fifos(tmp_path):
    os.mkfifo(tmp_path / "control")
    os.mkfifo(tmp_path / "ack")
    with Control(f"fifo:{tmp_path}/control,{tmp_path}/ack") as control:
        yield control, tmp_path


@pytest.mark.parametrize(
    ("line", "done", "messages"),
    [
        ("enable", ["on"], ["Events enabled"]),
        ("disable", ["off"], ["Events disabled"]),
        ("enable cycles", ["on cycles"], ["Event cycles enabled"]),
        ("disable nosuch", ["off nosuch"], ["failed: can't find 'nosuch' event"]),
        ("enablex", [], ["failed: wrong command"]),
        ("evlist", [], ["<>"]),
        ("evlist -v", [], ["<-v>"]),
        ("evlist -g", [], ["<-g>"]),
        ("evlist -F", [], ["<-F>"]),
        ("evlist -x", [], ["failed: wrong command"]),
        ("evlistx", [], ["failed: wrong command"]),
        ("snapshot", [], []),
        ("ping x", [], []),
        ("bogus", [], []),
    ],
)
def test_commands_act_and_answer(line, done, messages):
    controlled = Controlled()
    Command(line).obey(controlled)
    assert (controlled.done, controlled.told) == (done, messages)


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        *((line, 1) for line in (b"enable\n", b"disable nosuch\n", b"snapshot\n", b"evlistx\n", b"stop\n", b"ping\0", b"pingx\n")),
        *((line, 0) for line in (b"ack\n", b"bogus\n", b" ping\n", b"\n")),
        (b"ping\nping\n", 2),
        (b"x" * 3000 + b"\nping\n", 1),
    ],
)
def test_every_command_is_answered_and_nothing_else(fifos, line, answers):
    control, folder = fifos
    (folder / "control").write_bytes(line)
    for command in control.commands():
        control.acknowledge(command)
    fd = os.open(folder / "ack", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert os.read(fd, 100) == ACK * answers
    except BlockingIOError:
        assert answers == 0
    finally:
        os.close(fd)


def test_a_line_may_come_in_pieces(fifos):
    control, folder = fifos
    (folder / "control").write_bytes(b"pi")
    assert control.commands() == []
    (folder / "control").write_bytes(b"ng\n")
    assert [command.verb for command in control.commands()] == ["ping"]


def test_a_line_without_an_end_does_not_grow_forever(fifos):
    control, folder = fifos
    for _ in range(20):
        (folder / "control").write_bytes(b"x" * 999)
        control.commands()
    assert len(control._pending) < 2000


@pytest.mark.parametrize("gone", [True, False])
def test_unread_answers_do_not_block_the_measurement(gone, capsys):
    """A full pipe, and one that nobody reads: said, and gone on."""
    reading, writing = os.pipe()
    inward, outward = os.pipe()
    if gone:
        os.close(reading)
    else:
        os.set_blocking(writing, False)
        while True:
            try:
                os.write(writing, b"x" * 4096)
            except BlockingIOError:
                break
        os.set_blocking(writing, True)
    with Control(f"fd:{inward},{writing}") as control:
        control.acknowledge(Command("ping"))
    assert capsys.readouterr().err.startswith("cannot write an answer for --control: ")
    for fd in (writing, inward, outward, *(() if gone else (reading,))):
        os.close(fd)


def test_a_writer_that_reads_no_answer_is_reported_once(capsys):
    """A line for each of its commands would fill standard error."""
    reading, writing = os.pipe()
    inward, outward = os.pipe()
    os.close(reading)
    with Control(f"fd:{inward},{writing}") as control:
        for _ in range(5):
            control.acknowledge(Command("ping"))
    assert capsys.readouterr().err.count("cannot write an answer") == 1
    for fd in (writing, inward, outward):
        os.close(fd)
