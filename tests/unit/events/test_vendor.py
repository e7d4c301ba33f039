"""The tables of makers: which CPU has which, what is in them, who goes before them."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import threading
import time
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy import cli
from perfpy.counts.formulas import compile_formula, formula_text, parse_formula
from perfpy.counts.metrics import value_of
from perfpy.errors import PerfError, UsageError
from perfpy.events import parse_events, vendor, vendor_tables
from perfpy.events.grammar import parse_terms
from perfpy.events.listing import Selector
from perfpy.events.machine import Machine
from perfpy.events.vendor import EventFiles
from perfpy.events.vendor_tables import MetricDefinition, VendorTable, file_name, own_folder, table_of
from perfpy.kernel.sysfs import Pmu, Sysfs, Tracefs
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("GenuineIntel-6-BD-1", "6-BD"),
        ("AuthenticAMD-23-1-1", "23-0"),
        ("AuthenticAMD-23-31-0", "23-30"),
        ("AuthenticAMD-23-71-0", "23-30"),
        ("AuthenticAMD-25-21-0", "25-0"),
        ("AuthenticAMD-25-11-1", "25-10"),
        ("AuthenticAMD-25-61-2", "25-10"),
        ("AuthenticAMD-26-2-1", "26-0"),
        ("AuthenticAMD-26-44-0", "26-0"),
        ("0x00000000410fd0c0", "neoverse-n1"),
        ("0x00000000410fd8e0", "neoverse-n3"),
        ("0x00000000460f0010", "fujitsu_a64fx"),
        ("0x00000000610f0220", "common_armv9"),
        ("0x004e1202", "power9"),
        ("0x00800200", "power10"),
        ("0x489-0x8000000000000007-0x20181004", "firmware"),
    ],
)
def test_a_cpu_has_its_table(identity: str, name: str) -> None:
    """Zen 1 and 2, 3 and 4 share a family; their models tell which it is. Unknown cores have the architecture's events."""
    table = table_of(identity)
    assert table is not None
    assert os.path.basename(table.folder) == f"{name}.z"


@pytest.mark.parametrize("identity", ["", "GenuineIntel-15-6-4", "AuthenticAMD-15-6B-2", "GenuineIntel-6-", "../../etc", "QEMU-8561"])
def test_of_others_there_is_none(identity: str) -> None:
    assert table_of(identity) is None


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_whole(path: Path) -> None:
    """Sorted rows; terms and formulas that can be read, and formulas that need events."""
    lines = zlib.decompress(path.read_bytes()).decode("ascii").splitlines()
    assert lines == sorted(lines)
    for row in (line.split("\t") for line in lines):
        assert row[1] == row[1].lower()
        assert "/" not in row[1]
        if row[0] == "E":
            assert 3 <= len(row) <= 7
            assert parse_terms(row[3])
        else:
            assert row[0] == "F"
            assert 3 <= len(row) <= 11
            assert parse_formula(formula_text(row[2]))
            for program in filter(None, (row[2], *row[5:6])):
                assert compile_formula(formula_text(program)) == program


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_metrics_are_about_the_cores_that_the_cpu_has(path: Path) -> None:
    """A CPU of small cores alone had the formulas of a hybrid CPU's small cores, too, under the same names."""
    rows = [line.split("\t") for line in zlib.decompress(path.read_bytes()).decode("ascii").splitlines()]
    cores = {row[2] for row in rows if row[0] == "E"} | {""}
    kinds = [(row[1], row[6] if len(row) > 6 else "") for row in rows if row[0] == "F"]
    assert {kind for _, kind in kinds} <= cores
    assert len(kinds) == len(set(kinds))


def test_all_tables_are_named_by_the_index_and_small() -> None:
    assert len(TABLES) >= 40
    readme = (FOLDER / "README.md").read_text()
    for maker in FOLDER.iterdir():
        if maker.is_dir():
            stems = {line.split("\t")[1] for line in (maker / "index.tsv").read_text().splitlines()}
            assert stems == {path.stem for path in maker.glob("*.z")}
            source = next(line for line in readme.splitlines() if line.startswith(f"| `{maker.name}` |"))
            assert "facts, without" in source or (maker / "LICENSE").stat().st_size > 1000
    assert sum(path.stat().st_size for path in TABLES) < 900_000


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


CORTEX_A53, CORTEX_A72 = "0x00000000410fd030", "0x00000000410fd080"


def big_little(tmp_path: Path, identities: tuple[str, str] = (CORTEX_A53, CORTEX_A72)) -> Machine:
    tree = sysfs_tree.arm_big_little(tmp_path)
    by_cpus = dict(zip(((0, 1, 2, 3), (4, 5)), identities, strict=True))
    return Machine(
        Sysfs(str(tree.sys)),
        Tracefs([str(tree.tracing)]),
        identity=lambda: identities[0],
        core_identity=lambda cpus: by_cpus[tuple(cpus)],
    )


def test_each_kind_of_arm_core_has_the_names_of_its_own_table(tmp_path: Path) -> None:
    """Names and formulas; a name that both have is counted on both, another on its kind only."""
    machine = big_little(tmp_path)
    attrs = {
        text: [(e.attr.type, e.attr.config) for e in parse_events(text, machine=machine)] for text in ("l1d_cache_refill_rd", "exc_irq")
    }
    assert attrs == {"l1d_cache_refill_rd": [(11, 0x42)], "exc_irq": [(10, 0x86), (11, 0x86)]}
    with pytest.raises(PerfError, match="no term or event 'l1d_cache_refill_rd'"):
        parse_events("armv8_cortex_a53/l1d_cache_refill_rd/", machine=machine)
    assert [metric.pmu for metric in metrics_named(machine, "ipc")] == ["armv8_cortex_a53", "armv8_cortex_a72"]
    listed = [metric for metric in Selector(machine, "").select("metric").metrics if metric.name == "ipc"]
    assert len(listed) == 1


def test_kinds_of_cores_with_one_identity_share_a_table(tmp_path: Path) -> None:
    """And without a table of a kind, the other has its own."""
    assert len(big_little(tmp_path / "a", (CORTEX_A53, CORTEX_A53)).named_events) == 1
    one = big_little(tmp_path / "b", ("GenuineIntel-6-", CORTEX_A72))
    assert [e.attr.type for e in parse_events("exc_irq", machine=one)] == [11]


def test_apple_s_cores_do_not_have_the_architecture_s_events(tmp_path: Path) -> None:
    tree = sysfs_tree.software_only(tmp_path).pmu("apple_icestorm_pmu", 9, {"event": "config:0-7"}, cpus="0-3")
    machine = Machine(Sysfs(str(tree.sys)), Tracefs([str(tree.tracing)]), identity=lambda: "0x00000000610f0220")
    with pytest.raises(PerfError, match="unknown event 'l1d_cache'"):
        parse_events("l1d_cache", machine=machine)


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

    def value(name: str) -> float:
        return value_of(parse_formula(formulas[name]), value) if name in formulas else counts[name if name in counts else name.lower()]

    assert value("tma_frontend_bound") == pytest.approx(0.05)


# `list --update-events`: a maker's files become the table of the CPU at hand.


IDENTITY = "GenuineIntel-6-55-4"
CORE = Pmu("cpu", "/sys/bus/event_source/devices/cpu", 4)
EVENTS = [
    {"EventName": "Retired.All", "EventCode": "0xC0", "UMask": "0x01", "SampleAfterValue": "2000003", "BriefDescription": "no room for it"},
    {"EventName": "UNC_READS", "EventCode": "0x04", "UMask": "0x03", "Unit": "iMC", "ScaleUnit": "64Bytes"},
    {"EventName": "old", "EventCode": "0x1", "Deprecated": "1"},
    {"EventName": "bad\tname", "EventCode": "0x1"},
    {"EventName": "split", "EventCode": "0x1", "Unit": "x\nE\tforged\t\tevent=1"},
]
METRICS = [{"MetricName": "ipc", "MetricExpr": "RETIRED.ALL / cycles", "MetricGroup": "Summary;Top", "ScaleUnit": "1insn"}]
ROWS = [
    "E\told\t\tevent=0x1\t\tsmall core\td",
    "E\tretired.all\t\tevent=0xc0,period=2000003,umask=0x1\t\tsmall core",
    "E\tunc_reads\timc\tevent=0x4,umask=0x3\t64Bytes\tsmall core",
    "F\tipc\tRETIRED.ALL cycles /\t1insn\tSummary;Top",
]


def metrics_named(table: VendorTable | Machine, name: str) -> list[MetricDefinition]:
    return [metric for metric in table.metrics if metric.name.lower() == name.lower()]


def test_a_metric_has_what_perf_knows_beyond_its_formula() -> None:
    """Of a hybrid CPU both kinds of core have it. What perf 6.12 knows beyond the formula is there."""
    table = table_of(SKYLAKE)
    assert table is not None
    (metric,) = metrics_named(table, "TMA_L1_Bound")
    assert (metric.name, metric.unit, metric.constraint) == ("tma_l1_bound", "100%", "")
    assert metrics_named(table, "tma_fp_vector")[0].constraint
    assert "TopdownL3" in metric.groups
    assert metric.threshold.startswith("tma_l1_bound > 0.1 & ")
    assert [one.name for one in metrics_named(table, "c6_pkg_residency")] == ["C6_Pkg_Residency"]
    hybrid = table_of(ALDER_LAKE)
    assert hybrid is not None
    assert {one.pmu for one in metrics_named(hybrid, "tma_backend_bound")} == {"cpu_core", "cpu_atom"}
    assert {one.constraint for one in hybrid.metrics} == {"", "nmi", "always"}


@pytest.mark.parametrize(
    ("identity", "name", "terms"),
    [
        ("0x00000000410fd0c0", "L1D_CACHE_REFILL", "event=0x3"),
        ("0x00000000410fd490", "stall_backend_mem", "event=0x4005"),
        ("0x00000000999f0010", "inst_retired", "event=0x8"),
        ("0x004e1202", "PM_CMPLU_STALL", "event=0x1e054"),
        ("0x489-0x8000000000000007-0x20181004", "fw_set_timer", "config=0x8000000000000005"),
        ("AuthenticAMD-25-11-1", "ex_ret_instr", "event=0xc0"),
        ("AuthenticAMD-25-11-1", "ExRetInstr", "event=0xc0"),
        ("AuthenticAMD-25-11-1", "ExRetInstrs", None),
    ],
)
def test_the_makers_spelling_is_known(identity: str, name: str, terms: str | None, tmp_path: Path) -> None:
    """In any case, and AMD's without underscores."""
    table = table_of(identity)
    pmu = Sysfs(str(sysfs_tree.intel_skylake(tmp_path).sys)).core_pmus[0]
    assert table is not None
    alias = table.alias(pmu, name)
    assert (alias and alias.terms) == terms


def test_rows_are_found_wherever_they_stand() -> None:
    """The first row, the last one without a newline, several of one name; none for a part of a name, or another kind."""
    text = "E\ta\t\tevent=1\nE\tb\t\tevent=2\nE\tb\tuncore_x\tevent=3\nE\tb.c\t\tevent=4\nF\tb\tx\nF\td\tx y +\nM\tz\ta / b"
    table = VendorTable(text, "")
    events = {name: (event := table.alias(CORE, name)) and event.terms for name in ("a", "A", "b", "b.c", "b.", "d", "z", "")}
    assert events == {"a": "event=1", "A": "event=1", "b": "event=2", "b.c": "event=4", "b.": None, "d": None, "z": None, "": None}
    assert [alias.name for alias in table.aliases(CORE)] == ["a", "b", "b.c"]
    assert [metric.name for metric in table.metrics] == ["b", "d", "z"]


def test_each_event_and_metric_of_the_packages_tables_is_found() -> None:
    """The rows are sorted, which the search relies on."""
    for path in Path(vendor_tables.__file__).parent.glob("tables/*/*.z"):
        text = zlib.decompress(path.read_bytes()).decode()
        rows = text.splitlines()
        assert rows == sorted(rows), path
        table = VendorTable(text, "")
        for row in rows[::7]:
            assert row in table._rows_from("\t".join(row.split("\t")[:2]))
        assert not [*table._rows_from("E\tno such event\t")]


def test_a_table_of_an_earlier_perfpy_has_its_metrics() -> None:
    table = VendorTable("E\ta\t\tevent=1\nM\tIpc\ta / b\t1x\tOne;Two\ta > 1\n", "")
    (metric,) = table.metrics
    assert metrics_named(table, "IPC") == [metric]
    assert (metric.name, metric.expression, metric.program, metric.groups) == ("Ipc", "a / b", "a b /", ("One", "Two"))
    assert metric.threshold_program == "a 1 >"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vendor, "_architecture", lambda: "x86")
    return tmp_path / "cache/perfpy/events"


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def perfmon(tmp_path: Path) -> Path:
    folder = tmp_path / "perfmon"
    rows = ["GenuineIntel-6-55-[01234],V1,/SKX/events/small-core.json,core,,,", "GenuineIntel-6-55-[56],V1,/CLX/none.json,core,,,"]
    rows += ["GenuineIntel-6-55-[01234],V1,/SKX/metrics/small_metrics.json,metrics,,,"]
    write(folder / "mapfile.csv", "\n".join(["Family-model,Version,Filename,EventType,Core Type,Native Model ID,Core Role Name", *rows]))
    write(folder / "SKX/events/small-core.json", {"Header": {}, "Events": EVENTS})
    write(folder / "SKX/metrics/perf/small_metrics_perf.json", METRICS)
    return folder


def made(source: str) -> list[str]:
    path, events, metrics = vendor.update(IDENTITY, source)
    rows = Path(path).read_text().splitlines()
    assert (events, metrics) == (sum(row[0] == "E" for row in rows), sum(row[0] == "F" for row in rows))
    return rows


def test_a_perfmon_repository(perfmon: Path, cache: Path) -> None:
    assert made(str(perfmon)) == ROWS
    assert [path.name for path in cache.iterdir()] == [IDENTITY]
    alias = VendorTable((cache / IDENTITY).read_text(), "").alias(CORE, "RETIRED.ALL")
    assert alias is not None
    assert alias.terms == "event=0xc0,period=2000003,umask=0x1"


@pytest.mark.parametrize("start", ["", "arch", "arch/x86"])
def test_the_kernel_s_files(tmp_path: Path, start: str) -> None:
    """From each of the folders that may be meant; what the architecture says of an event is refined by the CPU."""
    x86 = tmp_path / "pmu-events/arch/x86"
    write(x86 / "mapfile.csv", "Family-model,Version,Filename,EventType\nGenuineIntel-6-(54|55-[01234]),v1,skylakex,core\n")
    write(x86 / "skylakex/small-core.json", [*EVENTS, *METRICS, {"ArchStdEvent": "SHARED", "UMask": "0x7"}])
    write(x86 / "shared.json", [{"EventName": "SHARED", "EventCode": "0x9"}, {"EventName": "UNSHARED", "EventCode": "0x8"}])
    assert made(str(tmp_path / "pmu-events" / start)) == sorted([*ROWS, "E\tshared\t\tevent=0x9,umask=0x7\t\tsmall core"])


OTHERS = [
    ("x86", "AuthenticAMD-25-11-1", "AuthenticAMD-25-[[:xdigit:]]+", {"EventCode": "0x8a"}, "E\tmine\t\tevent=0x8a\t\tsome"),
    ("arm64", "0x00000000410fd0c0", "0x00000000410fd0c0", {"ArchStdEvent": "MINE"}, "E\tmine\t\tevent=0x13\t\tsome"),
    ("powerpc", "0x004e1202", "0x004e[[:xdigit:]]{4}", {"EventCode": "0x4D05E"}, "E\tmine\t\tevent=0x4d05e\t\tsome"),
    (
        *("riscv", "0x489-0x8000000000000007-0x4210427", "0x489-0x8000000000000007-0x[[:xdigit:]]+"),
        *({"EventCode": "0x0000102"}, "E\tmine\t\tevent=0x102\t\tsome"),
    ),
    (
        *("s390", "IBM,8561,703,T01,3.6,002f", r"^IBM.8561.*3\.[1-6].[[:xdigit:]]+$"),
        *({"EventCode": "32", "Unit": "CPU-M-CF"}, "E\tmine\tcpum_cf\tevent=0x20\t\tsome"),
    ),
]


@pytest.mark.parametrize(("architecture", "identity", "pattern", "said", "row"), OTHERS, ids=[row[0] for row in OTHERS])
def test_the_kernels_tree_for_every_architecture(
    architecture: str, identity: str, pattern: str, said: dict[str, str], row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row that matches is the CPU's; others are for its relatives."""
    monkeypatch.setattr(vendor, "_architecture", lambda: architecture)
    folder = tmp_path / "tools/perf/pmu-events/arch" / architecture
    write(
        folder / "mapfile.csv",
        f"# maker's\nFamily-model,Version,Filename,EventType\nother,1,none,core\n{pattern},1,own/cpu,core\n.*,1,more,core\n",
    )
    write(folder / "own/cpu/some.json", [{"EventName": "MINE", **said}])
    write(folder / "more/some.json", [{"EventName": "THEIRS", "EventCode": "1"}])
    write(folder / "shared.json", [{"EventName": "MINE", "EventCode": "0x13"}])
    path, events, _ = vendor.update(identity, str(tmp_path))
    assert (events, Path(path).read_text()) == (1, row + "\n")


@pytest.fixture
def address(perfmon: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(perfmon)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address(address: str) -> None:
    assert made(address) == ROWS


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, float], str]]:
    """Serve one answer to every request, byte by byte if there is a pause; return the address."""
    servers: list[socket.socket] = []

    def serve(answer: bytes, pause: float) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def work() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(4096)
                        for piece in [answer] if not pause else [answer[at : at + 1] for at in range(len(answer))]:
                            connection.sendall(piece)
                            time.sleep(pause)

        threading.Thread(target=work, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/"

    monkeypatch.setattr(vendor, "_SECONDS", 0.3)
    monkeypatch.setattr(vendor, "_LARGEST_DOWNLOAD", 1 << 16)
    yield serve
    for server in servers:
        server.close()


HEAD = b"HTTP/1.0 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (HEAD + b"\r\n" + b"a,b,c,d\n" * 1000, 0.05),  # a byte now and then, as sockets' time limits allow
        (HEAD + b"\r\n" + b"x" * (1 << 20), 0),  # more than a file may have
        (HEAD + b"Content-Length: 1000\r\n\r\nGenuineIntel", 0),  # less than was promised
        (b"HTTP/1.0 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", 0),
        (b"HTTP/1.0 302 Found\r\nLocation: ftp://127.0.0.1/mapfile.csv\r\n\r\n", 0),
        (b"garbage" * 100, 0),
        (HEAD.replace(b"1.0", b"1.1") + b"Transfer-Encoding: chunked\r\n\r\n100\r\ncut off", 0),
    ],
)
def test_a_server_that_lies_is_reported_in_time(answer: bytes, pause: float, liar: Callable[[bytes, float], str]) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"mapfile\.csv in http://"):
        vendor.update(IDENTITY, liar(answer, pause))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("path", ["a b\x01.json", "//other/x.json", "\u20ac.json"])
def test_names_that_a_server_gives_stay_on_the_server(path: str, liar: Callable[[bytes, float], str]) -> None:
    rows = f"{IDENTITY},V1,{path},core\n".encode()
    with pytest.raises((UsageError, ValueError), match="cannot read"):
        vendor.update(IDENTITY, liar(HEAD + b"\r\n" + rows, 0))


@pytest.mark.parametrize("pattern", ["(G|[A-Za-z0-9-]+)+$$", "(.*)*x", ".*.*.*.*.*x", "(a{1,9}){9}", "x" * 300])
def test_an_endless_pattern_matches_nothing(pattern: str, perfmon: Path) -> None:
    write(perfmon / "mapfile.csv", f'"{pattern}",V1,/SKX/events/small-core.json,core\n')
    began = time.monotonic()
    with pytest.raises(UsageError, match="has nothing for"):
        vendor.update(IDENTITY * 3, str(perfmon))
    assert time.monotonic() - began < 2


def test_an_update_replaces_the_old_table(perfmon: Path) -> None:
    made(str(perfmon))
    write(perfmon / "SKX/events/small-core.json", {"Events": EVENTS[:1]})
    write(perfmon / "SKX/metrics/perf/small_metrics_perf.json", [])
    assert made(str(perfmon)) == ROWS[1:2]


@pytest.mark.parametrize(
    ("identity", "change", "reason"),
    [
        ("GenuineIntel-6-1-1", {}, "has nothing for GenuineIntel-6-1-1"),
        ("", {}, "has no identity"),
        (IDENTITY, {"mapfile.csv": None}, "no mapfile.csv"),
        (IDENTITY, {"mapfile.csv": None}, "git clone https://github.com/intel/perfmon"),
        (IDENTITY, {"mapfile.csv": "GenuineIntel-6-55-4,V1,../../outside.json,core\n"}, "outside.json"),
        (IDENTITY, {"SKX/events/small-core.json": "{nonsense"}, "cannot read the event file"),
        (IDENTITY, {"SKX/events/small-core.json": None}, "cannot read SKX/events/small-core.json"),
        (IDENTITY, {"mapfile.csv": "GenuineIntel-6-[,V1,a.json,core\n"}, "has nothing for"),
    ],
)
def test_contradictions_are_reported_in_a_line(
    identity: str, change: dict[str, str | None], reason: str, perfmon: Path, cache: Path
) -> None:
    for name, content in change.items():
        if content is None:
            (perfmon / name).unlink()
        else:
            (perfmon / name).write_text(content)
    with pytest.raises((UsageError, ValueError), match=reason.replace(".", r"\.")):
        vendor.update(identity, str(perfmon))
    assert not list(cache.glob("*"))


def test_the_command_prints_the_number_of_events(
    perfmon: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERF_CPUID", IDENTITY)
    assert cli.run(["list", "--update-events", str(perfmon)]) == 0
    assert capsys.readouterr().out.startswith("installed 3 events and 1 metric of GenuineIntel-6-55-4 in ")
