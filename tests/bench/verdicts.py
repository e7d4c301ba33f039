"""Count the planted programs whose verdict names the cause and the line first: python -m tests.bench.verdicts [NAME ...]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.builders.planted import PLANTED, is_missing, names_cause, recorder, verdict_of


def main() -> None:
    """Record each program, and print its verdict."""
    hits = total = 0
    for planted in PLANTED:
        if sys.argv[1:] and planted.name not in sys.argv[1:]:
            continue
        if missing := is_missing(planted):
            print(f"{planted.name}: skipped, no {missing}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            sentences = verdict_of(planted, Path(folder))
        hit = bool(sentences) and names_cause(planted, sentences[0])
        hits, total = hits + hit, total + 1
        command = " ".join(
            word.replace("BUILT", planted.file if planted.command != ("BUILT",) else f"./{planted.name}") for word in planted.command
        )
        print(f"{'ok  ' if hit else 'MISS'} {planted.name}: perfpy record {' '.join(recorder(planted))} -- {command}")
        print("".join(f"       {sentence}\n" for sentence in sentences), end="", flush=True)
    print(f"{hits} of {total} first sentences name the cause")


if __name__ == "__main__":
    main()
