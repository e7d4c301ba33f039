"""What stat prints, less the values: to compare two runs, which never count the same."""

from __future__ import annotations

import json
import re

NUMBER = re.compile(r" *\d[\d,]*(\.\d+)?")
REPEATS = re.compile(r"\+-.*time elapsed|\([+-][\d.]+\) *#*$")
NOISE = re.compile(r"  \( \+-.*% \)$")
SHARE = re.compile(r"  \(\d+\.\d\d%\)$")  # of the time that a counter counted: where that is not all of it, by however little
RATE = re.compile(r"[KMG]?/sec *")


def text_shape(text: str) -> list[str]:
    """Lines with each number replaced by its width and decimals, each kind of line once."""
    lines = []
    for line in text.splitlines():
        shape = NOISE.sub("", SHARE.sub("", line))
        shape = RATE.sub(lambda found: f"<rate {len(found[0])}>", shape)
        if REPEATS.search(shape):  # how many decimals and marks there are depends on the values
            shape = re.sub(r"[+-]+", "+", re.sub(r" *\d[\d.]*", "<>", shape.rstrip(" #")))
        shape = NUMBER.sub(lambda found: f"<{len(found[0])} {len(found[1] or '')}>", shape)
        if "# Table of" in line or "# Final result" in line:  # indented by as much as the times below it are wide
            shape = shape.strip()
        lines.append(shape)
    return sorted(set(lines), key=lines.index)


def csv_shape(text: str) -> list[list[str]]:
    """Fields with numbers replaced by their decimals."""
    results = []
    for line in text.splitlines():
        fields = [RATE.sub("/sec", field) for field in line.split(",")]
        results.append([re.sub(r"^\d+(\.\d+)?", lambda number: f"<{len(number[1] or '')}>", field) for field in fields])
    return results


def json_shape(text: str) -> list[list[tuple[str, str]]]:
    """Keys in order, with the texts among the values."""
    results = []
    for line in text.splitlines():
        pairs = json.loads(line, object_pairs_hook=list)
        results.append([(key, re.sub(r"^\d[\d.]*|[KMG](?=/sec)", "", str(value))) for key, value in pairs])
    return results
