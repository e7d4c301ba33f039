"""Which lines of objdump's text are instructions of a function, and what the others say."""

from __future__ import annotations

from perfpy.disassembly.code_lines import NOT_CODE, AsmLine, of_objdump


def lines(*text: bytes) -> list[AsmLine]:
    return of_objdump(text, 0x1010, 0x1017, "/bin/spin")


def test_an_instruction_follows_an_address_of_the_function() -> None:
    assert lines(b"    1011:\tdec    %rdi") == [AsmLine(1, "   dec    %rdi")]


def test_tabs_are_as_wide_as_after_the_address_without_the_blanks_before_it() -> None:
    assert of_objdump([b"   11011:\tdec"], 0x11010, 0x11017, "x") == [AsmLine(1, "  dec")]


def test_addresses_of_other_functions_and_words_that_look_like_some_are_no_instructions() -> None:
    assert lines(b"    1017:\tret", b"deadbeef: label", b"1010:") == [
        AsmLine(NOT_CODE, "1017:   ret", 4),
        AsmLine(NOT_CODE, "deadbeef: label"),
        AsmLine(NOT_CODE, "1010:"),
    ]


def test_the_line_that_names_the_file_is_omitted() -> None:
    assert lines(b"", b"/bin/spin:     file format elf64-x86-64", b"") == [AsmLine(NOT_CODE, ""), AsmLine(NOT_CODE, "")]


def test_source_lines_lose_the_blanks_at_their_ends_and_keep_bytes_that_are_no_text() -> None:
    assert lines(b"\t  x = y;") == [AsmLine(NOT_CODE, "x = y;", 6)]
    (line,) = lines(b"\t\tx = y;\t /* \xff */ \r")
    assert line.text.encode("utf-8", "surrogateescape") == b"x = y;   /* \xff */"
