"""The call stack of a bash, from its memory."""

from __future__ import annotations

import struct

import pytest

from perfpy.interpreters.bash import PROGRAM, BashProcess, ScriptFrame
from perfpy.interpreters.objects import UnreadableMemoryError
from tests.builders.python_memory import BASE, Heap


class Script(Heap):
    """The memory of a bash. head: the offset of ARRAY.head, which differs by version."""

    def __init__(self, head: int, arrays: dict[str, list[str]], *, buckets: int = 8) -> None:
        super().__init__()
        self.symbols = {name: self.new(64) for name in ("line_number", "line_number_for_err_trap", "global_variables")}
        chains = [0] * buckets
        for number, (name, values) in enumerate({"HOME": ["/root"], **arrays}.items()):
            variable = self.new(64)
            self.put(variable + 8, self._array(head, values))
            bucket = self.new(struct.pack("<QQQII", chains[number % buckets], self.new(name.encode() + b"\0"), variable, 0, 0))
            chains[number % buckets] = bucket
        self.table = self.new(struct.pack("<Qii", self.new(struct.pack(f"<{buckets}Q", *chains)), buckets, len(arrays)))
        context = self.new(64)
        self.put(context + 32, self.table)
        self.put(self.symbols["global_variables"], context)

    def _array(self, head: int, values: list[str]) -> int:
        first = self.new(32)
        elements = [first, *(self.new(32) for _ in values)]
        for number, element in enumerate(elements):
            text = self.new(values[number - 1].encode() + b"\0") if number else 0
            self.write(element, struct.pack("<qQQQ", number - 1, text, elements[(number + 1) % len(elements)], elements[number - 1]))
        array = self.new(64)
        self.put(array + head, first)
        return array

    def frames(self, *, has_started: bool = True) -> list[ScriptFrame]:
        return BashProcess(self, self.symbols).frames(has_started=has_started)


STACK = {"FUNCNAME": ["render", "main"], "BASH_SOURCE": ["lib.sh", "/srv/site.sh"], "BASH_LINENO": ["7", "0"]}


@pytest.mark.parametrize("head", [16, 24])
def test_frames_innermost_first(head: int) -> None:
    script = Script(head, STACK)
    script.put(script.symbols["line_number"], 3, 4)
    script.put(script.symbols["line_number_for_err_trap"], 4, 4)
    assert script.frames() == [ScriptFrame("render", "lib.sh", 4), ScriptFrame("", "/srv/site.sh", 7)]
    assert script.frames(has_started=False)[0].line == 3


def test_a_script_outside_of_functions_has_one_frame() -> None:
    script = Script(24, {"FUNCNAME": [], "BASH_SOURCE": ["build.sh"], "BASH_LINENO": ["0"]})
    script.put(script.symbols["line_number_for_err_trap"], 11, 4)
    assert script.frames() == [ScriptFrame("", "build.sh", 11)]


def test_variables_share_a_bucket() -> None:
    script = Script(16, STACK, buckets=1)
    assert [frame.file for frame in script.frames()] == ["lib.sh", "/srv/site.sh"]


def test_a_shell_that_has_not_begun_is_unreadable() -> None:
    with pytest.raises(UnreadableMemoryError):
        Script(16, {}).frames()


def test_misleading_memory_ends() -> None:
    script = Script(16, STACK, buckets=1)
    (first,) = struct.unpack("<Q", script.read(script.table, 8))
    (bucket,) = struct.unpack("<Q", script.read(first, 8))
    script.put(bucket, bucket)  # a circle
    with pytest.raises(UnreadableMemoryError):
        script.frames()
    script = Script(16, STACK)
    script.put(script.table, BASE + 8)
    script.put(script.table + 8, (1 << 31) - 1, 4)
    with pytest.raises(UnreadableMemoryError):
        script.frames()


def test_programs_that_are_bash() -> None:
    assert all(PROGRAM.fullmatch(name) for name in ("bash", "rbash", "sh", "bash5", "bash-5.2"))
    assert not any(PROGRAM.fullmatch(name) for name in ("dash", "zsh", "bashful", "fish"))
