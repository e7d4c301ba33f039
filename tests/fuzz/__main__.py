"""`python -m tests.fuzz`: run the fuzzer.

Input: see --help. Output: what came of it on stdout, exit status 1
when something failed; with --keep the failing cases, made small, which
--replay runs again and tests/fuzz/found holds for good.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.campaign import campaign, targets_like
from tests.fuzz.case import save, saved
from tests.fuzz.limits import MEGABYTE, Limits
from tests.fuzz.minimise import minimised
from tests.fuzz.server import Server

if TYPE_CHECKING:
    from tests.fuzz.campaign import Failure, Tally


def main() -> int:
    """Run, and print what came of it."""
    options = _arguments()
    with Server(Limits(cpu_seconds=options.cpu, wall_seconds=options.wall)) as server:
        if options.replay:
            return _replay(server, options.replay)

        def tell(failure: Failure) -> None:
            _tell(failure, options)
            if options.keep:
                _keep(server, options.keep, failure, options)

        start = time.monotonic()
        numbers = [options.only] if options.only is not None else range(options.start, options.start + options.runs)
        tally = campaign(server, numbers, options.seed, targets_like(options.target), tell)
        _print(tally, options, time.monotonic() - start)
    return 1 if tally.failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", default=str(int(time.time())), help="the same seed gives the same runs (default: the time)")
    parser.add_argument("--target", default="", metavar="REGEX", help="only targets whose name it finds")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="only this run")
    parser.add_argument("--start", type=int, default=0, metavar="NUMBER", help="the number of the first run (default: 0)")
    parser.add_argument("--cpu", type=int, default=Limits.cpu_seconds, metavar="SECONDS", help="more is a failure (default: 10)")
    parser.add_argument("--wall", type=float, default=Limits.wall_seconds, metavar="SECONDS", help="more is a hang (default: 40)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what failed there, made small")
    parser.add_argument("--replay", type=Path, metavar="DIR", help="run what was kept there")
    return parser.parse_args()


def _again(number: int, options: argparse.Namespace) -> str:
    target = f" --target '{options.target}'" if options.target else ""
    return f"python -m tests.fuzz --seed {options.seed} --only {number}{target}"


def _tell(failure: Failure, options: argparse.Namespace) -> None:
    print(f"FAILED {failure.outcome.signature}\n       {failure.case.command}\n       {_again(failure.number, options)}", flush=True)
    if options.only is not None:
        print(failure.outcome.stderr[-4000:])


def _print(tally: Tally, options: argparse.Namespace, seconds: float) -> None:
    print(f"\nseed {options.seed}: {tally.runs:,} runs in {seconds:.0f} s")
    print(f"  {tally.opened:,} of {tally.read:,} recordings got past their header")
    print("  " + ", ".join(f"{name} {times:,}" for name, times in sorted(tally.targets.items())))
    print(f"  peak {tally.memory // MEGABYTE} MB, {tally.largest_run}")
    print(f"  slowest {tally.slowest:.2f} s, {tally.slowest_run}")
    failed = sum(failure.times for failure in tally.failures.values())
    print(f"  failures: {failed} of {len(tally.failures)} causes")
    for signature, failure in sorted(tally.failures.items(), key=lambda entry: -entry[1].times):
        print(f"  {failure.times:5} {signature}\n        {_again(failure.number, options)}")


def _keep(server: Server, folder: Path, failure: Failure, options: argparse.Namespace) -> None:
    signature = failure.outcome.signature
    tries = 8 if failure.outcome.seconds > 1 else 300
    small = minimised(failure.case, lambda case: server.run(case).signature == signature, tries)
    save(folder, f"{options.seed}-{failure.number}", small, signature)


def _replay(server: Server, folder: Path) -> int:
    failed = 0
    for name, case in saved(folder).items():
        outcome = server.run(case)
        failed += bool(outcome.failure)
        print(f"{name}: {outcome.signature or 'fine'} ({outcome.seconds:.2f} s, {outcome.memory // MEGABYTE} MB) {case.command}")
        if outcome.failure:
            print(outcome.stderr[-2000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
