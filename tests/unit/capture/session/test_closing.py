"""The last lines of a recording."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.capture.record_options import Callchain, RecordOptions
from perfpy.capture.session import closing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.session.output import DataFile

PEOPLE = RecordOptions(notes=True)
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
CYCLES = EventAttr(type=PerfType.HARDWARE, sample_period=1000)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, sample_period=1, sample_type=int(SampleType.PERIOD))


def sampled(**values: Any) -> RecordOptions:
    """Options for a person, with these for samples."""
    return PEOPLE._replace(sampling=PEOPLE.sampling._replace(**values))


def lines(
    samples: int | None,
    lost: int = 0,
    options: RecordOptions = PEOPLE,
    *,
    hint: str = "",
    ring: int = 512 << 10,
    attr: EventAttr = CLOCK,
    hit_files: Sequence[str] = (),
) -> list[str]:
    file = cast("DataFile", SimpleNamespace(samples=samples, lost=lost, hint=hint, attrs=[attr], hit_files=hit_files))
    return [*closing.judgement(file, options, ring)]


def test_a_good_recording_is_called_so_and_how_exact_it_is():
    assert lines(10_000) == ["note: a good recording: 10000 samples, none lost; a share of 10 % is accurate to 0.6 points"]


@pytest.mark.parametrize("file", ["/usr/bin/python3.13", "/opt/lib/libpython3.12.so.1.0", "/usr/lib/libpython3.13t.so.1.0"])
def test_a_note_names_the_option_for_python_programs(file):
    first, *_ = lines(10_000, hit_files=["/usr/lib/libc.so.6", file])
    assert first == "note: this is a Python program; record --python has its functions and lines"
    for others in ({"python": True}, {"jit": True}, {"notes": False}, {"target": PEOPLE.target._replace(all_cpus=True)}):
        assert not any("Python" in line for line in lines(10_000, options=PEOPLE._replace(**others), hit_files=[file]))
    assert not any("Python" in line for line in lines(10_000, hit_files=["/usr/lib/python3/dist-packages/a.so", "/opt/python"]))


class Processes:
    """A /proc with parents and CPU times."""

    def __init__(self, **processes: tuple[int, int]) -> None:
        self._processes = {int(name[1:]): process for name, process in processes.items()}

    def parents(self) -> dict[int, tuple[int, int]]:
        return self._processes


def children(target: dict[str, Any], **processes: tuple[int, int]) -> list[str]:
    options = PEOPLE._replace(target=PEOPLE.target._replace(**target))
    return [*closing.busy_children(options, cast("Any", Processes(**processes)))]


def test_a_note_names_children_that_do_the_work():
    family = {"p1": (0, 900), "p10": (1, 5), "p11": (10, 40), "p12": (11, 50), "p13": (1, 70)}
    assert children({"pid": "10"}, **family) == ["note: -p leaves out 2 child processes, which do most of the work: record -p 10,11,12"]
    assert children({"pid": "10,11"}, **family) == ["note: -p leaves out 1 child process, which does most of the work: record -p 10,11,12"]
    assert not children({"pid": "1"}, **family), "the chosen one uses more"
    assert not children({"pid": "12"}, **family), "no children"
    assert not children({"pid": "99"}, **family)
    assert not children({}, **family)
    assert not children({"pid": "10", "all_cpus": True}, **family)


def test_processes_that_are_their_own_parents_end():
    assert not children({"pid": "10"}, p10=(11, 50), p11=(10, 2), p12=(12, 3))


def test_few_samples_come_with_a_remedy():
    (line,) = lines(100, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(freq=99)))
    assert "100 samples are few" in line
    assert "5.9 points" in line
    assert "raise -F (99 Hz)" in line


def test_no_samples_come_with_a_remedy():
    assert "-a" in lines(0)[0]


@pytest.mark.parametrize(
    ("options", "attr", "ring", "remedies"),
    [
        (PEOPLE, CLOCK, 512 << 10, "larger buffers (-m 2M) or a lower frequency (-F 2000)"),
        (sampled(freq=99), CLOCK, 4096, "larger buffers (-m 16K) or a lower frequency (-F 49)"),
        (sampled(period=1), FAULTS, 32 << 20, "larger buffers (-m 64M) or a higher count (-c 2)"),
        (sampled(period=1), FAULTS, 64 << 20, "a higher count (-c 2)"),
        (PEOPLE, CYCLES, 64 << 20, "a higher count (-c 2000)"),
        (PEOPLE, TRACEPOINT, 64 << 20, "a filter (--filter)"),
        (
            sampled(callchain=Callchain("dwarf", 32768), period=1),
            FAULTS,
            64 << 20,
            "smaller copies of stacks (--call-graph dwarf,8192) or a higher count (-c 2)",
        ),
    ],
)
def test_losses_come_with_their_share_and_remedies_that_can_be_typed(options, attr, ring, remedies):
    assert lines(750, 250, options, ring=ring, attr=attr)[0] == f"warning: 250 samples were lost (25.0 %): try {remedies}"


def test_a_higher_count_is_as_high_as_the_losses_ask_for():
    assert "-c 4)" in lines(250, 750, sampled(period=1), attr=FAULTS)[0]
    assert "1 sample was lost" in lines(250, 1, attr=FAULTS)[0]


@pytest.mark.parametrize("attr", [FAULTS, TRACEPOINT])
def test_a_recording_of_every_event_is_exact_however_few_there_are(attr):
    assert lines(100, attr=attr) == ["note: 100 samples, none lost: every event has its sample"]
    assert lines(10_000, attr=attr) == ["note: 10000 samples, none lost: every event has its sample"]


def test_few_samples_of_a_count_ask_for_a_lower_one():
    assert lines(100, options=sampled(period=1000), attr=CYCLES)[0].endswith("record for longer, or lower -c (1000)")


def test_scripts_get_the_warning_of_losses_only():
    assert lines(10, options=RecordOptions()) == []
    assert len(lines(10, 1, RecordOptions())) == 1


def test_uncounted_losses_are_not_judged():
    assert lines(None) == []
    assert lines(0, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(no_samples=True))) == []


def test_a_hint_on_call_chains_is_not_followed_by_praise():
    assert lines(10_000, hint="call chains end") == ["note: call chains end"]


def test_a_brief_recording_leaves_accuracy_and_small_losses_to_the_report():
    brief = PEOPLE._replace(brief=True)
    assert lines(10_000, options=brief) == lines(10, options=brief) == lines(10_000, lost=3, options=brief) == []
    assert lines(10_000, lost=3000, options=brief)[0].startswith("warning: 3000 samples were lost")
    assert lines(0, options=brief)[0].startswith("note: no samples")
