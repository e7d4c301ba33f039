"""Seeds of AUX data and of Parquet tables, and their damage.

Input: nothing, or the bytes of a whole file. Output: recordings of hardware tracers; the files of a folder of tables,
which another process writes, because threads that write tables do not live on in the fuzzer's children.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.builders import pmcu
from tests.builders.arm_spe import random_packets, random_trace, spe_recording
from tests.builders.damage import recordings
from tests.builders.intel_pt import Options, pt_recording, steps_of
from tests.builders.perfdata import coresight_recording, traced
from tests.builders.traces import ETE, ETMV4, WORDS, coresight_packets, frames, trace
from tests.fuzz.mutation import damaged, with_fields
from tests.fuzz.recordings import damaged_recording

if TYPE_CHECKING:
    import random

_MTIME = 1_750_000_000  # seconds since 1970
_TABLES = ("plain <", "everything <", "golden python")
_FOOTER = 6000  # bytes at the end of a Parquet file that describe the others


def aux_recordings() -> dict[str, bytes]:
    """A recording of each tracer."""
    results = {f"tracer {kind}": traced(kind, words, trace(kind, 1, 1200)).file() for kind, words in WORDS.items()}
    results["CoreSight packets"] = coresight_recording(
        ETE, [frames([(0x10, coresight_packets(1, 60)), (0x11, coresight_packets(2, 60))])] * 2
    )
    results["CoreSight packets without frames"] = coresight_recording(ETMV4, [coresight_packets(3, 60)], is_raw=True)
    results["SPE records"] = spe_recording((random_trace(1, 20), random_trace(2, 20)), conversion=(4, 37, 1000)).file()
    results["SPE packets"] = spe_recording((random_packets(1, 150),)).file()
    folder = Path(__file__).parent / "__pycache__" / "traced_program"  # the same in each run: its path is in the recordings
    folder.mkdir(parents=True, exist_ok=True)
    traced_options = _TRACED | {4: Options(filters=(("filter", str(folder / "prog"), 0x1000, 0x12),), psb_bytes=64)}
    results |= {f"PT of a program {number}": pt_recording(steps_of(folder, 12), options)[0] for number, options in traced_options.items()}
    data = pmcu.aux_data([0x11, 0x12, 0x13], 4)
    return results | {"pmcu": pmcu.recording(data), "pmcu in pieces": pmcu.recording(data, cuts=(600, 2000), lost=1)}


_TRACED = {
    1: Options(psb_bytes=64, cyc=True),
    2: Options(seed=2, tsc=False, mtc=False, per_thread=True),
    3: Options(overflows=0.1),
    5: Options(events=0.1, pebs=0.05, pebs_calls=True, interrupts=0.05),
    6: Options(samples=20, aux_samples=512, psb_bytes=64),
}


def table_folders() -> dict[str, dict[str, bytes]]:
    """Folders of tables, of one recording and of several."""
    whole = recordings()
    names = [name for name in _TABLES if name in whole]
    return {"one": _exported([whole[names[0]]]), "several": _exported([whole[name] for name in names])}


def _exported(files: list[bytes]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="perfpy-fuzz-") as folder:
        paths = []
        for number, data in enumerate(files):
            paths.append(f"{number}.data")
            Path(folder, paths[-1]).write_bytes(data)
            os.utime(Path(folder, paths[-1]), (_MTIME, _MTIME))  # times of samples without a clock are reckoned from it
        command = [sys.executable, "-m", "perfpy", "export", "-q", "--parquet", "tables", *paths]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        tables = Path(folder, "tables")
        result = sorted(path for path in tables.rglob("*") if path.is_file())
        return {f"tables/{path.relative_to(tables)}": path.read_bytes() for path in result}


def damaged_table(data: bytes, rng: random.Random) -> bytes:
    """The description of a Parquet file changed, or its pages; or anything."""
    chance = rng.random()
    if chance < 0.3 or len(data) < 64:
        return damaged(data, rng)
    begin = max(len(data) - _FOOTER, 4) if chance < 0.8 else 4
    return with_fields(data, [(offset, 1) for offset in range(begin, len(data))], "<", rng)


def damaged_trace(data: bytes, rng: random.Random) -> bytes:
    """A recording whose AUX data, which is its second half, has other numbers; or damaged as any other."""
    if rng.random() < 0.4:
        return damaged_recording(data, rng)
    width = rng.choice((1, 1, 2, 4, 8))
    return with_fields(data, [(offset, width) for offset in range(len(data) // 2, len(data) - width + 1)], "<", rng)
