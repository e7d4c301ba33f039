"""perfpy leaks COMMAND: the sums that the hook leaves, the text, and the page. The files here are made by the test."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.verdict.categories import INTERPRETER, LIBRARY, OWN
from perfpy.errors import PerfError
from perfpy.interpreters.frames import CurrentFrame
from perfpy.interpreters.layouts import LAYOUTS, described_words
from perfpy.tools.leaks import hook
from perfpy.tools.leaks.sums import ProcessSums, StackSums, own_begin, parts_of_peak, read_processes
from perfpy.tools.leaks.text import category, memory_page, peak_lines

if TYPE_CHECKING:
    from pathlib import Path

KEEP, MAIN = CurrentFrame("keep", "app.py", 5), CurrentFrame("main\x1b[31m", "app.py", 9)
PROCESS = ProcessSums(7, 1, "python app.py", "3.12", 4_000_000, 1.0, 2.0, 1_000_000, 9_000_000, 40, 30, 0, 0, 0, [])
TEXTS = b"keep\0\0\0\0app.py\0\0\x80\x00"  # the last two bytes: a line table of 3.11 and later


def write_file(folder: Path, pid: int, *, stacks: list[dict[str, int]], damage: tuple[tuple[int, int], ...] = (), **head: int) -> Path:
    """Write a file of sums with one code object, one frame and these stacks; damage: further (offset, word) pairs."""
    words = {
        "pid": pid,
        "python": 3 << 8 | 12,
        "stacks": len(stacks),
        "frames": 1,
        "codes": 1,
        "pool": 1,
        "text": len(TEXTS),
        "count": 1,
        **head,
    }
    path = folder / f"{pid}.memory"
    with path.open("wb") as file:
        file.truncate(hook.FILE_SIZE)
        file.write(hook.MAGIC + struct.pack(f"<{len(hook.HEAD)}Q", *(words.get(name, 0) for name in hook.HEAD)))
        for number, stack in enumerate(stacks):
            file.seek(hook.STACKS_AT + number * 8 * len(hook.STACK))
            file.write(struct.pack(f"<{len(hook.STACK)}Q", *(stack.get(name, 0) for name in hook.STACK)))
        for offset, data in (
            (hook.FRAMES_AT, struct.pack("<2Q", 0, 0)),
            (hook.CODES_AT, struct.pack("<7Q", 0, 4, 8, 6, 16, 2, 5)),
            (hook.TEXT_AT, TEXTS),
        ):
            file.seek(offset)
            file.write(data)
        for offset, word in damage:
            file.seek(offset)
            file.write(struct.pack("<Q", word))
    return path


def test_a_stack_unchanged_since_the_highest_moment_has_its_sums_of_now(tmp_path: Path) -> None:
    before = {"live": 100, "live_count": 1, "peak": 700, "peak_count": 7, "epoch": 9, "total": 800, "count": 8, "depth": 1}
    since = {**before, "epoch": 8}
    write_file(tmp_path, 12, stacks=[before, since], epoch=9, peak=800)
    (process,) = read_processes(str(tmp_path))
    assert [(one.peak, one.peak_objects, one.left) for one in process.stacks] == [(700, 7, 100), (100, 1, 100)]
    (frame,) = process.stacks[0].frames
    assert (frame.function, frame.file, frame.line) == ("keep", "app.py", 5)
    assert process.python == "3.12"


def test_files_that_are_none_are_skipped(tmp_path: Path) -> None:
    write_file(tmp_path, 12, stacks=[{"live": 1, "total": 1, "count": 1, "depth": 1}])
    (tmp_path / "13.memory").write_bytes(b"short")
    (tmp_path / "14.memory").symlink_to("/dev/zero")
    (tmp_path / "x.memory").write_bytes((tmp_path / "13.memory").read_bytes())
    assert [one.pid for one in read_processes(str(tmp_path))] == [12]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_outside_of_their_regions_raise_nothing(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    numbers = (0, 1, 2, 1 << 16, 1 << 20, 1 << 40, (1 << 41) + 5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    regions = ((8, 8 * len(hook.HEAD)), (hook.STACKS_AT, 240), (hook.FRAMES_AT, 16), (hook.CODES_AT, 56), (hook.POOL_AT, 16))
    for _ in range(10):
        damage = tuple((start + 8 * choice.randrange(size // 8), choice.choice(numbers)) for start, size in choice.choices(regions, k=3))
        damage = tuple((offset, number) if offset > 8 * len(hook.HEAD) else (offset, number % 4096) for offset, number in damage)
        write_file(tmp_path, 12, stacks=[{"live": 1, "total": 1, "count": 1, "depth": 1}] * 3, damage=damage)
        for process in read_processes(str(tmp_path)):
            assert list(peak_lines([process], small_objects=False))
            assert memory_page([process._replace(stacks=process.stacks[:5])])


def test_estimates_of_small_objects_are_told(tmp_path: Path) -> None:
    write_file(tmp_path, 9, stacks=[{}, {"live": 8192, "live_count": 90, "count": 90, "depth": 1}], count=90, small=90, most_arenas=1 << 20)
    (process,) = read_processes(str(tmp_path))
    assert (process.small, process.arenas) == (90, 1 << 20)
    text = "\n".join(peak_lines([process], small_objects=False))
    assert "in about 90 allocations" in text
    assert "arenas for objects of up to 512 bytes, with the free space in them, took up to 1.05 MB." in text
    assert "one in 4,096 bytes of them is followed, so that\n10.00 MB are right within 4 %" in text
    assert "estimated" not in "\n".join(peak_lines([PROCESS], small_objects=False))


def test_lines_are_summed_and_texts_of_programs_are_made_harmless() -> None:
    stacks = [StackSums((KEEP, MAIN), 3_000_000, 3, 0, 0, 3_000_000, 3, 20), StackSums((KEEP,), 500_000, 1, 500_000, 1, 500_000, 1, 0)]
    lines = list(peak_lines([PROCESS._replace(stacks=stacks)], small_objects=False))
    assert lines[1] == "It held 4.00 MB at its highest moment after 1.0 s of 2.0 s: 88 % in keep() (app.py:5)."
    assert lines[5].split() == ["3.50", "MB", "87.5%", "4", "500.00", "kB", "keep", "(app.py:5)"]
    assert lines[6].strip() == "called from main^[[31m (app.py:9)"
    assert lines[8] == "30 allocations (75 %) were freed before the next one of their thread:"
    assert any("LD_PRELOAD" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_memory_that_came_and_went_is_told_by_line() -> None:
    """Of a line that allocated at least three times what it held at a time; the stacks of a line may hold most at different times."""
    copies = StackSums((KEEP, MAIN), 0, 0, 0, 0, 6_000_000, 60, 0, 200_000)
    held = StackSums((MAIN,), 2_000_000, 1, 0, 0, 3_000_000, 4, 0, 2_000_000)
    again = StackSums((KEEP,), 100, 1, 0, 0, 1_000, 2, 0, 100)
    lines = list(peak_lines([PROCESS._replace(stacks=[held, again, copies])], small_objects=False))
    assert "6.00 MB of that (67 %) came and went in keep() (app.py:5), at most 200.10 kB at a time." in lines
    row = lines.index("Memory that came and went, such as temporary copies:")
    assert lines[row + 2].split() == ["6.00", "MB", "200.10", "kB", "62", "keep", "(app.py:5)"]
    assert not [line for line in lines[row:] if line.endswith("main^[[31m (app.py:9)") and "MB" in line], "it held what it allocated"
    assert "came and went" not in "\n".join(peak_lines([PROCESS._replace(stacks=[held])], small_objects=False))


def test_memory_is_charged_to_the_line_of_the_program_that_calls_a_library() -> None:
    """The allocating functions of packages and of CPython are named behind it."""
    folder = "/usr/lib/python3.12/site-packages"
    inner = (CurrentFrame("arena", "/build/Python-3.12.1/Objects/obmalloc.c", 152), CurrentFrame("take", f"{folder}/pandas/frame.py", 7))
    start = CurrentFrame("__libc_start_call_main", "./csu/../sysdeps/nptl/libc_start_call_main.h", 58)
    stacks = [StackSums((*inner, KEEP, MAIN, start), 4_000_000, 3, 0, 0, 4_000_000, 3, 0)]
    lines = list(peak_lines([PROCESS._replace(stacks=stacks)], small_objects=False))
    assert lines[1].endswith(": 100 % in keep() (app.py:5).")
    assert lines[5].endswith("keep (app.py:5)")
    assert lines[6].strip() == "by arena (Objects/obmalloc.c:152), take (pandas/frame.py:7); called from main^[[31m (app.py:9)"
    assert [category(frame) for frame in (*inner, KEEP, start)] == [INTERPRETER, LIBRARY, OWN, LIBRARY]


def test_what_python_and_its_libraries_took_by_themselves_is_told_apart() -> None:
    """memray counts neither. Threads of libraries have no Python functions, and are the program's."""
    importlib = [CurrentFrame(name, "<frozen importlib._bootstrap>", 1) for name in ("_load_unlocked", "_find_and_load")]
    loads = CurrentFrame("ExtensionFileLoader.create_module", "<frozen importlib._bootstrap_external>", 1233)
    opens = CurrentFrame("CDLL.__init__", "/usr/lib/python3.12/ctypes/__init__.py", 379)
    main, thread = CurrentFrame("__libc_start_main@@GLIBC_2.34", "libc.so.6", 0), CurrentFrame("start_thread", "libc.so.6", 0)
    chains = ([main], importlib, [loads, *importlib, MAIN], [opens, MAIN], [*importlib, MAIN], [KEEP, MAIN], [thread])
    stacks = [StackSums(tuple(frames), size * 100_000, 1, 0, 0, 0, 1, 0) for size, frames in enumerate(chains, 1)]
    process = PROCESS._replace(peak=2_800_000, stacks=stacks)
    assert parts_of_peak(process) == (300_000, 700_000, 1_800_000)
    told = "Libraries took 700.00 kB of that while they were loaded, the start of Python 300.00 kB; the program itself held 1.80 MB."
    assert list(peak_lines([process], small_objects=False))[2] == told
    assert parts_of_peak(process._replace(python="")) == (0, 0, 2_800_000)


def test_a_killed_process_and_small_ones_are_reported() -> None:
    others = [PROCESS._replace(pid=number, peak=100, stacks=[]) for number in (8, 9)]
    lines = list(peak_lines([PROCESS._replace(seconds=0), *others], small_objects=True))
    assert lines[2].endswith("when it was killed.")
    assert "2 further processes held at most 100 B each." in lines
    assert not any("--small-objects" in line for line in lines)


def test_allocating_functions_of_libraries_give_way_to_their_caller() -> None:
    new = CurrentFrame("operator new(unsigned long)", "libstdc++.so.6", 0)
    assert own_begin((new, KEEP, MAIN)) == 1
    assert own_begin((new,)) == 0


def test_the_page_has_the_three_weights_and_no_markup_of_names() -> None:
    evil = CurrentFrame("</script><b>", "app.py", 1)
    page = memory_page([PROCESS._replace(stacks=[StackSums((evil,), 5, 1, 3, 1, 9, 2, 0)])])
    assert all(f"bytes {word}" in page for word in ("held at the peak", "held at the end", "allocated"))
    assert "</script><b>" not in page


def test_the_library_knows_every_interpreter() -> None:
    text = hook.source()
    for major, minor in (*LAYOUTS, *described_words()):
        assert f"{{{major << 8 | minor}, " in text


def test_without_a_compiler_the_message_names_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(PerfError, match="install gcc or clang"):
        hook.library(str(tmp_path))
