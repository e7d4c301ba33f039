"""`perfpy mem` and `c2c`: accesses to memory, and the cache lines that CPUs share."""

from __future__ import annotations

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import SampleType
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.cli import run
from perfpy.cli.commands import load_command
from perfpy.errors import PerfError
from perfpy.kernel.sysfs import Sysfs
from perfpy.tools.mem.accesses import KINDS, KindCounts, MemoryNodes, count_kinds, memory_nodes, read_accesses
from perfpy.tools.mem.cache_lines import cache_lines, line_rows, physical_memory, rounded_means
from perfpy.tools.mem.command import choose_memory_events, memory_events
from tests.builders import memory_accesses as built
from tests.builders.memory_accesses import HIT, L3, SNOOP_HITM, access, access_recording, data_src
from tests.builders.perfdata import simple_recording
from tests.builders.sysfs_tree import Tree

# Tests of mem: the arguments for record and report, and the events of machines.


BOTH = ("load", "store")


def events_of(tmp_path, *pmus, latency=30):
    tree = Tree(tmp_path)
    for name, formats, events, files in pmus:
        tree.pmu(name, 4, formats, events, **files)
    return memory_events(Sysfs(str(tree.sys)), latency)


def intel(name="cpu", **events):
    return name, {"event": "config:0-7", "ldlat": "config1:0-15"}, {"mem-loads": "event=0xcd", "mem-stores": "event=0xd0", **events}, {}


def test_intel_samples_loads_above_a_latency_and_stores(tmp_path):
    events = events_of(tmp_path, intel(), latency=50)
    assert choose_memory_events(events, (), BOTH) == ["cpu/mem-loads,ldlat=50/P", "cpu/mem-stores/P"]
    assert choose_memory_events(events, (), ("store",)) == ["cpu/mem-stores/P"]
    assert choose_memory_events(events, ("ldlat-loads",), BOTH) == ["cpu/mem-loads,ldlat=50/P"]


def test_newer_intel_needs_a_leader_for_loads(tmp_path):
    events = events_of(tmp_path, intel(**{"mem-loads-aux": "event=0x3"}))
    assert events[0].text == "{cpu/mem-loads-aux/,cpu/mem-loads,ldlat=30/}:P"


def test_amd_samples_both_by_one_event(tmp_path):
    events = events_of(tmp_path, ("ibs_op", {"cnt_ctl": "config:19"}, {}, {}))
    assert choose_memory_events(events, (), BOTH) == ["ibs_op//"]
    assert choose_memory_events(events, ("mem-ldst",), BOTH) == ["ibs_op//"]


@pytest.mark.parametrize("kind", BOTH)
def test_amd_cannot_sample_one_kind_alone(kind, tmp_path):
    with pytest.raises(PerfError, match=f"^-t {kind}: ibs_op// samples loads and stores together; drop -t$"):
        choose_memory_events(events_of(tmp_path, ("ibs_op", {"cnt_ctl": "config:19"}, {}, {})), (), (kind,))


ZEN_5: tuple[str, dict[str, str], dict[str, str], dict[str, str]] = ("ibs_op", {"ldlat": "config1:0-11"}, {}, {})


@pytest.mark.parametrize(
    ("latency", "text"), [(-1, "ibs_op/ldlat=0/"), (0, "ibs_op/ldlat=0/"), (128, "ibs_op/ldlat=128/"), (2048, "ibs_op/ldlat=2048/")]
)
def test_zen_5_samples_loads_above_a_latency_all_by_default(latency, text, tmp_path):
    assert [event.text for event in events_of(tmp_path, ZEN_5, latency=latency)] == [text]


@pytest.mark.parametrize("latency", [30, 127, 2049])
def test_zen_5_has_limits_of_the_latency(latency, tmp_path):
    with pytest.raises(PerfError, match=f"--ldlat {latency}: ibs_op selects loads of 128 to 2048 cycles"):
        events_of(tmp_path, ZEN_5, latency=latency)


def test_both_kinds_of_cores_are_sampled_and_listed_once(tmp_path, monkeypatch, capsys):
    cores = {"cpu_core": ("0-1", {"mem-loads-aux": "event=0x3"}), "cpu_atom": ("2-3", {})}
    pmus = []
    for name, (cpus, more) in cores.items():
        _, formats, own, _ = intel(**more)
        pmus.append((name, formats, own, {"cpus": cpus}))
    events = events_of(tmp_path, *pmus)
    loads = ["cpu_atom/mem-loads,ldlat=30/P", "{cpu_core/mem-loads-aux/,cpu_core/mem-loads,ldlat=30/}:P"]
    assert sorted(choose_memory_events(events, ("ldlat-loads",), BOTH)) == loads
    monkeypatch.setattr("perfpy.tools.mem.command.memory_events", lambda _sysfs, _latency: events)
    assert run(["mem", "record", "-e", "list"]) == 0
    assert capsys.readouterr().out == "ldlat-loads  : available\nldlat-stores : available\n"


def test_arm_has_filters_for_loads_and_stores(tmp_path):
    events = events_of(tmp_path, ("arm_spe_0", {"load_filter": "config:0"}, {}, {}))
    assert choose_memory_events(events, (), BOTH) == ["arm_spe_0/ts_enable=1,pa_enable=1,load_filter=1,store_filter=1,min_latency=30/"]
    assert "store_filter=1" in choose_memory_events(events, (), ("store",))[0]


def test_power_has_no_latency(tmp_path):
    events = events_of(tmp_path, ("cpu", {"event": "config:0-59"}, {"mem-loads": "event=0x1", "mem-stores": "event=0x2"}, {}))
    assert choose_memory_events(events, (), BOTH) == ["cpu/mem-loads/", "cpu/mem-stores/"]


def test_a_machine_without_events_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(PerfError, match="no PMU of this machine samples memory accesses"):
        choose_memory_events(events_of(tmp_path, ("software", {}, {}, {})), (), BOTH)


def test_an_unknown_event_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(PerfError, match="ldlat-loads, ldlat-stores"):
        choose_memory_events(events_of(tmp_path, intel()), ("loads",), BOTH)


@pytest.fixture
def forwarded(monkeypatch):
    """The words that mem hands on to record or report."""
    words: list[list[str]] = []

    def run(name: str, args: list[str]) -> int:
        words.append([name, *args])
        return 0

    for name in ("record", "report"):
        monkeypatch.setattr(load_command(name), "run", run)
    return words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report", ["--mem-mode", "-n"]),
        ("-t load report -i x -f", ["--mem-mode", "-n", "--input=x", "--force"]),
        ("report -t store", ["--mem-mode", "-n", "--sort=mem,sym,dso,symbol_daddr,dso_daddr,tlb,locked"]),
        ("report -s mem -p", ["--mem-mode", "-n", "--sort=mem,phys_daddr"]),
        (
            "report --stdio --symfs DIR --no-children -x, word",
            ["--mem-mode", "-n", "--field-separator=,", "--stdio", "--symfs=DIR", "--no-children", "word"],
        ),
        ("report -S main --call-graph=caller", ["--mem-mode", "-n", "--symbols=main", "--call-graph=caller"]),
    ],
)
def test_report_gets_its_options(line, words, forwarded):
    assert run(["mem", *line.split()]) == 0
    assert forwarded == [["report", *words]]


def test_record_gets_events_and_its_options(forwarded, tmp_path, monkeypatch):
    events = events_of(tmp_path, intel())
    monkeypatch.setattr("perfpy.tools.mem.command.memory_events", lambda _sysfs, _latency: events)
    assert run(["mem", "record", "-p", "-o", "x", "-K", "--", "./program", "-a"]) == 0
    chosen = ["-e", "cpu/mem-loads,ldlat=30/P", "-e", "cpu/mem-stores/P"]
    assert forwarded == [["record", "-d", "--phys-data", "--weight", "--all-kernel", *chosen, "--output=x", "./program", "-a"]]
    assert run(["c2c", "record", "-l", "30", "-u", "-g", "./program"]) == 0
    own = ["-d", "--phys-data", "--sample-cpu", "--weight", "--all-user"]
    assert forwarded[1] == ["record", *own, *chosen, "-g", "./program"]
    assert run(["mem", "record", "-t", "store", "./program"]) == 0  # stores have no latency
    assert forwarded[2] == ["record", "-d", "-e", "cpu/mem-stores/P", "./program"]


def test_events_are_listed(tmp_path, monkeypatch, capsys):
    events = events_of(tmp_path, intel())
    monkeypatch.setattr("perfpy.tools.mem.command.memory_events", lambda _sysfs, _latency: events)
    assert run(["mem", "record", "-v", "-e", "list"]) == 0
    assert (
        capsys.readouterr().out == "ldlat-loads  cpu/mem-loads,ldlat=30/P : available\nldlat-stores cpu/mem-stores/P         : available\n"
    )
    assert run(["mem", "record", "-e", "list", "-v"]) == 0  # as in perf, -v has to precede
    assert capsys.readouterr().out == "ldlat-loads  : available\nldlat-stores : available\n"


@pytest.mark.parametrize("line", ["report -t loads", "report -T", "report --nonsense", "nonsense"])
def test_wrong_lines_are_refused(line, capsys):
    assert run(["mem", *line.split()]) == 129
    assert capsys.readouterr().err.count("\n") == 1


def test_accesses_are_lines(tmp_path, capsys):
    path = tmp_path / "x"
    path.write_bytes(access(access(access_recording(), data_src()), data_src(), ip=0x1, cpu=3).file())
    assert run(["mem", "report", "-D", "-x,", "-i", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL"
    assert lines[1:] == ["10,10,0x400010,0x600008,50,0x100142,/bin/prog-alpha:???", "10,10,0x1,0x600008,50,0x100142,???:???"]
    assert run(["mem", "-C", "3", "report", "-D", "-i", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_cpus_that_samples_lack_are_refused(tmp_path, capsys):
    path = tmp_path / "x"
    path.write_bytes(access_recording(fields=SampleType.IDENTIFIER | SampleType.IP | SampleType.TID).file())
    assert run(["mem", "report", "-D", "-C", "1", "-i", str(path)]) == 255
    output = capsys.readouterr()
    assert not output.out
    assert "no CPU field; drop -C" in output.err


def test_samples_without_a_source_have_that_of_unknown_ones_as_in_perf(tmp_path, capsys):
    path = tmp_path / "x"
    path.write_bytes(simple_recording().file())
    assert run(["mem", "report", "-D", "-x,", "-i", str(path)]) == 0
    assert {line.split(",")[5] for line in capsys.readouterr().out.splitlines()[1:]} == {"0x1e05080021"}


# Tests that accesses count where perf counts them; tests/versus_perf/test_memory_accesses.py compares thousands.


def counted(word: int, *, address: int = 0x600008, is_mapped: bool = True) -> dict[str, int]:
    words = count_kinds(np.array([word], np.uint64), np.array([address], np.uint64), np.array([is_mapped]))
    counts = KindCounts(words, np.zeros(1, np.int64), 1)
    return {name: int(counts[name][0]) for name in KINDS if counts[name][0]}


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        (data_src(level=built.HIT | built.L1), {"load": 1, "load_l1": 1}),
        (data_src(level=built.HIT | built.L3, snoop=built.SNOOP_HITM), {"load": 1, "local_hitm": 1}),
        (data_src(level=built.HIT | built.L3), {"load": 1, "load_llc": 1}),
        (data_src(level=built.HIT | built.REMOTE_CACHE, snoop=built.SNOOP_HITM), {"load": 1, "remote_hitm": 1}),
        (data_src(level=built.HIT | built.REMOTE_CACHE, snoop=0, peer=built.PEER), {"load": 1, "remote_hit": 1, "remote_peer": 1}),
        (data_src(level=built.HIT | built.LOCAL_RAM, snoop=built.SNOOP_HIT), {"load": 1, "local_dram": 1, "shared": 1}),
        (data_src(level=built.HIT, remote=1, hops=1), {"load": 1}),
        (data_src(level=built.HIT, remote=1), {"load": 1, "remote_dram": 1, "exclusive": 1}),
        (data_src(level=built.HIT | built.LOCAL_RAM, remote=1), {"load": 1, "local_dram": 1, "remote_dram": 1, "exclusive": 2}),
        (data_src(built.STORE, built.HIT | built.L1), {"store": 1, "store_l1": 1}),
        (data_src(built.STORE, built.MISS | built.L1, lock=2), {"store": 1, "store_l1_miss": 1, "locks": 1}),
        (data_src(built.STORE, 1), {"store": 1, "store_unknown": 1}),
        (0, {"unparsed": 1}),
    ],
)
def test_kinds_of_an_access(word, kinds):
    assert counted(word) == kinds


def test_an_access_without_an_address_counts_as_that_alone():
    assert counted(data_src(), address=0) == {"load": 1, "load_no_address": 1}


def test_an_access_without_mappings_counts_twice():
    """As in perf: its level, and the lack of a mapping."""
    assert counted(data_src(), is_mapped=False) == {"load": 1, "load_l1": 1, "unmapped": 1}


# Tests of accesses grouped by cache line.


HITM = data_src(level=HIT | L3, snoop=SNOOP_HITM)


def lines_of(path, built, size=64):
    path.write_bytes(built.file())
    recording = perfpy.open(path)
    timeline = recording.make_timeline(keep_exited=True)
    symbolizer = recording.new_symbolizer(timeline, None)
    accesses = read_accesses(recording.data, timeline, symbolizer)
    nodes = memory_nodes(recording.data)
    return accesses, cache_lines(accesses, symbolizer, nodes, size), symbolizer, nodes


def test_anonymous_memory_at_one_address_is_a_line_for_each_process(tmp_path):
    built = access_recording()
    for pid in (10, 20, 10):
        access(built, HITM, pid=pid, tid=pid)
    _, lines, _, _ = lines_of(tmp_path / "x", built)
    assert lines.counts.hitm.tolist() == [2, 1]
    assert lines.address.tolist() == [0x600000, 0x600000]


def test_lines_are_in_order_of_their_files_inodes(tmp_path):
    """As in perf, so that lines with equal numbers are, too. Anonymous memory comes first, whatever its name."""
    built = access_recording()
    ids = SampleId(pid=10, tid=10, time=2, cpu=0, identifier=1, id=1)
    for start, inode, name in ((0x800000, 9, "/z"), (0x900000, 7, "/y"), (0xA00000, 8, "/x"), (0xB00000, 0, "[heap]")):
        built.record(Mmap2(2, 10, 10, start, 0x1000, 0, 8 if inode else 0, 1 if inode else 0, inode, 0, 3, 2, name, b"", ids))
    for start in (0x800000, 0x900000, 0xA00000, 0xB00000):
        access(built, HITM, addr=start + 8)
    assert lines_of(tmp_path / "x", built)[1].address.tolist() == [0xB00000, 0x900000, 0xA00000, 0x800000]


def test_pairs_of_lines_are_one_line_of_128_bytes(tmp_path):
    built = access_recording()
    for address in (0x600008, 0x600048, 0x600088):
        access(built, HITM, addr=address)
    assert lines_of(tmp_path / "x", built)[1].counts.hitm.tolist() == [1, 1, 1]
    assert lines_of(tmp_path / "x", built, 128)[1].counts.hitm.tolist() == [2, 1]


def test_lines_with_a_thousandth_of_the_accesses_are_hidden(tmp_path):
    built = access_recording()
    for _ in range(2000):
        access(built, HITM)
    access(built, HITM, addr=0x601008)
    _, lines, _, _ = lines_of(tmp_path / "x", built)
    assert lines.ranked("tot", show_all=False) == [0]
    assert lines.ranked("tot", show_all=True) == [0, 1]


def test_rows_of_a_line_are_offset_and_code(tmp_path):
    built = access_recording()
    for address, ip in ((0x600008, 0x400010), (0x600010, 0x400010), (0x600008, 0x400020), (0x600008, 0x400010)):
        access(built, HITM, addr=address, ip=ip)
    accesses, lines, symbolizer, nodes = lines_of(tmp_path / "x", built)
    rows = line_rows(accesses, lines, [0], ("iaddr",), "tot", symbolizer, nodes)
    assert rows.offset[rows.order].tolist() == [8, 8, 16]
    assert rows.counts.hitm[rows.order].tolist() == [2, 1, 1]


def test_memory_without_nodes_has_none():
    nodes = MemoryNodes({}, {}, 0)
    sets, changes = physical_memory(np.array([0, 5, 5, 6, 0, 6], np.uint64), np.zeros(6, np.int64), 1, nodes)
    assert (sets, changes.tolist()) == ([()], [2])
    assert nodes.of_cpus(np.array([3, -1, 1 << 20], np.int32)).tolist() == [-1, -1, -1]


def test_a_recording_without_nodes_has_a_report(tmp_path, capsys):
    """perf refuses it."""
    built = access(access_recording(nodes=()), HITM)
    path = tmp_path / "x"
    path.write_bytes(built.file())
    assert run(["c2c", "report", "--stdio", "-i", str(path)]) == 0
    assert "0x600000   N/A" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["-d", "all"], ["-c", "cpu"]])
def test_unknown_words_are_refused(words, capsys):
    assert run(["c2c", "report", *words]) == 129
    assert "expected" in capsys.readouterr().err


def test_a_recording_without_accesses_is_refused(tmp_path, capsys):

    path = tmp_path / "x"
    path.write_bytes(simple_recording().file())
    assert run(["c2c", "report", "-i", str(path)]) == 255
    assert "record with perfpy c2c record" in capsys.readouterr().err


def test_a_cut_recording_has_a_report(tmp_path, capsys):
    """Every length, in steps: no traceback."""
    whole = access(access(access_recording(), HITM), HITM).file()
    path = tmp_path / "x"
    for size in range(104, len(whole), 397):
        path.write_bytes(whole[:size])
        assert run(["c2c", "report", "--stdio", "-i", str(path)]) in (0, 255)
        assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("fields", ["tid,dso", "dso", "dso,tid"])
def test_rows_of_equal_counts_are_ordered_by_the_files_names(fields, tmp_path, capsys):
    """And perf's columns of names are as wide as the longest name in bytes."""
    recording = access_recording()
    ids = SampleId(pid=10, tid=10, time=2, cpu=0, identifier=1, id=1)
    recording.record(Comm(0, 10, 10, "wörk", ids))
    for start, name in ((0x800000, "/lib/thr"), (0x900000, "/lib/libc.so.6")):
        recording.record(Mmap2(2, 10, 10, start, 0x1000, 0, 8, 1, start, 0, 5, 2, name, b"", ids))
    for number, ip in enumerate((0x800010, 0x900010)):
        access(recording, data_src(level=HIT | L3, snoop=SNOOP_HITM), time=100 + number, ip=ip)
    path = tmp_path / "perf.data"
    path.write_bytes(recording.file())
    assert run(["c2c", "report", "--stdio", "-c", fields, "-i", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [word for line in lines for word in line.split() if word in ("thr", "libc.so.6")] == ["libc.so.6", "thr"]
    if "tid" in fields:
        assert any("     10:wörk  " in line for line in lines)
        assert any(line.startswith("# .....") and ("." * 13) in line.split() for line in lines)


def test_verbose_tables_show_addresses_and_whole_paths(tmp_path, capsys):
    """A column is as narrow as its names, also below a wider heading."""
    recording = access_recording()
    ids = SampleId(pid=10, tid=10, time=2, cpu=0, identifier=1, id=1)
    recording.record(Mmap2(2, 10, 10, 0x800000, 0x1000, 0, 8, 1, 9, 0, 5, 2, "/opt/thr", b"", ids))
    access(recording, data_src(level=HIT | L3, snoop=SNOOP_HITM), time=100, ip=0x800010)
    (tmp_path / "perf.data").write_bytes(recording.file())
    line = {}
    for option in ("--stdio", "-v"):
        assert run(["c2c", "report", option, "--no-source", "-i", str(tmp_path / "perf.data")]) == 0
        line[option] = next(line for line in capsys.readouterr().out.splitlines() if "800010" in line)
    assert "  [.] 0x0000000000000010  thr " in line["--stdio"]
    assert "  0x10               ! [.] 0x00" in line["-v"]
    assert "  /opt/thr " in line["-v"]


def test_latencies_of_64_bits_are_kept(tmp_path):
    recording = access_recording(fields=built.access_recording().attrs[0].sample_type & ~SampleType.WEIGHT_STRUCT | SampleType.WEIGHT)
    for number, cycles in enumerate((5, 10**12, 10**12 + 8)):
        access(recording, data_src(level=HIT | L3, snoop=SNOOP_HITM), time=100 + number, weight=cycles)
    path = tmp_path / "perf.data"
    path.write_bytes(recording.file())
    with perfpy.open(path) as opened:
        assert read_accesses(opened.data, opened.timeline, opened.symbolizer()).weight.tolist() == [5, 10**12, 10**12 + 8]


def test_means_of_64_bit_latencies_are_whole_and_unsigned() -> None:
    group = np.array([0, 0, 1, 1, 3])
    values = np.array([2**64 - 2**20, 2**64 - 2**20, 10**12, 10**12 + 3, 7], np.uint64).astype(np.float64)
    assert [f"{mean:.0f}" for mean in rounded_means(group, values, 4).tolist()] == [str(2**64 - 2**20), "1000000000002", "0", "7"]
