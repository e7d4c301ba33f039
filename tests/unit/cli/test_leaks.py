"""The text of perfpy leaks."""

from __future__ import annotations

from perfpy.capture.memory_growth.growth import KeptMemory, MemoryGrowth
from perfpy.capture.python_frames.current_stacks import CurrentFrame
from perfpy.cli import leaks

KEEP, OTHER = CurrentFrame("keep", "app.py", 5), CurrentFrame("other\x1b[31m", "app.py", 0)
MAIN, TEST = CurrentFrame("main", "app.py", 20), CurrentFrame("test", "test.py", 3)
GROWTH = MemoryGrowth(7, "python app.py", "3.12", 10.0, 2_000_000_000, 0, 0, 0, 0, [])


def text(growth: MemoryGrowth) -> list[str]:
    return list(leaks._text(growth))


def test_lines_add_up_their_stacks_and_name_the_callers_of_the_largest() -> None:
    retained = [KeptMemory((OTHER,), 5000, 9, 0), KeptMemory((KEEP, MAIN), 4000, 2, 2000), KeptMemory((KEEP, TEST), 3000, 1, 1000)]
    lines = text(GROWTH._replace(retained=[*retained, KeptMemory((), 10, 1, 0)]))
    assert lines[1] == "It allocated 2.00 GB in 10.0 s, and kept 12.01 kB."
    assert lines[4].split() == ["7.00", "kB", "58.3%", "3.00", "kB", "3", "keep", "(app.py:5)"]
    assert lines[5].strip() == "called from main (app.py:20)"
    assert lines[6].split()[-2:] == ["other^[[31m", "(app.py:?)"]
    assert lines[7].endswith("[threads without Python functions]")


def test_uncounted_memory_is_reported() -> None:
    lines = text(GROWTH._replace(young=500, arenas=3 << 20, lost=1200))
    assert lines[1].endswith("and kept 0 B.")
    assert lines[3].startswith("500 B of the last 1.0 s are not counted")
    assert "reserved 3.15 MB" in lines[4]
    assert "--small-objects" in lines[4]
    assert lines[5].startswith("1,200 further allocations were not followed")


def test_memory_of_too_many_stacks_is_reported() -> None:
    (line,) = text(GROWTH._replace(unnamed=5000))[3:]
    assert line.startswith("5.00 kB of [threads without Python functions] is memory of further stacks")
