"""`perfpy probe` beside perf 6.12: definitions, lines, variables and functions of one program."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf
DEFINITIONS = (
    *("cost", "cost+4", "cost:2", "cost:0", "co*", "shop.c:8", "twice", "twice n", "cost%return $retval", "cost;sum+=*", "main:3"),
    *(
        "cost it count why:string it->price it->name:string",
        "cost it->next->price it->sizes[2]",
        "cost count:x count:u8 why:x64",
        "cost %di",
    ),
    *("cost $params", "main argc argv", "mine:here=cost:2 count", "cost@shop.c", "cost:2@shop.c", "half n"),
)


@pytest.fixture(scope="module", params=["-O1 -g -no-pie", "-O2 -g -gdwarf-4", "-O0 -g"], ids=["O1", "O2 dwarf 4", "O0"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shop"), flags=request.param)


def both(shop: Path, *args: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return the exit status and standard output of perf and of perfpy."""
    environment = dict(os.environ, HOME=str(shop.parent), DEBUGINFOD_URLS="", LC_ALL="C")
    answers = []
    for command in (["perf"], [sys.executable, "-m", "perfpy"]):
        process = subprocess.run(
            [*command, "probe", "-x", str(shop), *args], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        answers.append((process.returncode, process.stdout))
    return answers[0], answers[1]


def test_definitions_are_perfs(shop: Path) -> None:
    arguments = [word for definition in DEFINITIONS for word in ("-D", definition)]
    theirs, ours = both(shop, *arguments)
    assert ours == theirs


@pytest.mark.parametrize(
    "args", [("-L", "cost"), ("-L", "shop.c:5-12"), ("-V", "cost"), ("-V", "cost:0", "--range"), ("-F",)], ids=" ".join
)
def test_lines_variables_and_functions_are_perfs(shop: Path, args: tuple[str, ...]) -> None:
    theirs, ours = both(shop, *args)
    assert ours == theirs


@pytest.mark.parametrize("text", ["nosuch", "cost nosuch", "cost+4096", "cost count:string", "cost it.price"])
def test_errors_have_perfs_status(shop: Path, text: str) -> None:
    theirs, ours = both(shop, "-D", text)
    assert ours[0] == theirs[0] != 0
