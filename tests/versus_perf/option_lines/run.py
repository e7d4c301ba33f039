"""Every option of perf, tried with perf and with perfpy: python tests/versus_perf/option_lines/run.py [WORD...]

Input: options.txt beside this file. Output: a row for each option
(must, should or could; same, differs, refused), what differs with -v, and the
totals. WORD: only options whose row has it. Both commands run each line in a
copy of the same folder, into which perf recorded the inputs (inputs.sh);
perfpy is called by the name perf.

How lines are compared: the exit status always; standard output and error

    exact     output byte for byte; of errors only whether there are any
    live      the same, numbers and blanks left aside
    numbers   both output and errors, numbers and blanks left aside
    names     as `numbers`, of `stat -x, -e LINE true`
    attrs     as `live`, and what perf says of the recording that was made

Where both refuse, errors are compared for being there: their words are ours, and
perf's status for a bad argument is 129, 234, 255 or another by chance. A line after
"!" is exact. Live lines that differ get a second and a third try.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST = HERE / "options.txt"
TAGS = ("must", "should", "could")
VERDICTS = ("same", "ours", "differs", "refused")
_LIMIT = 25  # seconds for one line
_TRIES = 3
_BLANKS = re.compile(r"[ \t]+")
_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
_BARS = re.compile("#{2,}")
_UNIT = re.compile(r"\bN? ?[KMG]?/sec")
_TIP = re.compile(r"^#\n# \(Tip: .*\n#\n", re.MULTILINE)  # one of many, by chance
# perf 6.12 says so of what it never wrote
_INLINED_REST = "[...] (inlined)"
_VERSION = re.compile(r"perf version 6\.12\.\S+( \(perf \S+\))?")


@dataclass
class Line:
    """One command line, as a shell takes it; how: see above."""

    text: str
    how: str


@dataclass
class Row:
    """An option."""

    command: str
    tag: str
    name: str
    lines: list[Line] = field(default_factory=list)
    reason: str = ""


@dataclass
class Answer:
    """What came of a line."""

    status: int
    output: str
    errors: str


def rows(text: str) -> list[Row]:
    """The list, read."""
    results: list[Row] = []
    command = how = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            command, how = line[1:-1].split()
        elif not line.startswith(" "):
            tag, name = line.split(" ", 1)
            results.append(Row(command, tag, name))
        elif line.strip().startswith("= "):
            results[-1].reason = line.strip()[2:]
        else:
            results[-1].lines.append(_line(line.strip(), command, how))
    return results


def _line(text: str, command: str, how: str) -> Line:
    if text.startswith("!"):
        text, how = text[1:].strip(), "exact"
    if text.startswith("$"):
        return Line(text[1:] if text[1] == " " or text[1:].startswith("PERF_") else text, how)
    if text == "(nothing)":
        text = ""
    if how == "names":
        return Line(f"$P stat -x, -e {text} true" if " -e " in text else f"$P stat -x, -e '{text}' true", how)
    if how == "attrs":
        return Line(f"$P record -o p.data {text}; s=$?; attrs; exit $s", how)
    return Line(f"$P {command} {text}", how)


class Runner:
    """Runs lines with one of the two commands, each in a folder of its own."""

    def __init__(self, program: str, perf: str, inputs: Path, folder: Path) -> None:
        self._program = program
        self._perf = perf
        self._inputs = inputs
        self._folder = folder

    def run(self, line: Line) -> Answer:
        """The line's answer; a line that takes too long has the status of timeout(1)."""
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir()
        for result in self._inputs.iterdir():
            (self._folder / result.name).symlink_to(result)
        places = {"P": self._program, "R": self._perf, "HOME": str(self._folder / "home"), "LC_ALL": "C", "TZ": "UTC", "COLUMNS": "80"}
        command = ["timeout", "-k", "2", str(_LIMIT), "bash", "-c", f". {HERE}/attrs.sh; {line.text}"]
        with (self._folder / ".out").open("w+b") as out, (self._folder / ".err").open("w+b") as err:
            status = subprocess.run(
                command, cwd=self._folder, env={**os.environ, **places}, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
            ).returncode
            for stream in (out, err):
                stream.seek(0)
            return Answer(status, *(self._own(stream.read().decode("utf-8", "replace")) for stream in (out, err)))

    def _own(self, text: str) -> str:
        """The text without what names the command or its folder."""
        text = text.replace(str(self._folder), "FOLDER")
        for name in (self._program, self._perf, "perfpy"):
            text = text.replace(name, "perf")
        return _VERSION.sub("perf version 6.12", _TIP.sub("", text)).replace(_INLINED_REST, "[...]")


def _refuses(status: int) -> bool:
    """Whether it is the status of an error, and of no signal."""
    return status not in (0, 124, 130, 137, 141, 143)


def _without_numbers(text: str) -> str:
    lines = (_BLANKS.sub(" ", _UNIT.sub("/sec", _BARS.sub("##", _NUMBER.sub("N", line)))).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def differences(line: Line, theirs: Answer, ours: Answer) -> list[str]:
    """In what they differ, in words."""
    results = []
    refuse = _refuses(theirs.status) and _refuses(ours.status)
    if theirs.status != ours.status and not refuse:
        results.append(f"status {theirs.status}, ours {ours.status}")
    output = (lambda text: text) if line.how == "exact" else _without_numbers
    if output(theirs.output) != output(ours.output):
        results.append("output: " + _first_difference(output(theirs.output), output(ours.output)))
    if refuse or line.how in ("exact", "live", "attrs"):
        if bool(theirs.errors.strip()) != bool(ours.errors.strip()):
            results.append(f"errors {theirs.errors.strip()[:200]!r}, ours {ours.errors.strip()[:200]!r}")
    elif _without_numbers(theirs.errors) != _without_numbers(ours.errors):
        results.append("errors: " + _first_difference(_without_numbers(theirs.errors), _without_numbers(ours.errors)))
    return results


def _first_difference(theirs: str, ours: str) -> str:
    left, right = theirs.splitlines(), ours.splitlines()
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return f"line {number + 1}: {one[:160]!r}, ours {other[:160]!r}"
    rest = (left if len(left) > len(right) else right)[min(len(left), len(right)) :]
    return f"{len(left)} lines, ours {len(right)}" + (f"; first {rest[0][:160]!r}" if rest else "")


def try_line(line: Line, perf: Runner, perfpy: Runner) -> tuple[str, list[str]]:
    """The verdict on a line, and why."""
    results: list[str] = []
    for _ in range(1 if line.how == "exact" else _TRIES):
        theirs, ours = perf.run(line), perfpy.run(line)
        results = differences(line, theirs, ours)
        if not results:
            return "same", []
        if results[0].startswith("status"):
            break  # no chance in that
    refused = theirs.status == 0 and ours.status in (129, 255) and not ours.output
    return ("refused" if refused else "differs"), results


def verdict(row: Row, perf: Runner, perfpy: Runner, *, verbose: bool) -> str:
    """The worst of its lines."""
    worst = "same"
    for line in row.lines:
        result, reasons = try_line(line, perf, perfpy)
        worst = max(worst, result, key=VERDICTS.index)
        for reason in reasons if verbose else ():
            print(f"      {line.text}\n          {reason}")
    return "ours" if row.reason and worst != "same" else worst


def totals(counted: Counter[tuple[str, str]]) -> str:
    """A table: tags down, verdicts across."""
    lines = ["".join(["        ", *(f"{name:>9}" for name in VERDICTS), "       of"])]
    for tag in TAGS:
        numbers = [counted[tag, name] for name in VERDICTS]
        lines.append("".join([f"{tag:8}", *(f"{number:9}" for number in numbers), f"{sum(numbers):9}"]))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("-v", "--verbose", action="store_true", help="say in what lines differ")
    parser.add_argument("-c", "--command", default="", help="only this section")
    parser.add_argument("--perf", default=shutil.which("perf"))
    parser.add_argument("--perfpy", default=str(Path(sys.executable).with_name("perfpy")))
    options = parser.parse_args()
    counted: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="option-lines-") as name:
        folder = Path(name)
        inputs = folder / "inputs"
        inputs.mkdir()
        places = {**os.environ, "PERF": options.perf, "HERE": str(HERE), "HOME": str(folder)}
        subprocess.run(["bash", HERE / "inputs.sh"], cwd=inputs, env=places, check=True, stdout=subprocess.DEVNULL)
        in_its_place = folder / "perf"
        in_its_place.symlink_to(options.perfpy)
        perf, perfpy = (Runner(program, options.perf, inputs, folder / "run") for program in (options.perf, str(in_its_place)))
        for row in rows(LIST.read_text()):
            if (options.command in ("", row.command)) and all(word in row.name for word in options.words):
                result = verdict(row, perf, perfpy, verbose=options.verbose)
                counted[row.tag, result] += 1
                print(f"{row.command:14}{row.tag:8}{result:9}{row.name}" + (f" ({row.reason})" if result == "ours" else ""), flush=True)
    print(totals(counted))
    return 0


if __name__ == "__main__":
    sys.exit(main())
