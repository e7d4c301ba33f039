"""Check that a tag is fit for a release: python .ci/check_release.py vX.Y.Z.

The tag must be the version of perfpy/version.py, and CHANGELOG.md must have a dated section for it as its newest.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def faults(tag: str) -> list[str]:
    """Return what is wrong with a tag, one line each."""
    lines = []
    version = re.search(r'^__version__ = "(.+)"$', (CHECKOUT / "perfpy" / "version.py").read_text(), re.MULTILINE)
    if version is None or tag != f"v{version[1]}":
        lines.append(f"the tag is {tag}, the version in perfpy/version.py {version and version[1]}")
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = next((section for section in sections if section[0] != "Unreleased"), ("none", ""))
    if f"v{newest[0]}" != tag or not newest[1]:
        lines.append(f"the newest dated section of CHANGELOG.md is {newest[0]}; rename [Unreleased] to [{tag[1:]}] - DATE")
    return lines


if __name__ == "__main__":
    problems = faults(sys.argv[1]) if len(sys.argv) == 2 else [__doc__ or ""]
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(1 if problems else 0)
