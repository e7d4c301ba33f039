"""Names of what instructions call, by the code objects of every interpreter of this machine."""

from __future__ import annotations

import random
import subprocess

import pytest

from perfpy.interpreters.frames import Instruction, decode_instructions, find_load_of_callee
from tests.builders.pythons import interpreter

#: Each line has one statement, and after it the names of what its calls call, the innermost call first; "-": no name that is sure.
CALLS = """
sorted(data)  # sorted
sorted(data, key=lambda value: -value)  # sorted
sep.join(map(str, data[0:2]))  # map join
obj.method(1, 2).other(a=3)  # method other
x(*data)  # x
x(1, *data, **{"a": 1})  # x
obj.method(data[0] + data[1] * 2, (1, 2), {"a": 3}, f"{sep!r:>3} {sep}")  # method
max(min(1, 2), len(data))  # min len max
(lambda value: value)(1)  # -
obj.method(1 if x else 2)  # -
(x if data else obj.method)(1)  # -
(x and obj.method)(2)  # -
if x: obj.method(3)  # method
table["f"](1)  # -
x()()  # x -
free(1)  # free
"""
#: prints the instructions as they are in memory after many runs, the names of both kinds, and the lines
PRINT = """
import dis
class Any:
    def __call__(self, *positional, **named): return self
    def __getattr__(self, name): return self
    def __iter__(self): return iter(())
source = '''def outer(free):
    def work(x, data, obj, sep, table):
''' + "".join("        " + line + "\\n" for line in CALLS.strip().split("\\n")) + '''    return work
'''
scope = {"sorted": Any(), "map": Any(), "max": Any(), "min": Any(), "len": Any()}
exec(source, scope)
work = scope["outer"](Any())
class Data(list): pass
for _ in range(100): work(Any(), Data([1, 2]), Any(), Any(), {"f": Any()})
code = work.__code__
variables = code.co_varnames + code.co_cellvars + code.co_freevars
print(repr((getattr(code, "_co_code_adaptive", code.co_code), code.co_names, variables, list(dis.findlinestarts(code)))))
"""
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def name_of(load: Instruction | None, version: tuple[int, int], names: tuple[str, ...], variables: tuple[str, ...]) -> str:
    if load is not None and load.name in ("LOAD_FAST", "LOAD_DEREF") and (version >= (3, 11) or load.name == "LOAD_FAST"):
        return variables[load.argument]
    if load is None or load.name not in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_NAME"):
        return "-"
    has_flag = (load.name == "LOAD_GLOBAL" and version >= (3, 11)) or (load.name == "LOAD_ATTR" and version >= (3, 12))
    return names[load.argument >> has_flag]


def code_of(version: str) -> tuple[bytes, tuple[str, ...], tuple[str, ...], list[tuple[int, int]]]:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    program = f"CALLS = {CALLS!r}\n{PRINT}"
    process = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    data: tuple[bytes, tuple[str, ...], tuple[str, ...], list[tuple[int, int]]] = eval(process.stdout)  # of our own program
    return data


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_have_the_names_that_were_loaded_for_them(version: str):
    data, names, variables, starts = code_of(version)
    major, minor = map(int, version.split("."))
    number = (major, minor)
    instructions = decode_instructions(data, number)
    lines, line = dict(starts), 0
    actual: dict[int, list[str]] = {}
    calls = ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX")
    for one in instructions:
        line = lines.get(one.offset, line)
        if one.name in calls:
            load = find_load_of_callee(instructions, one.offset)
            actual.setdefault(line - 3, []).append(name_of(load, number, names, variables))
    expected = {row: text.partition("  # ")[2].split() for row, text in enumerate(CALLS.strip().split("\n"))}
    if version in ("3.8", "3.9", "3.10"):  # names of free variables are elsewhere there
        expected[len(expected) - 1] = ["-"]
    assert actual == expected


def test_other_instructions_call_nothing():
    instructions = [Instruction(0, "LOAD_FAST", 0, 1), Instruction(2, "BINARY_OP", 0, -1), Instruction(4, "CALL", 3, -4)]
    assert [find_load_of_callee(instructions, offset) for offset in (0, 1, 2, 4, 6)] == [None] * 5


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 11), (3, 12), (3, 13), (3, 99)])
def test_any_bytes_are_decoded_and_searched(version: tuple[int, int]):
    for seed in range(60):
        instructions = decode_instructions(random.Random(seed).randbytes(301), version)
        for one in instructions:
            find_load_of_callee(instructions, one.offset)
