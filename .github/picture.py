"""Draw the pictures of README and of `perfpy help screens`.

    .venv/bin/python .github/picture.py [NAME ...]   writes report.svg, top.svg, colours.svg, page.png and notebook.png beside itself

The script records small programs each time. report.svg is what `perfpy python3 app.py` shows on a terminal, top.svg what `perfpy top` does,
page.png a page in Chromium, notebook.png what `%%perfpy` shows below a cell, colours.svg the colours of pages. The pictures need no fonts
and nothing else from a network.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
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
#: three phases
STEPS = """
import json, re, time

def until(seconds, work):
    end = time.process_time() + seconds
    while time.process_time() < end:
        work()

def load():
    until(1, lambda: json.loads(json.dumps({word: len(word) for word in TEXT.split()})))

def count():
    until(1.5, lambda: {word: len(re.findall(word, TEXT)) for word in TEXT.split()[:8]})

def write():
    until(0.8, lambda: ",".join(repr(number / 7) for number in range(1000)))

TEXT = "lorem ipsum dolor sit amet " * 40
load(); count(); write()
"""
CELL = """import json, re, time
def squares(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total
text = json.dumps([{"a": i, "b": str(i)} for i in range(20000)])
for _ in range(20):
    squares(200000)
    json.loads(text); re.sub(r"[0-9]+", "x", text)
time.sleep(0.2)
"""
NAMES = ["report.svg", "top.svg", "colours.svg", "page.png", "notebook.png"]
PAGE = (1200, 760)  # pixels
CATEGORIES = "own code", "libraries", "interpreter", "runtime", "kernel", "unknown", "waiting"
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
    lines = written_by(command, folder).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines if not line.startswith(("\r", "reading samples")))  # no progress


def written_by(command: list[str], folder: str, *, quits_after: float = 0.0) -> str:
    """Return all that a command writes to a terminal; quits_after: seconds after which q is typed."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execvpe(command[0], command, os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "PAGER": "cat"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    if quits_after:
        threading.Timer(quits_after, os.write, (terminal, b"q")).start()
    written = b""
    try:
        while piece := os.read(terminal, 65536):
            written += piece
    except OSError:  # the command has ended
        os.waitpid(pid, 0)
    return written.decode()


def picture(screen: str, title: str) -> str:
    """Return text with its colours as SVG."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")  # noqa: SIM115
    console.print(Text.from_ansi(screen), no_wrap=True, crop=True)
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=FORMAT, unique_id="perfpy")
    return re.sub(r'(="-?\d+\.\d)\d+(?=")', r"\1", svg)  # a tenth of a pixel is enough


def colours(script: str) -> str:
    """Return the colours of pages, from their script, as SVG: on top of each other on white and on black."""
    rows = re.findall(r"^  (light|dark): \[(\[.*\])\],$", script, re.MULTILINE)
    tokens = {theme: re.findall(r"\[(\d+), (\d+), (\d+)\]", row) for theme, row in rows}
    lines = ['<svg viewBox="0 0 760 92" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13">']
    for row, (theme, ground, ink) in enumerate((("light", "#fff", "#16181d"), ("dark", "#14161b", "#e9eaed"))):
        lines.append(f'<rect y="{46 * row}" width="760" height="46" fill="{ground}"/>')
        for column, (name, (hue, saturation, light)) in enumerate(zip(CATEGORIES, tokens[theme], strict=True)):
            left, top = 12 + 107 * column, 46 * row
            lines.append(f'<rect x="{left}" y="{top + 8}" width="95" height="14" rx="2" fill="hsl({hue} {saturation}% {light}%)"/>')
            lines.append(f'<text x="{left}" y="{top + 37}" fill="{ink}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def top_screen(perfpy: list[str], folder: str) -> str:
    """Return the last screen of top for a Python program."""
    program = subprocess.Popen([sys.executable, "app.py"], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        written = written_by([*perfpy, "top", "--python", "-p", str(program.pid)], folder, quits_after=12)
    finally:
        program.kill()
        program.wait()
    rows = {int(row): text for row, text in re.findall(r"\x1b\[(\d+);1H(.*?)(?=\x1b\[\d+;1H|\x1b\[\?|$)", written, re.DOTALL)}
    shown = "\n".join(rows[row].replace("\x1b[K", "").replace(str(program.pid), "1234") for row in sorted(rows) if row < LINES)
    return re.sub(r"[/…][^ ]*/lib/python3", "/usr/lib/python3", shown.replace(folder, "/srv")).rstrip()


def notebook_picture(folder: str, file: Path) -> None:
    """Profile a cell as a notebook does, and write the picture of what the notebook shows."""
    from perfpy.profiling import profile_cell
    from tests.builders.browser import Browser
    from tests.live.test_profile import NotebookShell

    html = profile_cell(NotebookShell(), "", CELL)._repr_html_()
    page = Path(folder) / "notebook.html"
    page.write_text(f'<meta charset="utf-8"><body style="margin:12px;font:14px sans-serif">{html}')
    with Browser(Path(folder)) as browser:
        browser.size(900, 620)
        browser.call("Page.navigate", url=page.as_uri())
        browser.until("document.readyState === 'complete' && !!document.querySelector('table')")
        browser.picture(file)


def page_picture(perfpy: list[str], folder: str, file: Path) -> None:
    """Record a program, and write the picture of its page."""
    (Path(folder) / "steps.py").write_text(STEPS)
    subprocess.run(
        [*perfpy, "record", "-q", "-o", "perf.data", "--python", "-F", "500", sys.executable, "steps.py"], cwd=folder, check=True
    )
    page = Path(folder) / "page.html"
    subprocess.run([*perfpy, "report", "-q", "--html", str(page)], cwd=folder, check=True)
    text = re.sub(r"[^ \"]*__main__\.py", "perfpy", page.read_text()).replace(sys.executable, "python3").replace(f"{folder}/", "")
    page.write_text(text)
    from tests.builders.browser import Browser

    with Browser(Path(folder)) as browser:
        browser.open(page, width=PAGE[0], height=PAGE[1])
        browser.picture(file)


def main() -> None:
    """Record, show, draw."""
    here, wanted = Path(__file__).resolve().parent, sys.argv[1:] or NAMES
    sys.path.insert(0, str(here.parent))
    perfpy = [sys.executable, "-m", "perfpy"]
    environment = os.environ | {"PYTHONPATH": str(here.parent)}
    os.environ.update(environment)
    script = here.parent / "perfpy" / "views" / "page" / "scripts" / "model" / "categories.js"
    if "colours.svg" in wanted:
        (here / "colours.svg").write_text(colours(script.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(PROGRAM)
        if "page.png" in wanted:
            page_picture(perfpy, folder, here / "page.png")
        if "notebook.png" in wanted:
            notebook_picture(folder, here / "notebook.png")
        if "top.svg" in wanted:
            (here / "top.svg").write_text(picture(top_screen(perfpy, folder), "perfpy top --python -p 1234"))
        if "report.svg" in wanted:
            screen = on_a_terminal([*perfpy, sys.executable, "app.py"], folder)
            screen = screen.replace("__main__.py", "perfpy").replace(sys.executable, "python3").lstrip()
            (here / "report.svg").write_text(picture("\n".join(screen.rstrip().splitlines()[:SHOWN]), "perfpy python3 app.py"))


if __name__ == "__main__":
    main()
