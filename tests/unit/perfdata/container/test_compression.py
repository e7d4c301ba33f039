"""Compression without zstd installed: features that need it fail with one line, others work."""

from __future__ import annotations

import sys

import pytest

from perfpy.capture.record_options import compression_of_unwound
from perfpy.errors import PerfError
from perfpy.perfdata.container import kept_files
from perfpy.perfdata.container.compression import Packer
from perfpy.perfdata.records.decompression import zstd_decompressor
from perfpy.untrusted import expansion


@pytest.fixture
def without_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    for package in ("compression", "backports"):
        if package in sys.modules:
            monkeypatch.delattr(sys.modules[package], "zstd", raising=False)


@pytest.mark.usefixtures("without_zstd")
def test_features_that_need_zstd_fail_with_one_line():
    with pytest.raises(PerfError, match=r"^compression: zstd is missing; install backports\.zstd"):
        Packer(1)
    with pytest.raises(PerfError, match=r"^compressed records: zstd is missing; install backports\.zstd"):
        zstd_decompressor()
    with pytest.raises(expansion.ExpansionError, match=r"install backports\.zstd"):
        expansion.expand("zstd", b"", 10)


@pytest.mark.usefixtures("without_zstd")
def test_other_features_work_without_zstd():
    assert compression_of_unwound() == 0
    text = b"7f0000001000 10 py::f:/a.py\n" * 100
    section = kept_files.encode({"/tmp/perf-7.map": text}, "<")
    assert len(section) < len(text)
    warnings: list[str] = []
    files = kept_files.KeptFiles(lambda offset, size: section[offset : offset + size], len(section), "<", warnings.append)
    assert (files.get("/tmp/perf-7.map"), warnings) == (text, [])


def test_records_of_unwound_stacks_are_compressed_with_zstd():
    assert compression_of_unwound() == 1
