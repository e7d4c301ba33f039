"""Build-ids of files, of the kernel's notes, and of this process's vdso."""

from __future__ import annotations

import struct
import sys

import pytest

from perfpy.symbols.files import build_id_notes

ID = bytes(range(20))


def note(name: bytes, kind: int, data: bytes, endian: str = "<") -> bytes:
    def padded(part: bytes) -> bytes:
        return part + bytes(-len(part) % 4)

    return struct.pack(endian + "III", len(name), len(data), kind) + padded(name) + padded(data)


NOTES = note(b"stapsdt\0", 3, b"no") + note(b"GNU\0", 1, b"abi!") + note(b"GNU\0", 3, ID)


def elf64(endian: str, *, sections: bool) -> bytes:
    """Head, then one program header or one section header, then the notes."""
    ident = b"\x7fELF\x02" + (b"\1" if endian == "<" else b"\2") + b"\1" + bytes(9)
    table, notes_at = 64, 64 + 64
    phoff, shoff = (0, table) if sections else (table, 0)
    head = ident + struct.pack(endian + "HHIQQQIHHHHHH", 3, 62, 1, 0, phoff, shoff, 0, 64, 56, not sections, 64, sections, 0)
    notes = note(b"GNU\0", 3, ID, endian)
    if sections:
        entry = struct.pack(endian + "IIQQQQIIQQ", 0, 7, 0, 0, notes_at, len(notes), 0, 0, 4, 0)
    else:
        entry = struct.pack(endian + "IIQQQQQQ", 4, 4, notes_at, 0, 0, len(notes), len(notes), 4)
    return head + entry.ljust(64, b"\0") + notes


def elf32() -> bytes:
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    notes_at = 52 + 32
    head = ident + struct.pack("<HHIIIIIHHHHHH", 3, 3, 1, 0, 52, 0, 0, 52, 32, 1, 40, 0, 0)
    return head + struct.pack("<IIIIIIII", 4, notes_at, 0, 0, len(NOTES), len(NOTES), 4, 4) + NOTES


@pytest.mark.parametrize(
    "image",
    [elf64("<", sections=False), elf64(">", sections=False), elf64("<", sections=True), elf32()],
    ids=["segments", "big-endian", "sections", "32 bits"],
)
def test_the_id_stands_in_a_gnu_note(image, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(image)
    assert build_id_notes.of_image(image) == ID
    assert build_id_notes.of_file(str(path)) == ID


@pytest.mark.parametrize("size", [0, 3, 4, 20, 63, 100, 130])
def test_a_cut_file_has_none(size):
    assert build_id_notes.of_image(elf64("<", sections=False)[:size]) == b""


def test_other_files_have_no_build_id(tmp_path):
    (tmp_path / "text").write_text("#!/bin/sh\n" * 20)
    assert build_id_notes.of_file(str(tmp_path / "text")) == b""
    assert build_id_notes.of_file(str(tmp_path)) == b""
    assert build_id_notes.of_file(str(tmp_path / "nothing")) == b""


def test_the_kernels_notes_are_notes_alone(tmp_path):
    (tmp_path / "notes").write_bytes(NOTES)
    assert build_id_notes.of_kernel(str(tmp_path / "notes")) == ID


def test_a_module_has_its_own_build_id(tmp_path):
    folder = tmp_path / "mod" / "notes"
    folder.mkdir(parents=True)
    (folder / ".note.gnu.build-id").write_bytes(NOTES)
    assert build_id_notes.of_module("mod", str(tmp_path)) == ID


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the vdso is Linux's")
def test_the_vdso_is_an_elf_image():
    image = build_id_notes.vdso_image()
    assert not image or image.startswith(b"\x7fELF")
