"""--convert-callchain replaces stack copies by callchains; reports of both recordings are equal."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import CONTEXT_MAX, CONTEXTS, RecordType, SampleType
from perfpy.analysis.callchains.user_callchains import user_callchains
from perfpy.capture.injection.converting import CallchainConverter
from perfpy.capture.injection.injecting import inject
from perfpy.cli import run
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders import own_corpus

if TYPE_CHECKING:
    from pathlib import Path

SYMFS = str(own_corpus.HERE / "symfs")


def recording(name: str, folder: Path) -> Path:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((own_corpus.RECORDINGS / f"{name}.data.xz").read_bytes()))
    return path


def converted(path: Path) -> Path:
    output = path.with_suffix(".made")
    with perfpy.open(str(path)) as old:
        callchains = user_callchains(old.data, old.symbolizer(SymbolOptions(symfs=SYMFS)))
        assert callchains is not None
        inject(old.data, str(output), converter=CallchainConverter(old.data, callchains))
    return output


def text_of(path: Path, capfd: pytest.CaptureFixture[str], *options: str) -> str:
    assert run([*options, "--symfs", SYMFS, "--kallsyms", "/dev/null", "-i", str(path)]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("name", ["chains-dwarf", "arm64-chains-dwarf"])
def test_samples_keep_their_chains_and_everything_else(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old = recording(name, tmp_path)
    new = converted(old)
    capfd.readouterr()
    for line in (["script", "--no-inline"], ["script", "--no-inline", "--show-task-events", "--show-mmap-events", "-F", "+period"]):
        assert text_of(new, capfd, *line) == text_of(old, capfd, *line)
    assert new.stat().st_size < old.stat().st_size / 3


def test_requested_fields_of_samples_remain(tmp_path: Path) -> None:
    old = recording("chains-dwarf", tmp_path)
    with perfpy.open(str(old)) as before, perfpy.open(str(converted(old))) as after:
        one, other = before.events[0].attr, after.events[0].attr
        assert one.sample_type & ~other.sample_type == SampleType.REGS_USER | SampleType.STACK_USER
        assert (other.sample_regs_user, other.sample_stack_user, other.exclude_callchain_user) == (0, 0, 0)
        assert after.header["event_desc"][0].attr == other
        counts = [recorded.data.record_index.type_counts for recorded in (before, after)]
        assert counts[1][RecordType.FINISHED_ROUND] == 0
        assert counts[0][RecordType.SAMPLE] == counts[1][RecordType.SAMPLE] > 0
        chains = after.samples["callchain"]
        markers = chains.values[chains.values >= np.uint64(CONTEXT_MAX)]
        assert set(markers.tolist()) <= set(CONTEXTS)
        assert min(chains.lengths.tolist()) > 1


def test_recordings_without_copies_of_stacks_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "--convert-callchain", "-i", str(recording("chains", tmp_path)), "-o", str(tmp_path / "new")]) == 255
    assert "record with --call-graph dwarf" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new = recording("chains-dwarf", tmp_path), tmp_path / "new.data"
    assert run(["inject", "--convert-callchain", "-b", "-i", str(old), "-o", str(new)]) == 0
    with perfpy.open(str(new)) as after:
        assert not after.events[0].attr.sample_type & SampleType.STACK_USER
    assert run(["inject", "--convert-callchain", "-B", "-i", str(old), "-o", str(new)]) == 129
    assert "cannot be combined with -j or -B" in capfd.readouterr().err
