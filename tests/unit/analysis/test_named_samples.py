"""Names of samples, as columns: those that script prints, for all samples at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perfpy
from perfpy import cli
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders import own_corpus

NAMED = "cpu-clock chains fork-exec group arm64-sched".split()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    own_corpus.unpack(folder)
    return folder


@pytest.fixture(params=NAMED)
def recording(request: pytest.FixtureRequest, own: Path, monkeypatch: pytest.MonkeyPatch) -> perfpy.Recording:
    for variable, value in own_corpus.surroundings(own).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(own)
    machine = next(row.machine for row in own_corpus.rows() if row.name == request.param)
    return perfpy.open(f"{request.param}.data", symbols=SymbolOptions(symfs="symfs", kallsyms=f"kallsyms.{machine}", cache=False))


def printed(recording: perfpy.Recording, fields: str, own: Path, capfd: pytest.CaptureFixture[str]) -> list[list[str]]:
    machine = next(row.machine for row in own_corpus.rows() if row.name == Path(recording.path).stem)
    line = [
        "script",
        "-q",
        "-f",
        "--max-stack",
        "0",
        "-F",
        fields,
        "-i",
        recording.path,
        "--symfs",
        "symfs",
        "--kallsyms",
        f"kallsyms.{machine}",
    ]
    assert cli.run(line) == 0
    return [text.split() for text in capfd.readouterr().out.splitlines() if text.strip()]


def test_names_equal_the_output_of_script(recording: perfpy.Recording, own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if "callchain" in recording.samples:
        lines = printed(recording, "comm,tid", own, capfd)
        assert recording.samples["comm"].tolist() == [" ".join(line[:-1]) for line in lines]
        return
    lines = printed(recording, "ip,sym,dso", own, capfd)
    samples = recording.samples
    assert [f"({name})" for name in samples["dso"]] == [f"({Path(line[-1].strip('()')).name})" for line in lines]
    assert samples["symbol"].tolist() == [" ".join(line[1:-1]) for line in lines]
    assert len({*samples["symbol"]}) > 1


def test_a_stack_begins_with_the_sampled_function(recording: perfpy.Recording) -> None:
    samples = recording.samples
    if "callchain" not in samples:
        assert "stack" not in samples
        with pytest.raises(KeyError, match=r"this recording has event, .*, comm, dso, symbol, srcline"):
            samples["stack"]
        return
    stacks, symbols = samples["stack"].tolist(), samples["symbol"].tolist()
    whole = [(stack, symbol) for stack, symbol in zip(stacks, symbols, strict=True) if stack]
    assert len(whole) > 10
    assert all(stack[0] == symbol for stack, symbol in whole)
    assert max(map(len, stacks)) > 3


def test_names_are_columns_of_tables_on_request(recording: perfpy.Recording) -> None:
    columns = recording.samples.to_dict(["comm", "tid"])
    assert list(columns) == ["comm", "tid"]
    assert len(columns["comm"]) == len(columns["tid"])
    assert "comm" not in recording.samples.to_dict()


def test_part_of_a_recording_has_the_same_samples_everywhere(recording: perfpy.Recording) -> None:
    comms = recording.samples["comm"].tolist()
    comm = max(comms, key=comms.count)
    part = recording.where(comm=comm, time=("10%", "90%"))
    times = recording.samples["time"]
    first, last = int(times.min()), int(times.max())
    inside = (times >= first + round((last - first) * 0.1)) & (times <= first + round((last - first) * 0.9))
    expected = [comm == name and is_inside for name, is_inside in zip(comms, inside.tolist(), strict=True)]
    count = sum(expected)
    assert 0 < count <= len(comms)
    assert part.samples["ip"].tolist() == recording.samples["ip"][expected].tolist()
    assert {*part.samples["comm"]} == {comm}
    assert sum(map(len, part.batches(["ip"]))) == count
    report = part.report(by="comm")
    assert report.samples == count
    assert [row.texts["comm"] for row in report.top()] == [comm]
    assert sum(int(stacks.count.sum()) for stacks in part.stacks()) == count
    again = part.where(symbol=part.samples["symbol"][0])
    assert {*again.samples["symbol"]} == {part.samples["symbol"][0]}
    assert len(again.samples["ip"]) == part.samples["symbol"].tolist().count(part.samples["symbol"][0])


def test_of_several_events_one(own: Path) -> None:
    with perfpy.open(own / "group.data") as recording:
        name = recording.events[0].name
        part = recording.where(event=name.split(":")[0])
        assert {*part.samples["event"].tolist()} == {0}
        assert 0 < part.report(by="comm").samples == recording.samples["event"].tolist().count(0)


def test_names_and_fields_are_read_in_one_pass(recording: perfpy.Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    batches = recording.data.batches

    def counted(*args: Any) -> Any:
        passes.append(args)
        return batches(*args)

    monkeypatch.setattr(recording.data, "batches", counted)
    recording.samples.load(["event", "comm", "symbol", "ip", "tid"])
    assert len(passes) == 1
    assert recording.samples["ip"].tolist() == perfpy.open(recording.path).samples["ip"].tolist()
    assert len(recording.samples["comm"]) == len(recording.samples["event"]) == len(recording.samples["ip"])


def test_batches_have_the_columns_of_the_whole(recording: perfpy.Recording) -> None:
    samples = recording.samples
    names = [*samples.names, "event", "ip", "time"]
    results: dict[str, list[object]] = {name: [] for name in names}
    for batch in samples.in_batches():
        assert set(batch.names) == set(samples.names)
        for name in names:
            results[name] += batch[name].tolist()
    assert results == {name: samples[name].tolist() for name in names}
