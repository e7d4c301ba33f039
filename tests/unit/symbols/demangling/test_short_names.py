"""Names with long lists of arguments are shown without them: operators, closures, Rust's paths and other languages' names stay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perfpy.symbols.demangling.short_names import CUT, shortened

_LINES = [line for line in Path(__file__).with_name("short_names.tsv").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
KNOWN = [tuple(line.split("\t")) for line in _LINES]
_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(("whole", "short"), KNOWN)
def test_a_known_name_is_shown_as_chosen(whole: str, short: str) -> None:
    assert shortened(whole) == short


def test_some_hundred_names_are_known() -> None:
    assert len(KNOWN) > 300
    assert sum(whole != short for whole, short in KNOWN) > 200


@pytest.mark.parametrize("whole", [whole for whole, _ in KNOWN])
def test_a_short_name_says_nothing_new_and_is_as_short_as_it_gets(whole: str) -> None:
    short = shortened(whole)
    assert shortened(short) == short
    if "basic_" in whole:
        return  # they are called std::string
    left = iter(whole)
    assert all(letter in left for letter in short.replace(CUT, ""))


def test_strings_are_called_by_their_name() -> None:
    assert shortened(f"open({_STRING})") == "open(std::string)"
    assert shortened(f"{_STRING}::reserve(unsigned long)") == "std::string::reserve(unsigned long)"


def test_a_list_within_a_short_list_is_left_out() -> None:
    assert shortened("f(std::vector<int, std::allocator<int> >&)") == "f(std::vector<…>&)"


@pytest.mark.parametrize(
    "part", ["f<", "(", ")", "<", ">", "f<a>", "a<b>(c)", "operator<", "<as ", " ", "f<(a as b>", "x::<", "{(", "operator ", "a, "]
)
def test_hostile_names_take_time_by_their_length_only(part: str) -> None:
    def seconds(length: int) -> float:
        name = (part * (length // len(part) + 1))[:length]
        took = []
        for _ in range(3):  # the least: what else goes on in this process counts, too
            before = time.process_time()
            shortened.__wrapped__(name)  # not what is remembered of it
            took.append(time.process_time() - before)
        return min(took)

    seconds(1000)
    assert seconds(160_000) < 40 * max(seconds(16_000), 0.004)


@pytest.mark.parametrize("whole", [whole for whole, _ in KNOWN[:80]])
def test_a_cut_name_is_no_error(whole: str) -> None:
    for end in range(len(whole)):
        assert len(shortened(whole[:end])) <= end
        shortened(whole[end:])
