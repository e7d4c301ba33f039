"""Each instruction of call frame information gives the rules that the standard says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.unwind import rules
from perfpy.unwind.call_frames import read_through
from perfpy.unwind.frame_entries import ByteReader, FrameEntry, FrameSection, initial_state, rows_of
from tests.builders import call_frames as cfi
from tests.builders.call_frames import sleb, uleb

START = 0x1000


def found(entry: FrameEntry, *addresses: int) -> list[rules.FrameRules | None]:
    state = initial_state(entry.common, endian="<", word=8)
    return rows_of(entry, state, endian="<", word=8).rules_at(sorted(addresses))


def entry_of(*program: bytes, common: tuple[bytes, ...] = (), **of_common: Any) -> FrameEntry:
    info = cfi.CallFrameInfo()
    place = info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1), *common, **of_common)
    offset = info.entry(place, START, 0x100, *program)
    return FrameSection(info.section(), info.address, is_eh=True, endian="<", word=8).entry(offset)


def last_rules(*program: bytes, **of_common: Any) -> rules.FrameRules:
    (rule,) = found(entry_of(*program, **of_common), START + 0xFF)
    assert rule is not None
    return rule


def registers(rule: rules.FrameRules) -> dict[int, rules.Rule]:
    return dict(rule.registers)


def test_rows_begin_at_advanced_locations():
    entry = entry_of(cfi.advance(1), cfi.define_cfa_offset(16), cfi.offset(6, 2), cfi.advance(3), cfi.define_cfa_register(6))
    before, pushed, moved = found(entry, START, START + 1, START + 4)
    assert before == rules.FrameRules((7, 8), ((16, (rules.OFFSET, -8)),), 16)
    assert pushed == rules.FrameRules((7, 16), ((6, (rules.OFFSET, -16)), (16, (rules.OFFSET, -8))), 16)
    assert moved is not None
    assert moved.cfa == (6, 16)
    assert found(entry, START + 3) == [pushed]


def test_addresses_outside_the_entry_have_no_rules():
    entry = entry_of()
    assert [rule is None for rule in found(entry, START - 1, START, START + 0x100)] == [True, False, True]


@pytest.mark.parametrize("far", [b"\x02\x40", b"\x03\x40\0", b"\x04\x40\0\0\0", b"\x1d" + (0x40).to_bytes(8, "little")])
def test_the_location_is_advanced_by_numbers_of_every_size(far):
    early, late = found(entry_of(far, cfi.define_cfa_offset(32)), START + 0x3F, START + 0x40)
    assert early is not None
    assert late is not None
    assert (early.cfa, late.cfa) == ((7, 8), (7, 32))


def test_the_location_is_set():
    early, late = found(entry_of(b"\x01" + (START + 0x10).to_bytes(8, "little"), cfi.define_cfa_offset(32)), START + 0xF, START + 0x10)
    assert early is not None
    assert late is not None
    assert (early.cfa, late.cfa) == ((7, 8), (7, 32))


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (b"\x05" + cfi.uleb(3) + cfi.uleb(2), (rules.OFFSET, -16)),
        (b"\x11" + cfi.uleb(3) + cfi.sleb(-2), (rules.OFFSET, 16)),
        (b"\x2f" + cfi.uleb(3) + cfi.uleb(2), (rules.OFFSET, 16)),
        (b"\x14" + cfi.uleb(3) + cfi.uleb(2), (rules.VAL_OFFSET, -16)),
        (b"\x15" + cfi.uleb(3) + cfi.sleb(-2), (rules.VAL_OFFSET, 16)),
        (b"\x09" + cfi.uleb(3) + cfi.uleb(12), (rules.REGISTER, 12)),
        (b"\x07" + cfi.uleb(3), (rules.UNDEFINED, 0)),
        (b"\x08" + cfi.uleb(3), (rules.SAME, 0)),
        (cfi.expression(3, b"\x77\x08"), (rules.EXPRESSION, b"\x77\x08")),
        (cfi.expression(3, b"\x77\x08", is_value=True), (rules.VAL_EXPRESSION, b"\x77\x08")),
    ],
)
def test_a_register_gets_its_rule(program, rule):
    assert registers(last_rules(program))[3] == rule


@pytest.mark.parametrize(
    ("program", "cfa"),
    [
        (b"\x12" + cfi.uleb(6) + cfi.sleb(-3), (6, 24)),
        (b"\x13" + cfi.sleb(-4), (7, 32)),
        (cfi.define_cfa_expression(b"\x77\x08"), b"\x77\x08"),
        (cfi.define_cfa_expression(b"\x77\x08") + cfi.define_cfa(6, 16), (6, 16)),
        (b"\x2e" + cfi.uleb(48), (7, 8)),  # the size of arguments changes nothing
        (b"\x2d", (7, 8)),
    ],
)
def test_the_cfa_is_defined(program, cfa):
    assert last_rules(program).cfa == cfa


def test_restore_uses_the_rule_of_the_cie():
    rule = last_rules(cfi.offset(3, 5), b"\x06" + cfi.uleb(3), cfi.offset(6, 7), cfi.restore(6), common=(cfi.offset(3, 2),))
    assert registers(rule) == {3: (rules.OFFSET, -16), 16: (rules.OFFSET, -8)}


def test_a_state_is_remembered_with_its_cfa():
    entry = entry_of(cfi.offset(3, 2), b"\x0a", cfi.define_cfa(6, 48), cfi.restore(3), cfi.advance(8), b"\x0b")
    inner, outer = found(entry, START, START + 8)
    assert inner is not None
    assert outer is not None
    assert (inner.cfa, outer.cfa) == ((6, 48), (7, 8))
    assert 3 not in registers(inner)
    assert registers(outer)[3] == (rules.OFFSET, -16)


def test_the_cie_has_the_alignment_factors_and_the_signal_flag():
    rule = last_rules(cfi.offset(3, 2), data_align=-4, returns=14, augmentation=b"zRS")
    assert registers(rule)[3] == (rules.OFFSET, -8)
    assert (rule.return_column, rule.is_signal) == (14, True)


@pytest.mark.parametrize("program", [b"\x3c", b"\x0b", b"\x0a" * 300, b"\x0c\x80", b"\x0f\x7f", b"\x01" + bytes(8), b"\x81"])
def test_damaged_instructions_are_refused(program):
    info = cfi.CallFrameInfo()
    offset = info.entry(info.common(cfi.define_cfa(7, 8)), START, 0x100)
    entry = FrameSection(info.section(), info.address, is_eh=True, endian="<", word=8).entry(offset)._replace(program=program)
    with pytest.raises((ValueError, LookupError)):
        found(entry, START + 0xFF)


def test_very_many_instructions_are_refused():
    entry = entry_of()._replace(program=cfi.offset(3, 1) * 70_000)
    with pytest.raises(ValueError, match="too many"):
        found(entry, START + 0xFF)


@settings(max_examples=200)
@given(st.binary(max_size=200), st.binary(max_size=60))
def test_any_bytes_are_run_or_refused(section, program):
    data = cfi.CallFrameInfo()
    data.entry(data.common(program), START, 0x100, program)
    for content in (section, data.section(), data.section()[:40] + section):
        for is_eh in (True, False):
            index = read_through(FrameSection(content, 0x2000, is_eh=is_eh, endian="<", word=8))
            for offset in index._offsets.tolist():
                try:
                    entry = index.section.entry(offset)
                    found(entry, entry.start, entry.end - 1)
                except (ValueError, LookupError):
                    continue


def test_damage_after_a_row_leaves_the_rows_before_it():
    entry = entry_of(cfi.advance(4), cfi.define_cfa_offset(16), cfi.advance(4), b"\x3f")
    before, after = found(entry, START, START + 7)
    assert (before is not None and before.cfa, after is not None and after.cfa) == ((7, 8), (7, 16))
    with pytest.raises(ValueError, match="unknown instruction"):
        found(entry, START + 8)


def test_rows_do_not_share_mutable_state():
    entry = entry_of(cfi.offset(6, 2), cfi.advance(1), cfi.offset(3, 3), cfi.advance(1), b"\xc3")
    assert [sorted(registers(rule)) for rule in found(entry, START, START + 1, START + 2) if rule] == [[6, 16], [3, 6, 16], [6, 16]]


# Numbers of call frame information: whatever was written is read back, and nothing is read from beyond the end.


def reader(data: bytes, **values: int) -> ByteReader:
    return ByteReader(data, "<", values.pop("word", 8), **values)


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_numbers_round_trip(number):
    assert reader(uleb(number)).uleb() == number


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_round_trip(number):
    assert reader(sleb(number)).sleb() == number


@given(st.binary(max_size=12))
def test_random_bytes_give_a_number_or_raise(data):
    for read in (ByteReader.uleb, ByteReader.sleb, ByteReader.text):
        number = reader(data)
        try:
            read(number)
        except ValueError:
            continue
        assert number.position <= len(data)


def test_a_number_ends_where_its_reader_does():
    limited = reader(b"\x80\x01", end=1)
    with pytest.raises(ValueError, match="beyond the end"):
        limited.uleb()


@pytest.mark.parametrize(
    ("encoding", "data", "value"),
    [
        (0x00, b"\x10\0\0\0\0\0\0\0", 0x10),
        (0x1B, b"\xf0\xff\xff\xff", 0x1000 - 16),  # relative to where it stands
        (0x3B, b"\x10\0\0\0", 0x2010),  # relative to the data
        (0x0A, b"\xff\xff", (1 << 64) - 1),
        (0x01, b"\x80\x01", 0x80),
        (0x09, b"\x7f", (1 << 64) - 1),
        (0x9B, b"\x10\0\0\0", 0),  # says where the pointer is, not what
    ],
)
def test_pointers_are_relative_to_the_origin_in_their_encoding(encoding, data, value):
    assert reader(data).pointer(encoding, 0x1000, 0x2000) == value


def test_pointers_of_32_bits_wrap_around():
    assert reader(b"\xf0\xff\xff\xff", word=4).pointer(0x1B, 0, 0) == 0xFFFFFFF0
