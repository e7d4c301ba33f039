"""What a machine offers, how words choose among it, and the three texts made of it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.errors import KernelRefusedError
from perfpy.events.descriptions import Descriptions
from perfpy.events.listing import Checker, EventInfo, Selector, forgiving, known_reason, marker_names, raw_descriptors
from perfpy.events.machine import Machine
from perfpy.events.vendor_tables import MetricDefinition
from perfpy.kernel.sysfs import Sysfs, Tracefs
from perfpy.views.list_text import GROUPS, METRICS, JsonList, NameList, TextList, wrap
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from perfpy.abi.attr import EventAttr
    from perfpy.kernel import Kernel


def names(machine: Machine, *words: str, unsupported: bool = False) -> list[str]:
    selector = Selector(machine, "/nonexistent", unsupported=unsupported)
    chosen = [selector.select(word) for word in words] or [selector.everything()]
    return [info.name for selection in chosen for info in selection.infos]


def test_sections_by_their_words(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_skylake(tmp_path).machine()
    assert names(machine, "sw")[:2] == ["alignment-faults", "bpf-output"]
    assert names(machine, "software")[-3:] == ["duration_time", "user_time", "system_time"]
    assert "cpu-cycles" in names(machine, "hw")
    assert len(names(machine, "cache")) == 32
    assert names(machine, "pmu")[:2] == ["cache-misses", "cpu-cycles"]
    assert names(machine, "tracepoint")[0] == "sched:sched_stat_wait"
    assert names(machine, "hw", "sw")[0] == "branch-instructions"


def test_without_a_pmu_no_hardware_event_is_offered_by_default(tmp_path: Path) -> None:
    machine = sysfs_tree.software_only(tmp_path).machine()
    assert names(machine, "hw") == []
    assert len(names(machine, "hw", unsupported=True)) == 10


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("sched:sched_w*", ["sched:sched_wakeup", "sched:sched_waking"]),
        ("tsc", ["msr/tsc/"]),
        ("cs", ["context-switches"]),
        ("openat", ["syscalls:sys_enter_openat", "syscalls:sys_exit_openat"]),
        ("TOOL", ["duration_time", "user_time", "system_time"]),
        ("nothing", []),
        ("shed:*", []),
    ],
)
def test_any_other_word_is_searched_in_names_aliases_and_topics(word: str, found: list[str], tmp_path: Path) -> None:
    assert names(sysfs_tree.software_only(tmp_path).machine(), word) == found


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("ctx sw", "context-switches"),
        ("pagefault", "page-faults"),
        ("br miss", "branch-misses"),
        ("mjr flt", "major-faults"),
        ("sched_swich", "sched:sched_switch"),
        ("clok task", "task-clock"),
    ],
)
def test_a_search_that_forgives(text: str, best: str, tmp_path: Path) -> None:
    selector = Selector(sysfs_tree.software_only(tmp_path).machine(), "/nonexistent", unsupported=True)
    assert best in [info.name for info in forgiving(text, selector.everything().infos)][:3]
    assert forgiving("qqqqq", selector.everything().infos) == []
    assert forgiving("--", selector.everything().infos) == []


def test_twin_pmus_are_listed_once_and_raw_terms_by_family(tmp_path: Path) -> None:
    listed = names(sysfs_tree.intel_skylake(tmp_path).machine())
    assert listed.count("uncore_imc/cas_count_read/") == 1
    (imc,) = [name for name in listed if name.startswith("uncore_imc/") and name.endswith("/modifier")]
    assert imc.endswith(",.../modifier")
    assert set(imc.removeprefix("uncore_imc/").split(",")[:3]) < {"edge", "event=0..255", "thresh=0..255", "inv", "umask=0..255"}
    assert {"intel_pt/cyc,psb_period=0..15/modifier", "intel_pt/psb_period=0..15,cyc/modifier"} & set(listed)
    assert "intel_pt//" in listed
    assert listed.index("rNNN") < listed.index("mem:<addr>[/len][:access]") < listed.index("sched:sched_switch")


def skylake_server(root: Path) -> Machine:
    tree = sysfs_tree.intel_skylake(root)
    return Machine(Sysfs(str(tree.sys)), Tracefs([str(tree.tracing)]), identity=lambda: "GenuineIntel-6-55-4")


def test_events_of_tables_have_descriptions_of_perfpy(tmp_path: Path) -> None:
    """Written ones, and others made of the words of the name and of its terms; none where they are not wanted."""
    machine = skylake_server(tmp_path)
    infos = {info.name: info for info in Selector(machine, "").select("pmu").infos}
    assert infos["mem_load_retired.l3_miss"].description == "Loads that missed the L3 cache"
    assert infos["dtlb_load_misses.stlb_hit"].description == "Data TLB load misses: second-level TLB hits"
    assert infos["l1d_pend_miss.pending_cycles"].description.endswith("(cycles with at least 1)")
    assert infos["cpu-cycles"].description == ""
    assert not any(info.description for info in Selector(machine, "", described=False).select("pmu").infos)
    assert all(metric.description for metric in Selector(machine, "").select("metric").metrics)


def test_groups_of_the_top_down_method_are_described() -> None:
    describe = Descriptions()
    assert describe.group("TopdownL2") == "Metrics of level 2 of the top-down method"
    assert describe.group("tma_memory_bound_group") == "Parts of tma_memory_bound"
    assert describe.group("Power") == ""
    assert describe.metric("tma_some_stalls", "100%") == "Share of time or slots: some stalls"
    assert describe.metric("tma_info_thread_ipc") == "Instructions per cycle of the hardware thread"
    assert describe.event("a_b", "event=0x1,cmask=0x2,inv,edge") == "Address b (beginnings of cycles with fewer than 2)"


def test_a_search_looks_into_descriptions(tmp_path: Path) -> None:
    infos = Selector(skylake_server(tmp_path), "").select("pmu").infos
    assert "mem_load_retired.l3_miss" in [info.name for info in forgiving("loads missed l3", infos)]


def test_a_word_selects_metrics_by_name_in_all_groups_and_by_group_in_that_group(tmp_path: Path) -> None:
    selector = Selector(skylake_server(tmp_path), "")
    groups = {metric.name: metric.groups for metric in selector.select("miss").metrics}
    assert groups["tma_mite"] == ("DSBmiss",)
    assert {"FetchLat", "TopdownL3"} < set(groups["tma_icache_misses"])
    assert "tma_backend_bound" not in groups


def test_the_long_list_has_each_pmu_and_tells_its_cpus_and_counters(tmp_path: Path) -> None:
    """The kernel refuses a group of more events than counters; events of tables are listed once for a family."""
    machine = skylake_server(tmp_path)
    listed = names_of(Selector(machine, "", every_pmu=True).everything().infos)
    assert {"uncore_imc_0/cas_count_read/", "uncore_imc_1/cas_count_read/"} <= set(listed)
    assert listed.count("unc_m_cas_count.rd") == 1
    kernel = FourCounters()
    texts = {info.name.partition("/")[0]: info.long_description for info in raw_descriptors(machine, cast("Kernel", kernel))}
    assert texts["cpu"].endswith("all CPUs; 4 counters")
    assert texts["uncore_imc"].endswith("; 4 counters")
    assert texts["intel_pt"] == ""
    assert kernel.open_fds == set()


class FourCounters:
    """A kernel whose PMUs have four counters."""

    def __init__(self) -> None:
        self.open_fds: set[int] = set()

    def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1) -> int:
        assert (pid, cpu) == (0, -1) or (pid == -1 and cpu >= 0)
        if len(self.open_fds) == 4:
            raise KernelRefusedError("perf_event_open", 22)
        self.open_fds.add(len(self.open_fds))
        return len(self.open_fds) - 1

    def close(self, fd: int) -> None:
        self.open_fds.remove(fd)


def names_of(infos: Iterable[EventInfo]) -> list[str]:
    return [info.name for info in infos]


def test_tracefs_that_cannot_be_read_leaves_the_rest_and_gives_the_reason(tmp_path: Path) -> None:
    machine = Machine(sysfs_tree.software_only(tmp_path).machine().sysfs, Tracefs([str(tmp_path / "nowhere")]))
    selector = Selector(machine, "/nonexistent")
    assert [info.name for info in selector.everything().infos][-1] == "mem:<addr>[/len][:access]"
    assert len(selector.refusals) == 1


def test_markers_of_two_files_are_distinguished(tmp_path: Path) -> None:
    for build_id, path in (("aa11", "usr/lib/one.so"), ("bb22", "usr/lib/two.so")):
        folder = tmp_path / path / build_id
        folder.mkdir(parents=True)
        only = "%sdt_x:only=only\n" if build_id == "aa11" else ""
        (folder / "probes").write_text(f"%sdt_x:both=both\np:sdt_x/both /{path}:0x10\n{only}")
        link = tmp_path / ".build-id" / build_id[:2] / build_id[2:]
        link.parent.mkdir(parents=True)
        link.symlink_to(folder)
    assert marker_names(str(tmp_path)) == ["sdt_x:both@/usr/lib/one.so(aa11)", "sdt_x:both@/usr/lib/two.so(bb22)", "sdt_x:only"]
    assert marker_names("/nonexistent") == []


def text_of(infos: list[EventInfo], **options: Any) -> str:
    file = io.StringIO()
    view = TextList(file, 60, **options)
    for info in infos:
        view.info(info)
    return file.getvalue()


DESCRIBED = EventInfo(
    "unc.read", "Kernel PMU event", topic="memory", pmu="uncore_imc", description="Reads, all of them", encoding=lambda: "imc/event=1/"
)


def test_text_shows_topics_descriptions_with_their_unit_and_encodings() -> None:
    plain = EventInfo("context-switches", "Software event", "cs")
    assert text_of([plain]) == "  context-switches OR cs                             [Software event]\n"
    assert text_of([DESCRIBED, plain], encodings=True) == (
        "\nmemory:\n  unc.read\n       [Reads,all of them. Unit: uncore_imc]\n        imc/event=1/\n"
        "  context-switches OR cs                             [Software event]\n"
    )
    assert text_of([DESCRIBED], descriptions=False) == "\nmemory:\n  unc.read\n"


@pytest.mark.parametrize(
    ("text", "width", "start", "lines"),
    [
        ("", 20, 8, [""]),
        ("aaaa bbbb,cccc dddd", 19, 8, ["aaaa bbbb,", "cccc dddd"]),
        ("x" * 100, 20, 8, ["x" * 100]),
        ("a\nb", 20, 8, ["a", "b"]),
        ("a\n\n,", 40, 2, ["a", ","]),
        (" counts cache , this), [Kernel [Kernel a", 20, 2, ["counts cache ,", "this),[Kernel", "[Kernel a"]),
        ("x,y ,,,event],the a,,b\n ,z\n\na,,b,a,,b ,, x,y", 79, 4, ["x,y ,,,event],the a,,b", "z", "a,,b,a,,b ,,x,y"]),
        ("misses ,z ,a,,b\n\ninstructions ,, retired,", 79, 4, ["misses ,z ,a,,b", "instructions ,,retired,"]),
        ("counts \nevent]\t(Note: cache\nevent]", 40, 2, ["counts event] (Note: cache", "event]"]),
        ("this) \nmisses, missesof, \n,,\n (Note: (Note:", 20, 8, ["this) misses,", "missesof,,,", "(Note:", "(Note:"]),
        ("x,y instructions  retired,a ,event]x,y", 12, 2, ["x,y", "instructions", "retired,a ,", "event]x,y"]),
        ("counts x,y the ,PMU,a", 12, 4, ["counts x,", "y the ,", "PMU,a"]),
    ],
)
def test_long_texts_break_at_blanks_and_commas(text: str, width: int, start: int, lines: list[str]) -> None:
    assert wrap(text, width, start) == ("\n" + " " * start).join(lines)


def test_texts_with_blanks_only_break_as_others_do() -> None:
    """The short way for most descriptions has the result of the long one, also for words that are wider than the line."""
    for text in ("a bb ccc dddd", "a" * 30, f"{'b' * 30} c", f"a {'b' * 30} c dd", "a b"):
        for width in range(40):
            shown = wrap(text, width, 4)
            assert shown.replace("\n    ", " ") == text
            assert wrap(f" {text}", width, 4) == shown


def test_names_in_a_row_prefer_the_alias() -> None:
    file = io.StringIO()
    view = NameList(file)
    view.info(EventInfo("context-switches", "Software event", "cs"))
    view.info(DESCRIBED)
    view.close()
    assert file.getvalue() == "cs unc.read "


def test_json_parses_and_keeps_perfs_order_of_keys() -> None:
    file = io.StringIO()
    view = JsonList(file)
    view.info(DESCRIBED._replace(deprecated=True, scale_unit="64Bytes", description='a "b"'))
    view.info(EventInfo("dummy", "Software event"))
    view.close()
    first, second = json.loads(file.getvalue())
    assert list(first) == ["Unit", "Topic", "EventName", "ScaleUnit", "EventType", "Deprecated", "BriefDescription", "Encoding"]
    assert first["BriefDescription"] == 'a "b"'
    assert second == {"EventName": "dummy", "EventType": "Software event"}
    empty = io.StringIO()
    JsonList(empty).close()
    assert empty.getvalue() == "[\n]\n"


METRIC_LIST = [MetricDefinition("ipc", "instructions / cycles", "", "per cycle", groups=("Summary", "Top"))]


@pytest.mark.parametrize(
    ("show", "expected"),
    [
        ("all", "\nMetric Groups:\n\nSummary:\n  ipc\n       [per cycle]\n\nTop:\n  ipc\n       [per cycle]\n"),
        (METRICS, "\nMetrics:\n\n  ipc\n       [per cycle]\n  ipc\n       [per cycle]\n"),
        (GROUPS, "\nMetric Groups:\n\nSummary\nTop\n"),
    ],
)
def test_metrics_in_perfs_three_forms(show: str, expected: str) -> None:
    file = io.StringIO()
    TextList(file).metrics(METRIC_LIST, show)
    assert file.getvalue() == expected


class RefusingKernel:
    """Opens software events only."""

    def __init__(self) -> None:
        self.opened = 0

    def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event="") -> int:
        if attr.type != 1:
            raise KernelRefusedError("perf_event_open", 2, event=event, cause="not here")
        self.opened += 1
        return 99

    def close(self, fd: int) -> None:
        assert fd == 99


def test_a_check_opens_events_and_prints_the_kernels_reason(tmp_path: Path) -> None:
    machine = sysfs_tree.software_only(tmp_path).machine()
    kernel = RefusingKernel()
    checker = Checker(machine, kernel)  # type: ignore[arg-type]
    infos = {info.name: info for info in Selector(machine, "/nonexistent", unsupported=True).everything().infos}
    assert checker.check(infos["dummy"]) == ""
    assert kernel.opened == 1
    assert checker.check(infos["msr/tsc/"]) == "not here"
    assert checker.check(infos["sched:sched_switch"]) == "not here"
    assert checker.check(infos["rNNN"]) == ""
    assert "no PMU" in checker.check(infos["cpu-cycles"])
    assert known_reason(infos["dummy"], machine) == ""


def shown(rows: list[tuple[EventInfo, str]], *, checked: bool = False) -> str:
    from rich.console import Console

    from perfpy.views.list_tables import print_tables

    file = io.StringIO()
    print_tables(rows, METRIC_LIST, Console(file=file, width=70, markup=False, highlight=False), checked=checked)
    return file.getvalue()


def test_tables_describe_events_and_why_they_cannot_be_opened() -> None:
    text = shown([(EventInfo("cpu-cycles", "Hardware event", "cycles"), "no PMU"), (EventInfo("dummy", "Software event"), "")])
    assert "cannot be opened: no PMU" in text
    assert "counts nothing" in text
    assert "instructions" not in text
    assert "per cycle" in text
    assert "opens - counts nothing" in shown([(EventInfo("dummy", "Software event"), "")], checked=True)
    assert "refused - counts nothing" in shown([(EventInfo("dummy", "Software event"), "refused")], checked=True)


def test_many_tracepoints_come_as_a_paragraph_a_system() -> None:
    infos = [(EventInfo(f"sys{number % 2}:event_{number}", "Tracepoint event"), "") for number in range(100)]
    lines = shown(infos).splitlines()
    assert any(line.startswith("sys0: event_0 event_2 ") for line in lines)
    assert all(len(line) <= 70 for line in lines)
    assert len(lines) < 60
