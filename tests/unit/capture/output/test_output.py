"""Output files: the old one is renamed, names get times, and failures leave no files."""

from __future__ import annotations

import os

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.samples.encoding import encode_sample
from perfpy.capture.option_values import SwitchOutput
from perfpy.capture.output.attention import Timetable
from perfpy.capture.output.output import RecordOutput
from perfpy.capture.output.output_switch import OutputSwitch
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.compression import Packer
from perfpy.perfdata.container.writer import WrittenEvent
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import usual_attr


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perf.data")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def test_the_recording_before_is_kept(path):
    put(path, b"older")
    RecordOutput(path).writer.close()
    assert content(path + ".old") == b"older"


def test_an_empty_file_is_not_worth_keeping(path):
    put(path, b"")
    RecordOutput(path).writer.close()
    assert not os.path.exists(path + ".old")


def test_a_recording_that_never_began_gives_the_old_one_back(path):
    put(path, b"older")
    RecordOutput(path).abandon()
    assert content(path) == b"older"
    assert not os.path.exists(path + ".old")


def test_two_files_of_one_moment_have_two_names(path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    names = set()
    for _ in range(3):
        output = RecordOutput(path)
        output.begin([WrittenEvent(EventAttr(), (1,))], {})
        output.finish({})
        names.add(output.stamp())
    assert len(names) == 3
    assert all(map(os.path.exists, names))


def test_a_finished_file_gets_the_time_into_its_name(path):
    output = RecordOutput(path)
    output.begin([WrittenEvent(EventAttr(), (1,))], {})
    output.finish({})
    name = output.stamp()
    assert name.startswith(path + ".20")
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(name)]


def test_each_compressed_file_can_be_read_by_itself(path):
    output = RecordOutput(path, Packer(1))
    names = []
    for number in range(3):
        output.begin([WrittenEvent(usual_attr(), ())], {})
        output.write_ring([encode_sample(usual_attr(), {"ip": number, "time": 1 + number}, NATIVE_ENDIAN)] * 5)
        output.finish({})
        names.append(f"{path}.{number}")
        os.rename(path, names[-1])
        output.reopen()
    for number, name in enumerate(names):
        with PerfData(name) as data:
            assert [int(ip) for batch in data.batches(["ip"]) for ip in batch.columns["ip"]] == [number] * 5
            assert not data.warnings


def test_files_are_switched_by_size_time_and_signal():
    by_size = OutputSwitch(SwitchOutput(size=100), 0)
    assert [by_size.due(size, 0.0) for size in (99, 100)] == [False, True]
    by_time = OutputSwitch(SwitchOutput(seconds=2), 0)
    by_time.begin(10.0)
    assert [by_time.due(0, now) for now in (11.9, 12.0, 12.1, 14.0)] == [False, True, False, True]
    by_signal = OutputSwitch(SwitchOutput(), 0)
    by_signal.ask()
    assert [by_signal.due(0, 0.0), by_signal.due(0, 0.0)] == [True, False]
    never = OutputSwitch(None, 0)
    never.ask()
    assert not never.due(1 << 40, 1e9)


def test_the_oldest_files_go():
    switch = OutputSwitch(SwitchOutput(), 2)
    assert [switch.add_file(name) for name in "abcd"] == [[], [], ["a"], ["b"]]
    assert switch.files == ["c", "d"]
    unlimited = OutputSwitch(SwitchOutput(), 0)
    assert [unlimited.add_file(name) for name in "abcd"] == [[], [], [], []]


def test_delays_are_ranges_or_one_start():
    table = Timetable(((10, 20), (30, 40)), 100.0)
    assert table.wait(100.0) == pytest.approx(0.010)
    assert [switch.on for switch in table.due(100.025)] == [True, False]
    assert [switch.on for switch in table.due(100.025)] == []
    assert [switch.on for switch in Timetable(50, 0.0).due(1.0)] == [True]
    assert Timetable(-1, 0.0).wait(0.0) is None
    assert (table.over, [switch.on for switch in table.due(100.1)], table.over) == (False, [True, False], True)
    assert not any(Timetable(delay, 0.0).over for delay in (-1, 0, 50))


def folder(path: str, *names: str) -> None:
    os.mkdir(path)
    for name in names:
        put(f"{path}/{name}", b"there")


@pytest.mark.parametrize("before", ["nothing", "file", "folder", "link"])
def test_a_folder_replaces_the_previous_backup(path, before):
    folder(path, "data", "data.0", "data.1")
    if before == "file":
        put(path + ".old", b"oldest")
    elif before == "folder":
        folder(path + ".old", "data", "data.0", "data.7")
    elif before == "link":
        os.symlink("/nonexistent", path + ".old")
    RecordOutput(path).writer.close()
    assert sorted(os.listdir(path + ".old")) == ["data", "data.0", "data.1"]
    assert os.path.isfile(path)


def test_a_folder_with_other_things_is_not_removed(path):
    put(path, b"older")
    folder(path + ".old", "data", "letters")
    with pytest.raises(OutputFailedError, match="not empty"):
        RecordOutput(path)
    assert sorted(os.listdir(path + ".old")) == ["data", "letters"]
    assert content(path) == b"older"
