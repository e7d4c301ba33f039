"""What pages of large recordings cost: making them, their size, and in Chromium until they are drawn and until they answer.

    .venv/bin/python tests/bench/page.py [SHAPE:SAMPLES ...] [--recording perf.data]

Without arguments the table has the usual sizes (tests/builders/page_recordings.py has the shapes). Columns: CPU seconds and peak
memory (MB) to make the page, its size (MB), milliseconds until it is first drawn and until it is ready, the 95th percentile and the
maximum of the interactions (ms, from the event to the next frame, and of CPU time), and the tab's heap of JavaScript (MB). On a busy
machine --rounds repeats all interactions, and opens the page anew: each time is the best of the rounds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.builders.browser import Browser
from tests.builders.page_recordings import SHAPES, write_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USUAL: Final = (
    *("usual:100000", "usual:1000000", "usual:2000000", "usual:10000000", "threads:1000000"),
    *("recursion:1500000", "recursion:2000000", "growing:2000000", "growing:10000000", "deep:200000"),
)
_FRAME: Final = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
_PEAK: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
_TABS: Final = ("tree", "callers", "functions", "sandwich", "chart", "heat", "flame")


class Made(NamedTuple):
    """A page, and what making it took: CPU seconds and MB."""

    file: Path
    cpu: float
    memory: float


class Took(NamedTuple):
    """What an interaction took: milliseconds to the frame that shows it, and milliseconds of CPU time of the page's thread."""

    name: str
    wall: float
    cpu: float


def task_time(browser: Browser) -> float:
    """Return the CPU seconds of the page's thread."""
    metrics = browser.call("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def make(command: list[str], page: Path) -> Made:
    """Make the page in a process of its own."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run([sys.executable, "-c", _PEAK, *command], check=True, stdout=subprocess.PIPE, text=True).stdout
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Made(page, used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime, int(output.split()[-1]) / 1024)


def interactions(browser: Browser) -> Iterator[Took]:  # noqa: C901  one sequence of steps
    """Yield each interaction of a person with the page, and the milliseconds to the frame that shows it."""
    browser.click("#headline")

    def timed(name: str, act: Callable[..., object], *arguments: object) -> Took:
        browser.run(_FRAME)
        begin, used = time.perf_counter(), task_time(browser)
        act(*arguments)
        browser.run(_FRAME)
        return Took(name, (time.perf_counter() - begin) * 1000, (task_time(browser) - used) * 1000)

    def clicked(selector: str) -> Took:
        return timed(selector, browser.run, f"document.querySelector('{selector}')?.click()")

    def chosen(selector: str, value: object) -> Took:
        choice = f"(e => {{ e.value = '{value}'; e.dispatchEvent(new Event('change')); }})(document.querySelector('{selector}'))"
        return timed(f"{selector} = {value}", browser.run, choice)

    def typed(text: str) -> Iterator[Took]:
        for end in range(1, len(text) + 1):
            yield timed(f"search {text[:end]}", browser.type, "#search", text[:end])
        yield timed("search ends", browser.type, "#search", "")

    def dragged(name: str) -> Iterator[Took]:
        left, top, width, height = browser.box("#activity")
        middle = top + height / 2
        browser.mouse("mouseMoved", left + 0.2 * width, middle, 0)
        browser.mouse("mousePressed", left + 0.2 * width, middle, 1)
        for step in range(1, 9):
            yield timed(name, browser.mouse, "mouseMoved", left + (0.2 + 0.05 * step) * width, middle, 1)
        yield timed(f"{name} ends", browser.mouse, "mouseReleased", left + 0.6 * width, middle, 0)

    def brushed() -> Iterator[Took]:
        yield from dragged("brush")
        yield clicked("#whole")

    def compared() -> Iterator[Took]:
        yield from dragged("brush")
        yield clicked("#against")
        yield from dragged("compare")
        yield clicked("#against")
        yield clicked("#whole")

    for tab in ("flame", *_TABS):
        yield clicked(f"#tab-{tab}")
        for one in (*typed("function_12"), *brushed(), *(clicked(f"[data-form={form}]") for form in ("own", "all", "folded"))):
            yield one._replace(name=f"{one.name} in {tab}")
    for tab in ("functions", "flame"):
        yield clicked(f"#tab-{tab}")
        yield from (one._replace(name=f"{one.name} in {tab}, compared") for one in compared())
    for root in ("inner", "outer"):
        yield chosen("#root", root)
    for key, value in (("category", 0), ("category", ""), ("cpu", 1), ("cpu", ""), ("thread", 2), ("thread", "")):
        yield chosen(f"#{key}", value)
    yield clicked("#tab-functions")
    for row in (1, 5, 20):
        yield clicked(f"#functions tbody tr:nth-child({row}) button")


def measure(name: str, recording: Path, options: list[str], folder: Path, *, details: bool, rounds: int) -> str:
    """Return the row of a recording."""
    page = folder / "page.html"
    command = [sys.executable, "-m", "perfpy", "report", "-q", "-i", str(recording), "--html", str(page), *options]
    made = make(command, page)
    marks: list[list[float]] = []
    all_times: list[list[Took]] = []
    with Browser(folder) as browser:
        browser.call("Performance.enable", timeDomain="threadTicks")
        for _ in range(rounds):
            browser.open(page, width=1440)
            names = ("first-contentful-paint", "drawn", "ready")
            marks.append([browser.run(f"performance.getEntriesByName('{mark}')[0].startTime") for mark in names])
            browser.run(_FRAME)
            all_times.append(list(interactions(browser)))
            assert not browser.errors, browser.errors
        heap = next(one["value"] for one in browser.call("Performance.getMetrics")["metrics"] if one["name"] == "JSHeapTotalSize")
    paint, first, ready = (min(column) for column in zip(*marks, strict=True))
    times = [Took(same[0].name, min(one.wall for one in same), min(one.cpu for one in same)) for same in zip(*all_times, strict=True)]
    if details:
        for one in sorted(times, key=lambda one: -one.cpu)[:40]:
            print(f"    {one.wall:7.0f} ms, {one.cpu:5.0f} of CPU  {one.name}")
    took, used = sorted(one.wall for one in times), sorted(one.cpu for one in times)
    return (
        f"{name:22} {made.cpu:6.1f} {made.memory:7.0f} {page.stat().st_size / 1e6:6.2f} {paint:7.0f} {first:7.0f} {ready:7.0f} "
        f"{took[int(0.95 * len(took))]:6.0f} {took[-1]:6.0f} {used[int(0.95 * len(used))]:6.0f} {used[-1]:6.0f} {heap / 1e6:6.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=USUAL, metavar="SHAPE:SAMPLES")
    parser.add_argument("--recording", type=Path, help="a recording of your own, instead of the shapes")
    parser.add_argument("--rounds", type=int, default=1, help="how often to open the page and to use it")
    parser.add_argument("--details", action="store_true", help="list the slowest interactions")
    chosen = parser.parse_args()
    print(" " * 23 + " CPU s      MB   file   paint   drawn   ready    p95    max p95cpu maxcpu   heap")
    for name in ["recording"] if chosen.recording else chosen.shapes:
        with tempfile.TemporaryDirectory(prefix="perfpy-page-") as place:
            folder = Path(place)
            if chosen.recording:
                recording, options = chosen.recording, []
            else:
                shape, _, samples = name.partition(":")
                recording, options = write_recording(folder, SHAPES[shape], int(samples)), ["--symfs", place]
            print(measure(name, recording, options, folder, details=chosen.details, rounds=chosen.rounds), flush=True)


if __name__ == "__main__":
    main()
