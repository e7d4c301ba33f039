"""Draw README's picture: what `perfpy python3 app.py` shows on a terminal, as SVG.

    .venv/bin/python .github/picture.py        writes .github/report.svg

The script records a small program each time. The picture needs no fonts and nothing else from a network.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, LINES = 100, 40
SHOWN = 40
PROGRAM = """
import json, re

class Parser:
    def words(self, text):
        return re.findall(r"\\w+", text)

    def tree(self, text):
        return json.loads(json.dumps({word: len(word) for word in self.words(text)}))

def load(rounds):
    return [Parser().tree("lorem ipsum dolor sit amet " * 40) for _ in range(rounds)]

def summary(trees):
    return sum(sum(tree.values()) for tree in trees for _ in range(200))

print(summary(load(60000)))
"""
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def on_a_terminal(command: list[str], folder: str) -> str:
    """Return the text that a command writes to a terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execvpe(command[0], command, os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "PAGER": "cat"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    written = b""
    try:
        while piece := os.read(terminal, 65536):
            written += piece
    except OSError:  # the command has ended
        os.waitpid(pid, 0)
    lines = written.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines if not line.startswith(("\r", "reading samples")))  # no progress


def picture(screen: str, title: str) -> str:
    """Return text with its colours as SVG."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")  # noqa: SIM115
    console.print(Text.from_ansi(screen), no_wrap=True, crop=True)
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=FORMAT, unique_id="perfpy")
    return re.sub(r'(="-?\d+\.\d)\d+(?=")', r"\1", svg)  # a tenth of a pixel is enough


def main() -> None:
    """Record, show, draw."""
    here = Path(__file__).resolve().parent
    perfpy = [sys.executable, "-m", "perfpy"]
    environment = os.environ | {"PYTHONPATH": str(here.parent)}
    os.environ.update(environment)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(PROGRAM)
        screen = on_a_terminal([*perfpy, sys.executable, "app.py"], folder)
    screen = screen.replace("__main__.py", "perfpy").replace(sys.executable, "python3").lstrip()
    (here / "report.svg").write_text(picture("\n".join(screen.rstrip().splitlines()[:SHOWN]), "perfpy python3 app.py"))


if __name__ == "__main__":
    main()
