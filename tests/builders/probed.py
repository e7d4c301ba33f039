"""A C program to probe, compiled when a test needs it."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """#include <stdio.h>
struct item { int price; unsigned low:3, high:5; char *name; struct item *next; int sizes[3]; int grid[2][3]; };
int total; static char label[8] = "shop";
static inline __attribute__((always_inline)) int twice(int n) { int k = n * 2; total += k; return k + n; }
__attribute__((noinline)) int cost(struct item *it, int count, const char *why)
{
\tint sum = it->price;
\tfor (int i = 0; i < count; i++)
\t\tsum += it->sizes[i % 3] + it->low;
\tif (why[0] == 'x')
\t\tsum += twice(sum);
\treturn sum + label[0];
}
__attribute__((noinline)) double half(double x, int n) { return x / 2 + n; }
int main(int argc, char **argv)
{
\tstruct item a = { 3, 5, 7, "apple", 0, { 1, 2, 3 }, { { 1 } } };
\tint sum = 0;
\tfor (int i = 0; i < 20; i++)
\t\tsum += cost(&a, i, i & 1 ? "x" : "y") + half(i, argc);
\tprintf("%d %d\\n", sum, total);
\treturn 0;
}
"""


def compiled(folder: Path, name: str = "shop", flags: str = "-O1 -g -no-pie", source: str = SOURCE, compiler: str = "gcc") -> Path:
    """Compile a program, and return its path. Skips the test without a compiler."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    suffix = ".cc" if compiler == "g++" else ".c"
    (folder / f"{name}{suffix}").write_text(source)
    subprocess.run([compiler, *flags.split(), "-o", name, f"{name}{suffix}"], cwd=folder, check=True, timeout=120)
    return folder / name
