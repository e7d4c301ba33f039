"""The tables of makers: which CPU has which, what is in them, who goes before them."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

import perfpy
from perfpy.counts.formulas import Formula
from perfpy.events import parse_events
from perfpy.events.grammar import parse_terms
from perfpy.events.machine import Machine
from perfpy.events.vendor.event_files import EventFiles
from perfpy.events.vendor.vendor_table import file_name, own_folder, table_of
from perfpy.kernel.sysfs import Pmu, Sysfs
from perfpy.kernel.tracefs import Tracefs
from tests.builders import sysfs_tree

SKYLAKE, CASCADE_LAKE, ALDER_LAKE = "GenuineIntel-6-55-4", "GenuineIntel-6-55-7", "GenuineIntel-6-97-2"
FOLDER = Path(perfpy.__file__).parent / "events/tables"
TABLES = sorted(FOLDER.glob("*/*.z"))


@pytest.fixture(autouse=True)
def no_tables_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def skylake(root: Path, event_files: str = "") -> Machine:
    tree = sysfs_tree.intel_skylake(root)
    files = EventFiles(event_files) if event_files else None
    return Machine(Sysfs(str(tree.sys)), Tracefs([str(tree.tracing)]), files, identity=lambda: SKYLAKE)


def test_steppings_of_a_model_may_be_other_cpus() -> None:
    tables = [table_of(identity) for identity in (SKYLAKE, CASCADE_LAKE)]
    assert [table is not None and os.path.basename(table.folder) for table in tables] == ["6-55-0.z", "6-55-5.z"]


@pytest.mark.parametrize("identity", ["", "GenuineIntel-15-6-4", "AuthenticAMD-25-11-1", "0x00000000410fd080", "../../etc", "QEMU-8561"])
def test_of_others_there_is_none(identity: str) -> None:
    assert table_of(identity) is None


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_whole(path: Path) -> None:
    """Sorted rows of seven fields at most; terms and formulas that can be read, and nothing that is longer than a formula."""
    text = zlib.decompress(path.read_bytes()).decode("ascii")
    rows = [line.split("\t") for line in text.splitlines()]
    assert {row[0] for row in rows} <= {"E", "M"}
    assert all(3 <= len(row) <= 7 for row in rows)
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    for row in rows:
        if row[0] == "E":
            assert parse_terms(row[3])
        else:
            assert Formula(row[2]).events


def test_all_tables_are_named_by_the_index_and_small() -> None:
    assert len(TABLES) >= 30
    for maker in FOLDER.iterdir():
        if maker.is_dir():
            stems = {line.split("\t")[1] for line in (maker / "index.tsv").read_text().splitlines()}
            assert stems == {path.stem for path in maker.glob("*.z")}
            assert (maker / "LICENSE").stat().st_size > 1000
    assert sum(path.stat().st_size for path in TABLES) < 6 << 20


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("inst_retired.any", 0xC0),
        ("INST_RETIRED.ANY", 0xC0),
        ("cpu/l1d.replacement/u", 0x151),
        ("mem_load_retired.l1_miss", 0x8D1),
        ("cpu-cycles", 0),  # the kernel's own, whatever the table says
    ],
)
def test_an_event_is_resolved_by_the_table(text: str, config: int, tmp_path: Path) -> None:
    (event,) = parse_events(text, machine=skylake(tmp_path))
    assert event.attr.config == config


def test_an_event_of_a_unit_counts_on_all_its_pmus(tmp_path: Path) -> None:
    events = parse_events("unc_m_cas_count.rd", machine=skylake(tmp_path), counting=True)
    assert [(event.attr.type, event.attr.config) for event in events] == [(number, 0x304) for number in (20, 21, 22)]


def test_a_substitute_of_a_pmu_has_no_events() -> None:
    table = table_of(SKYLAKE)
    assert table is not None
    assert table.alias(Pmu("cpu", "", 4), "inst_retired.any") is None


def test_no_table_is_looked_for_where_there_is_no_pmu(tmp_path: Path) -> None:
    tree = sysfs_tree.software_only(tmp_path)
    machine = Machine(Sysfs(str(tree.sys)), Tracefs([str(tree.tracing)]), identity=lambda: pytest.fail("asked who the CPU is"))
    assert machine.named_events == ()


def test_a_hybrid_cpu_has_events_of_both_kinds_of_core(tmp_path: Path) -> None:
    tree = sysfs_tree.intel_hybrid(tmp_path)
    machine = Machine(Sysfs(str(tree.sys)), Tracefs([str(tree.tracing)]), identity=lambda: ALDER_LAKE)
    assert {event.attr.type for event in parse_events("inst_retired.any", machine=machine)} == {4, 11}
    assert {len([metric for metric in machine.metrics if metric.name == name]) for name in ("tma_cisc",)} == {2}


def test_the_user_s_files_go_before_the_table(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/pipeline.json").write_text('[{"EventName": "INST_RETIRED.ANY", "EventCode": "0x77"}]')
    machine = skylake(tmp_path, str(tmp_path / "mine"))
    assert [event.attr.config for event in parse_events("inst_retired.any,l1d.replacement", machine=machine)] == [0x77, 0x151]


def test_the_user_s_table_goes_before_the_package_s(tmp_path: Path) -> None:
    own = Path(own_folder())
    own.mkdir(parents=True)
    (own / file_name(SKYLAKE)).write_text("E\tinst_retired.any\t\tevent=0x66\n")
    assert [event.attr.config for event in parse_events("inst_retired.any", machine=skylake(tmp_path))] == [0x66]


def test_a_table_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    own = Path(own_folder())
    own.mkdir(parents=True)
    os.mkfifo(own / file_name(SKYLAKE))
    assert [event.attr.config for event in parse_events("inst_retired.any", machine=skylake(tmp_path))] == [0xC0]


def test_a_metric_is_computed_through_the_metrics_it_names() -> None:
    """A core that could issue four uops a cycle had 500 cycles, and 100 of these 2000 slots got none."""
    table = table_of(SKYLAKE)
    assert table is not None
    formulas = {metric.name.lower(): metric.expression for metric in table.metrics}
    counts = {
        "CPU_CLK_UNHALTED.THREAD": 500.0,
        "CPU_CLK_UNHALTED.THREAD_ANY": 500.0,
        "CPU_CLK_UNHALTED.REF_XCLK": 100.0,
        "CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE": 100.0,
        "IDQ_UOPS_NOT_DELIVERED.CORE": 100.0,
        "#core_wide": 0.0,
        "#smt_on": 0.0,
    }
    formula = Formula(formulas.pop("tma_frontend_bound"), formulas)
    assert formula.evaluate(counts) == pytest.approx(0.05)
    assert set(formula.events) <= set(counts)
