"""Tests that every option of perf is an option of perfpy, too, or is refused by name."""

from __future__ import annotations

import re
import subprocess

import pytest

from perfpy.cli.commands import COMMANDS, load_command

pytestmark = pytest.mark.versus_perf

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


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_every_option_of_perf_is_known(name, perf):
    spellings = {spelling for option in load_command(name).options for spelling in option.spellings}
    theirs = options_of_perf(perf, name)
    assert theirs
    assert sorted(theirs - spellings) == []


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_prefixes_of_perfs_options_mean_the_same_as_in_perf(name, perf):
    """--ev is --event, although perfpy has --event-files."""
    theirs = [spelling[2:] for spelling in options_of_perf(perf, name) if spelling.startswith("--")]
    parser = load_command(name).parser([])
    wrong = []
    for word in theirs:
        for begun in (word[:size] for size in range(2, len(word))):
            if not begun.startswith("no") and [other for other in theirs if other.removeprefix("no-").startswith(begun)] == [
                word
            ]:  # --no-X undoes X
                option, _ = parser._find(begun)
                wrong += [] if word in option.words else [begun]
    assert wrong == []


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS_ALONE))
def test_letters_have_perfs_meaning(name, perf):
    errors = subprocess.run([perf, name, "-h"], capture_output=True, text=True, check=False).stderr
    pairs = {match["word"]: match["letter"] for match in _OPTION.finditer(errors)}
    ours = {word: option.letters for option in load_command(name).options for word in option.words}
    differing = {word: (letter, ours[word]) for word, letter in pairs.items() if letter and word in ours and letter not in ours[word]}
    assert differing == {}
