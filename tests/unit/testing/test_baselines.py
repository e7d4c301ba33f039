"""The file of what tests cost on another day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.errors import UsageError
from perfpy.testing.baselines import Baselines

if TYPE_CHECKING:
    from pathlib import Path


def test_baselines_are_kept_for_each_machine(tmp_path: Path):
    path = str(tmp_path / "b.json")
    for machine, amount in (("here", 5.0), ("there", 7.0)):
        baselines = Baselines(path, machine)
        baselines.take("test_a", "page-faults", [amount, amount])
        assert baselines.of("test_a", "page-faults") == []
        assert baselines.write() == 1
    assert Baselines(path, "here").of("test_a", "page-faults") == [5, 5]
    assert Baselines(path, "there").of("test_a", "page-faults") == [7, 7]
    assert Baselines(path, "here").of("test_a", "cycles") == Baselines(path, "elsewhere").of("test_a", "page-faults") == []
    assert [file.name for file in tmp_path.iterdir()] == ["b.json"]


def test_nothing_taken_writes_nothing(tmp_path: Path):
    assert Baselines(str(tmp_path / "b.json")).write() == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"m": []}', '{"m": {"t": 1}}', '{"m": {"t": {"e": 5}}}', '{"m": {"t": {"e": ["5"]}}}'])
def test_another_file_is_none_of_baselines(tmp_path: Path, text: str):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match=r"b\.json: "):
        Baselines(str(tmp_path / "b.json"))
