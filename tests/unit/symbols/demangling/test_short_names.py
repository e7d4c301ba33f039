"""Names with long lists of arguments are shown without them: operators, closures, Rust's paths and other languages' names stay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perfpy.symbols.demangling.short_names import CUT, shorten_name

_LINES = [line for line in Path(__file__).with_name("short_names.tsv").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
KNOWN = [(whole, short) for whole, short in (line.split("\t") for line in _LINES)]
_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


def test_a_known_name_is_shown_as_chosen() -> None:
    assert {whole: shorten_name(whole) for whole, _ in KNOWN} == dict(KNOWN)


def test_some_hundred_names_are_known() -> None:
    assert len(KNOWN) > 300
    assert sum(whole != short for whole, short in KNOWN) > 200


def test_a_short_name_is_as_short_as_it_gets() -> None:
    names = [shorten_name(whole) for whole, _ in KNOWN]
    assert [shorten_name(short) for short in names] == names


def test_a_short_name_is_a_part_of_the_long_one() -> None:
    plain = [whole for whole, _ in KNOWN if "basic_" not in whole]  # those are called std::string
    assert [whole for whole in plain if not is_part(shorten_name(whole).replace(CUT, ""), whole)] == []


def is_part(short: str, whole: str) -> bool:
    """Whether the letters of one name are in the other, in the same order."""
    result = iter(whole)
    return all(letter in result for letter in short)


def test_strings_are_called_by_their_name() -> None:
    assert shorten_name(f"open({_STRING})") == "open(std::string)"
    assert shorten_name(f"{_STRING}::reserve(unsigned long)") == "std::string::reserve(unsigned long)"


def test_a_list_within_a_short_list_is_omitted() -> None:
    assert shorten_name("f(std::vector<int, std::allocator<int> >&)") == "f(std::vector<…>&)"


@pytest.mark.parametrize(
    "part", ["f<", "(", ")", "<", ">", "f<a>", "a<b>(c)", "operator<", "<as ", " ", "f<(a as b>", "x::<", "{(", "operator ", "a, "]
)
@pytest.mark.slow
def test_hostile_names_take_time_by_their_length_only(part: str) -> None:
    def seconds(length: int) -> float:
        name = (part * (length // len(part) + 1))[:length]
        before = time.process_time()
        shorten_name.__wrapped__(name)  # not what is remembered of it
        return time.process_time() - before

    seconds(1000)
    limit = 40 * max(0.004, min(seconds(16_000) for _ in range(3)))
    # The least of three counts, because this process does other things, too. Mostly the first one is low enough.
    assert any(seconds(160_000) < limit for _ in range(3))


def test_a_cut_name_is_no_error() -> None:
    for whole, _ in KNOWN[:80]:
        for end in range(len(whole)):
            assert len(shorten_name(whole[:end])) <= end, whole[:end]
            shorten_name(whole[end:])
