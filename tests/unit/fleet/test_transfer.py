"""Profiles and options travel between a cluster's machines as data: the same on arrival, checked, and never run."""

from __future__ import annotations

import json
import lzma
import pickle
import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.errors import PerfError
from perfpy.fleet.cluster import _unpack
from perfpy.fleet.folding import FoldedGroup, FoldingRequest, StackOptions, fold_group
from perfpy.fleet.transfer import MAGIC, BadTransferError, pack, unpack
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.known_frames import SymbolColumns
from perfpy.views.report.text import TextOptions
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Evil:
    """An object whose pickle runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("import sys; sys.perfpy_ran = True",)


def folded(folder: Path, name: str, options: ReportOptions | StackOptions) -> FoldedGroup:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    group = fold_group([str(path)], FoldingRequest(lambda _recording: (options, None)))
    assert group.part is not None
    return group


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> FoldedGroup:
    options = ReportOptions(
        columns=ColumnOptions(sort="comm,symbol,srcline"), chains=ChainOptions(CallGraph(order="caller"), children=True)
    )
    group = folded(tmp_path_factory.mktemp("group"), "chains", options)
    assert group.part is not None
    numbers, bits = np.zeros(1, np.uint64), np.zeros(1, np.bool_)
    symbols = SymbolColumns(["f"], numbers, numbers + 8, np.zeros(1, np.int32), np.zeros(1, np.int32), bits, bits, np.zeros(1, np.uint8))
    return group._replace(part=group.part._replace(symbols=symbols))


def parts_of(data: bytes) -> tuple[Any, bytes]:
    """Return the JSON tree of packed data, and the contents of its arrays."""
    raw = zstd.decompress(data)
    start = len(MAGIC) + 8
    end = start + int.from_bytes(raw[len(MAGIC) : start], "little")
    return json.loads(raw[start:end]), raw[end:]


def data_of(tree: Any, arrays: bytes) -> bytes:
    text = json.dumps(tree).encode()
    return zstd.compress(MAGIC + len(text).to_bytes(8, "little") + text + arrays)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "chains",
            ReportOptions(columns=ColumnOptions(sort="comm,dso,symbol"), chains=ChainOptions(CallGraph(order="caller"), children=True)),
        ),
        ("chains", StackOptions(sites=True)),
        ("sched", ReportOptions(columns=ColumnOptions(sort="comm,trace"))),
        ("fork-exec", ReportOptions(columns=ColumnOptions(sort="pid,cpu"))),
    ],
)
def test_a_profile_arrives_as_it_was(tmp_path: Path, name: str, options: ReportOptions | StackOptions) -> None:
    sent = folded(tmp_path, name, options)
    arrived = unpack(pack(sent), FoldedGroup)
    assert arrived.part.comms == sent.part.comms  # type: ignore[union-attr]
    assert pack(arrived) == pack(sent)


def test_options_arrive_as_they_were() -> None:
    sent = ReportOptions(columns=ColumnOptions(sort="sym")), SymbolOptions(symfs="/there"), TextOptions(widths=(1, 2))
    assert unpack(pack(sent), tuple) == sent


def test_pickled_data_are_refused_and_not_run() -> None:
    data = pickle.dumps(Evil())
    pickle.loads(data)
    assert vars(sys).pop("perfpy_ran")
    for sent in (data, zstd.compress(data), Evil(), [Evil()]):
        with pytest.raises(PerfError, match="a worker of tcp://there sent bad data"):
            _unpack(sent, FoldedGroup, "tcp://there")
    assert "perfpy_ran" not in vars(sys)


def test_other_objects_are_not_sent() -> None:
    with pytest.raises(TypeError, match="a Evil cannot be sent"):
        pack(FoldedGroup(None, [Evil()]))  # type: ignore[list-item]


def test_truncated_data_are_refused(group: FoldedGroup) -> None:
    data = pack(group)
    tree, arrays = parts_of(data)
    for size in (*range(40), *range(40, len(data), 97)):
        with pytest.raises(BadTransferError):
            unpack(data[:size], FoldedGroup)
    for size in range(0, len(arrays), 101):
        with pytest.raises(BadTransferError):
            unpack(data_of(tree, arrays[:size]), FoldedGroup)


def test_more_bytes_than_arrays_are_refused(group: FoldedGroup) -> None:
    tree, arrays = parts_of(pack(group))
    with pytest.raises(BadTransferError, match="more bytes than arrays"):
        unpack(data_of(tree, arrays + b"\0"), FoldedGroup)


def test_data_that_expand_without_end_are_refused() -> None:
    with pytest.raises(BadTransferError, match="become more than"):
        unpack(zstd.compress(bytes(1 << 30)), FoldedGroup)


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (["Evil"], "'Evil'"),
        (["os.system", "true"], "'os.system'"),
        (["FoldedGroup", None, ["l"]], "missing 0|refused"),
        (["FoldedGroup", 1, ["l"], ""], "FoldedGroup: part has a wrong type"),
        (["FoldedGroup", None, ["l", ["RecordingProblem", "a", 1]], ""], "RecordingProblem: reason has a wrong type"),
        (["t"], "a tuple instead of a FoldedGroup"),
        (["TextOptions", None, ["t"], False, 0.0, "", True, "", -1, "\x1b]0;title", False], "TextOptions: colours are the terminal"),
        (["a", "|O8", 1], "unknown type"),
        (["a", "<i8", 1 << 62], "longer than the message"),
        (["a", "<i8", -1], "longer than the message"),
        (["e", "Inline", "sometimes"], "sometimes"),
        ({"FoldedGroup": 1}, "an object of JSON"),
    ],
)
def test_anything_but_a_profile_is_refused(tree: Any, problem: str) -> None:
    if problem == "missing 0|refused":  # the default of its last field
        assert unpack(data_of(tree, b""), FoldedGroup) == FoldedGroup(None, [])
        return
    with pytest.raises(BadTransferError, match=problem):
        unpack(data_of(tree, b""), FoldedGroup)


def test_deep_nesting_is_refused() -> None:
    text = b'["l",' * 100_000 + b"1" + b"]" * 100_000
    with pytest.raises(BadTransferError):
        unpack(zstd.compress(MAGIC + len(text).to_bytes(8, "little") + text), FoldedGroup)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda part: part._replace(chain_frames=part.chain_frames + np.int32(1 << 20)), "a callchain refers to no frame"),
        (lambda part: part._replace(chain_lengths=part.chain_lengths * 2), "callchain"),
        (lambda part: part._replace(dsos=[]), "files without origins"),
        (lambda part: part._replace(formats=[]), "events without keys or formats"),
        (lambda part: part._replace(comms=[]), "a row refers to no comm"),
        (lambda part: part._replace(events=[], event_keys=[], formats=[]), "a row refers to no event"),
        (
            lambda part: part._replace(frames={**part.frames, "symbol": part.frames["symbol"] + 10_000}),
            "a frame refers to no file or symbol",
        ),
        (lambda part: part._replace(symbols=part.symbols._replace(dso=part.symbols.dso + 1000)), "a symbol refers to no file"),
        (lambda part: part._replace(symbols=part.symbols._replace(twin=part.symbols.twin[:-1])), "columns of different lengths"),
        (lambda part: part._replace(folded=part.folded.with_periods(part.folded.period[:-1])), "columns of different lengths"),
        (lambda part: part._replace(lost="many"), "lost has a wrong type"),
    ],
)
def test_indexes_of_missing_items_are_refused(group: FoldedGroup, change: Any, problem: str) -> None:
    with pytest.raises(BadTransferError, match=problem):
        unpack(pack(group._replace(part=change(group.part))), FoldedGroup)


def test_mutated_data_are_refused_or_a_profile(group: FoldedGroup) -> None:
    raw = bytearray(zstd.decompress(pack(group)))
    chance = random.Random(26)
    for _ in range(1500):
        mutated = bytearray(raw)
        for _ in range(chance.choice((1, 1, 2, 8))):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        try:
            arrived = unpack(zstd.compress(bytes(mutated)), FoldedGroup)
        except BadTransferError:
            continue
        assert type(arrived) is FoldedGroup
