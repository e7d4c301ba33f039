"""What a page costs: its size, the time to make it, and in Chromium until something and until everything is drawn.

    .venv/bin/python tests/bench/page.py perf.data [options of report]

Run it on a quiet machine. ColumnOptions for a million samples: 10 MB, and 2 s until everything is drawn.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.builders.browser import Browser


def main(recording: str, options: list[str]) -> None:
    """Print a line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = folder / "page.html"
        command = [sys.executable, "-m", "perfpy", "report", "-q", "-i", recording, "--html", str(page), *options]
        subprocess.run(command, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = page.stat().st_size / 1e6
        with Browser(folder) as browser:
            browser.open(page)
            samples = browser.text("#selected").split(" · ")[0]
            paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            ready = browser.run("performance.getEntriesByName('ready')[0].startTime")
    print(
        f"{samples}: {size:.2f} MB, made in {used.ru_utime + used.ru_stime:.1f} s of CPU and {used.ru_maxrss / 1024:.0f} MB; "
        f"drawn first after {paint / 1000:.2f} s, whole after {ready / 1000:.2f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
