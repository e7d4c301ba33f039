"""Callchains without the frames of interpreters."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.interpreters import without_interpreters

DSOS = [Dso("/usr/lib/libpython3.12.so.1.0"), Dso("/tmp/perf-7.map", DsoKind.JIT), Dso("/usr/lib/libc.so.6"), Dso("/usr/bin/python3.12")]
#: a frame id for each Dso, and the last for none
EVAL, PY, LIBC, MAIN, NOWHERE = range(5)
DSO_OF_FRAME = np.array([0, 1, 2, 3, -1], np.int32)


def folded(*chains: list[int]) -> list[list[int]]:
    frames = np.array([frame for chain in chains for frame in chain], np.int32)
    counts = np.array([len(chain) for chain in chains], np.int64)
    result, sizes = without_interpreters(frames, counts, DSO_OF_FRAME, DSOS)
    ends = np.cumsum(sizes)
    return [result[end - size : end].tolist() for end, size in zip(ends, sizes, strict=True)]


def test_frames_between_named_functions_go():
    assert folded([LIBC, EVAL, PY, EVAL, PY, EVAL, MAIN, LIBC, NOWHERE]) == [[LIBC, PY, PY, LIBC, NOWHERE]]


def test_the_innermost_frame_stays():
    assert folded([EVAL, PY, EVAL]) == [[EVAL, PY]]


def test_a_chain_without_named_functions_stays_unchanged():
    assert folded([LIBC, EVAL, MAIN], [], [EVAL, PY], [MAIN]) == [[LIBC, EVAL, MAIN], [], [EVAL, PY], [MAIN]]


def test_nothing_is_nothing():
    assert folded() == []


@pytest.mark.parametrize(
    "name", ["/usr/bin/node", "/usr/bin/python3", "/usr/lib/jvm/lib/server/libjvm.so", "/usr/lib/libpython3.13t.so.1.0"]
)
def test_interpreters_are_known_by_name(name: str):
    dsos = [Dso(name), DSOS[PY]]
    result, _ = without_interpreters(np.array([0, 1], np.int32), np.array([2]), np.array([1, 0], np.int32), dsos)
    assert result.tolist() == [0]


def test_images_of_jitdumps_name_functions_as_perf_maps_do():
    dsos = [Dso("/usr/bin/python3.13"), Dso("/home/u/jitted-7-1.so")]
    result, _ = without_interpreters(np.array([1, 0, 1, 0], np.int32), np.array([4]), np.array([0, 1], np.int32), dsos)
    assert result.tolist() == [1, 1]


def test_extension_modules_stay():
    dsos = [Dso("/usr/lib/python3.12/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so"), Dso("/tmp/perf-7.map", DsoKind.JIT)]
    result, _ = without_interpreters(np.array([1, 0, 1], np.int32), np.array([3]), np.array([0, 1], np.int32), dsos)
    assert result.tolist() == [1, 0, 1]
