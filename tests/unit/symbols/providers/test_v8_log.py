"""V8's log of code: lines and inlined functions, and logs that are damaged."""

from __future__ import annotations

import random

import pytest

from perfpy.symbols.providers.jit_lines import CodeLine, InlinedCall, InlinedCode
from perfpy.symbols.providers.v8_log import V8Log

SOURCE = r"let x = 1;\nfunction scale(x) { // \u20ac\x2C \\\\n\n  return x * 3;\n}\nfunction mix(a) {\n  return scale(a);\n}\n"
#: scale is inlined into mix: from offset 64 to 80 of its code
LOG = rf"""v8-version,11,3,244,8,-node.38,0
code-creation,JS,10,5,0x100,19,scale file:///app/a%20b.js:2:15,0xa1,~
script-source,7,file:///app/a%20b.js,{SOURCE}
code-source-info,0x100,7,26,60,C0O50,,
code-creation,JS,10,6,0x200,19,mix file:///app/a%20b.js:5:13,0xa2,~
code-source-info,0x200,7,80,100,C0O86,,
code-creation,JS,13,7,0x5000,200,mix file:///app/a%20b.js:5:13,0xa2,*
code-source-info,0x5000,7,80,100,C0O86C64O46I0C70O48I0C80O86,F0O86,S0xa1
"""
NAME = "JS:*mix file:///app/a%20b.js:5:13"
PATH = "/app/a b.js"


def test_code_has_lines_and_the_functions_inlined_there() -> None:
    code = V8Log(LOG).take(0x5000, 200, NAME)
    assert code is not None
    assert code.lines == tuple(CodeLine(0x5000 + offset, PATH, line) for offset, line in ((0, 6), (64, 3), (70, 3), (80, 6)))
    call = InlinedCall("JS:*scale file:///app/a%20b.js:2:15", PATH, 6)
    assert code.inlined == (InlinedCode(0x5000 + 64, 0x5000 + 80, (call,)),)


@pytest.mark.parametrize("key", [(0x5001, 200, NAME), (0x5000, 201, NAME), (0x5000, 200, NAME.replace("mix", "fix"))])
def test_other_code_is_not_taken(key: tuple[int, int, str]) -> None:
    assert V8Log(LOG).take(*key) is None


def test_code_at_one_address_is_taken_in_order_and_only_if_all_of_it_has_positions() -> None:
    again = LOG.split("code-creation,JS,13")[1].replace("C0O86C64O46I0C70O48I0C80O86", "C8O86")
    log = V8Log(LOG + "code-creation,JS,13" + again)
    first, second = log.take(0x5000, 200, NAME), log.take(0x5000, 200, NAME)
    assert first is not None
    assert second is not None
    assert (len(first.lines), len(second.lines)) == (4, 1)
    assert log.take(0x5000, 200, NAME) is None
    assert V8Log(LOG + "code-creation,JS,13" + again.partition("\n")[0]).take(0x5000, 200, NAME) is None


def test_inlined_code_of_an_unknown_function_has_no_line() -> None:
    code = V8Log(LOG.replace("S0xa1", "S0xa9")).take(0x5000, 200, NAME)
    assert code is not None
    assert [line.address - 0x5000 for line in code.lines] == [0, 80]
    assert code.inlined == ()


def test_functions_inlined_into_themselves_end() -> None:
    assert V8Log(LOG.replace("F0O86", "F0O86I0")).take(0x5000, 200, NAME) is not None


def test_damaged_logs_raise_nothing() -> None:
    for seed in range(300):
        chance, text = random.Random(seed), list(LOG)
        for _ in range(chance.choice((1, 5, 50))):
            text[chance.randrange(len(text))] = chance.choice("0123456789,CIOFSx\\\n*")
        V8Log("".join(text)[: chance.randrange(len(text)) if seed % 2 else None]).take(0x5000, 200, NAME)
