"""Tests that perfpy has perf's options, and prints what perf prints with rare and ordinary ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.option_parsing import Parser
from perfpy.cli.line.subcommands import CommandWithActions
from tests.builders.own_corpus import comparable, surroundings, unpack
from tests.builders.patient_perf import patient
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses

# Tests that every option of perf is an option of perfpy, too, or is refused by name.


_OPTION = re.compile(r"^ {4}(?:-(?P<letter>\w), |    )--(?P<word>[\w-]+)", re.MULTILINE)
#: commands of perfpy alone, and perf's archive, a shell script that lists no options
OURS_ALONE = {"help", "version", "archive", "export", "latency", "leaks", "stacks", "view", "why"}


def options_of_perf(perf: str, command: str) -> set[str]:
    """Return the spellings that `perf COMMAND -h` lists."""
    errors = subprocess.run([perf, command, "-h"], capture_output=True, text=True, check=False).stderr
    result = set()
    for match in _OPTION.finditer(errors):
        result.add(f"--{match['word']}")
        if match["letter"]:
            result.add(f"-{match['letter']}")
    return result


@pytest.mark.versus_perf
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_every_option_of_perf_is_known(name, perf):
    spellings = {spelling for option in load_command(name).options for spelling in option.spellings}
    theirs = options_of_perf(perf, name)
    assert theirs
    assert sorted(theirs - spellings) == []


def documented_options(name: str) -> set[str]:
    """Return the options that help compatibility lists as perfpy's own."""
    text = (Path(__file__).parents[2] / "man" / "topics" / "compatibility.md").read_text()
    section = text.partition("## Options that only perfpy has")[2].partition("\n## ")[0]
    return set(re.findall(r"`(-[^` ]+)`", "".join(line for line in section.splitlines() if line.startswith(f"| `{name}` |"))))


def is_refused(perf: str, name: str, spelling: str) -> bool:
    """Whether perf does not know an option. The second one ends it before it does anything."""
    done = subprocess.run([perf, name, spelling, "--no-such-option"], capture_output=True, timeout=60, check=False)
    return re.search(rf"unknown (option|switch) `{spelling.lstrip('-')}'".encode(), done.stderr) is not None


@pytest.mark.versus_perf
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_options_that_perf_refuses_are_documented_as_perfpys_own(name, perf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = load_command(name)
    options = command.own_options if isinstance(command, CommandWithActions) else command.options
    spellings = {spelling for option in options if not option.kind.lacking for spelling in option.spellings}
    own = {spelling for spelling in spellings - options_of_perf(perf, name) if is_refused(perf, name, spelling)}
    assert sorted(own - documented_options(name)) == []


@pytest.mark.versus_perf
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_prefixes_of_perfs_options_mean_the_same_as_in_perf(name, perf):
    """--ev is --event, although perfpy has --event-files. Before an action, only the command's own options count: kvm --in is --input."""
    theirs = [spelling[2:] for spelling in options_of_perf(perf, name) if spelling.startswith("--")]
    command = load_command(name)
    own_options = command.own_options if isinstance(command, CommandWithActions) else command.options
    own = Parser(own_options, stops_at_word=True)
    wrong = []
    for word in theirs:
        for begun in (word[:size] for size in range(2, len(word))):
            if not begun.startswith("no") and [other for other in theirs if other.removeprefix("no-").startswith(begun)] == [
                word
            ]:  # --no-X undoes X
                is_own = any(spelling.startswith(begun) for one in own_options for spelling in one.words)
                option, _ = (own if is_own else command.parser([]))._find(begun)
                wrong += [] if word in option.words else [begun]
    assert wrong == []


@pytest.mark.versus_perf
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_letters_have_perfs_meaning(name, perf):
    errors = subprocess.run([perf, name, "-h"], capture_output=True, text=True, check=False).stderr
    pairs = {match["word"]: match["letter"] for match in _OPTION.finditer(errors)}
    ours = {word: option.letters for option in load_command(name).options for word in option.words}
    differing = {word: (letter, ours[word]) for word, letter in pairs.items() if letter and word in ours and letter not in ours[word]}
    assert differing == {}


# Tests that perfpy prints what perf prints with rare options, for our own recordings.


CHECKOUT = Path(__file__).resolve().parents[2]
LINES = (
    "report --group --group-sort-idx 9 -i group-leader.data",
    "report --group --group-sort-idx 1 -i group-leader.data",
    "report --socket-filter 0 -i wide.data",
    "report --socket-filter 0 -C 1 -i wide.data",
    "report -S 0x1149 -i cpu-clock.data",
    "report -S main,0x1149 -i cpu-clock.data",
    "script -C 0 -i wide.data",
    "script --addr2line /usr/bin/addr2line -i cpu-clock.data",
)
REFUSED = (
    "script -C 999 -i wide.data",
    "report --prefix-strip 2 -i cpu-clock.data",
    "report -g nothing -i chains.data",
)
SEARCH = re.compile(r"vmlinux_path|inconsistency|^Using |not found, continuing|^Failed to open|^Can't|^No kallsyms|bpf_prog_info|btf ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    unpack(path)
    return path


def answer(command: list[str], line: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **surroundings(folder), "PYTHONPATH": str(CHECKOUT)}
    return run([*command, *line.split()], cwd=folder, env=environment)


@pytest.mark.versus_perf
@pytest.mark.parametrize("line", LINES)
def test_the_text_is_perfs(line: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert comparable(ours.stdout) == comparable(theirs.stdout) != b""
    assert ours.returncode == theirs.returncode == 0


@pytest.mark.versus_perf
@pytest.mark.parametrize("line", REFUSED)
def test_refused_as_by_perf(line: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert theirs.returncode != 0
    assert ours.returncode in (129, 255)
    assert (theirs.stdout, ours.stdout) == (b"", b"")
    assert len(ours.stderr.splitlines()) == 1


@pytest.mark.versus_perf
@pytest.mark.parametrize("line", ["script -v -i wide.data", "script -v -i cpu-clock.data", "report -v -i build-id-all.data"])
def test_the_output_of_verbose_about_the_file(line: str, folder: Path, perf: str) -> None:
    theirs, ours = (answer(command, line, folder).stderr.decode().splitlines() for command in ([perf], PERFPY))
    lines = [text for text in theirs if not SEARCH.search(text)]
    assert lines
    assert ours[: len(lines)] == lines


@pytest.mark.versus_perf
def test_quiet_prints_nothing_about_the_file(folder: Path) -> None:
    assert answer(PERFPY, "script -v -q -i wide.data", folder).stderr == b""


@pytest.mark.versus_perf
def test_a_missing_socket(folder: Path) -> None:
    result = answer(PERFPY, "report --socket-filter 7 -i wide.data", folder)
    assert (result.returncode, b"--socket-filter 7" in result.stderr) == (255, True)


@pytest.mark.versus_perf
@pytest.mark.parametrize(
    ("line", "expected", "unwanted"), [("stat -h interval", "--interval-print", "--repeat"), ("stat -h -I", "-I,", "--table")]
)
def test_help_about_a_word(line: str, expected: str, unwanted: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert expected in ours.stdout.decode()
    assert unwanted not in ours.stdout.decode()
    assert ours.returncode == theirs.returncode == 129


@pytest.mark.versus_perf
def test_help_about_an_unknown_word(folder: Path) -> None:
    assert b"no option matches nosuchword" in answer(PERFPY, "report -h nosuchword", folder).stdout


# Tests that ordinary command lines in a pipe print perf's messages on standard error, or nothing.


PROGRAM = "sh -c true"
READING = [
    "report",
    "report --stdio",
    "report --stdio -g",
    "report --stdio --no-children",
    "report -i dwarf.data --no-children",
    "report -i old.data --sort comm,dso",
    "report --stdio -n --percent-limit 5",
    "report --stdio --comms python3",
    "report --stdio --pid 1",
    "report --stdio -S nosuch",
    "report --stdio --symbol-filter nosuch",
    "report --stdio --dsos nosuch --percentage relative",
    "report --stdio -g caller --max-stack 3",
    "report --header-only",
    "report --header --stdio",
    "report -D",
    "report --stats",
    "report --tasks",
    "script",
    "script -i dwarf.data",
    "script -i old.data -F comm,tid,time,event,ip,sym",
    f"script --comms {Path(sys.executable).name}",
    "script -F +srcline --max-stack 1",
    "script --show-mmap-events",
    "script --header",
    "evlist",
    "evlist -v",
    "diff old.data perf.data",
    "diff old.data perf.data -s comm",
    "buildid-list",
    "list sw",
    "list hw cache",
]
MEASURING = [
    f"record {PROGRAM}",
    f"record -g {PROGRAM}",
    f"record -e cycles -F 999 {PROGRAM}",
    f"record -e cpu-clock -g {PROGRAM}",
    f"record -a {PROGRAM}",
    f"record --call-graph dwarf {PROGRAM}",
    f"record -q {PROGRAM}",
    f"stat -e task-clock,page-faults {PROGRAM}",
    f"stat -x, -e task-clock {PROGRAM}",
    f"stat -r 2 -e task-clock {PROGRAM}",
]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Path:
    """Record with perf a program with many callchains of one frame and some files without symbols."""
    folder = tmp_path_factory.mktemp("recordings")
    work = [*at_fixed_addresses(), sys.executable, "-c", "import json; [json.dumps(str(i)) for i in range(100_000)]"]
    for name, options in (("perf.data", ["-g"]), ("old.data", []), ("dwarf.data", ["--call-graph", "dwarf,4096"])):
        record = [perf, "record", "-q", "-e", "cpu-clock", "-F", "499", *options, "-o", str(folder / name), "--", *work]
        subprocess.run(record, check=True, capture_output=True, timeout=120)
    return folder


def said(command: list[str], line: str, folder: Path) -> list[str]:
    """Return the messages of a command line, without numbers, which vary between runs, and blanks, which numbers move.

    The line that another event is sampled is left out: perf says nothing.
    """
    words = [*command, *line.split()]
    process = run(words, cwd=folder, timeout=120, env=patient(folder))
    text = process.stderr.decode(errors="replace").replace("(null)", "-")  # what perf 6.12 calls the pipe
    without_samples = re.sub(r" \(~?\d+ samples\)", "", text)  # of so short a program there may be none
    lines = [each for each in without_samples.splitlines() if not each.startswith("no hardware cycle counter here")]
    return [" ".join(re.sub(r"[\d.,]+(?: usec| msec)?", "N", each).split()) for each in lines if each.strip()]


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.parametrize("line", READING)
def test_readers_print_perfs_messages_or_none(line: str, recordings: Path, perf: str) -> None:
    ours = said(PERFPY, line, recordings)
    if ours:
        assert ours == said([perf], line, recordings)


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.parametrize("line", MEASURING)
def test_measuring_commands_print_perfs_messages_or_none(line: str, tmp_path: Path, perf: str) -> None:
    ours = said(PERFPY, line, tmp_path)
    if ours:
        assert ours == said([perf], line, tmp_path)


@pytest.mark.live
@pytest.mark.versus_perf
def test_there_are_many_lines() -> None:
    assert len({*READING, *MEASURING}) >= 40
