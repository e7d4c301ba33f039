"""What is tried after a refusal: the order in which perf 6.12 gives features up (seen by strace)."""

from __future__ import annotations

from errno import EACCES, EINVAL, ENOENT, EOPNOTSUPP, EPERM

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import FLAG_FD_CLOEXEC, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.events.fallback import Attempt, first_attempt, next_attempt, replacement


def changes(attr: EventAttr, errno: int = EINVAL, *, precise_max: bool = False, leads: bool = True) -> list[dict[str, int]]:
    """What differs from one attempt to the next, until there is none left."""
    results = []
    attempt: Attempt | None = first_attempt(attr, leads=leads)
    while attempt:
        after = next_attempt(attempt, errno, precise_max=precise_max)
        if after:
            names = [name for name in EventAttr.__slots__ if getattr(attempt.attr, name) != getattr(after.attr, name)]
            results.append({name: getattr(after.attr, name) for name in names} | ({"flags": 0} if attempt.flags != after.flags else {}))
        attempt = after
    return results


def test_a_sampling_event_gives_up_the_newest_feature_first() -> None:
    attr = EventAttr(type=9, read_format=ReadFormat.ID | ReadFormat.LOST, bpf_event=1, ksymbol=1, mmap2=1, exclude_guest=1, sample_id_all=1)
    assert changes(attr) == [
        {"read_format": ReadFormat.ID},
        {"bpf_event": 0},
        {"ksymbol": 0},
        {"flags": 0},
        {"mmap2": 0},
        {"exclude_guest": 0},
        {"sample_id_all": 0},
    ]


def test_callchains_are_taken_at_once_where_they_cannot_be_put_off() -> None:
    attr = EventAttr(type=9, defer_callchain=1, defer_output=1, read_format=ReadFormat.LOST)
    assert changes(attr)[:2] == [{"defer_callchain": 0, "defer_output": 0}, {"read_format": 0}]


def test_weights_and_clocks_step_down_in_perfs_order() -> None:
    attr = EventAttr(type=9, sample_type=SampleType.WEIGHT_STRUCT, use_clockid=1, clockid=4)
    assert changes(attr) == [{"sample_type": SampleType.WEIGHT}, {"clockid": 1}, {"use_clockid": 0, "clockid": 0}, {"flags": 0}, {}]


def test_a_count_is_tried_four_times() -> None:
    assert changes(EventAttr(type=5, exclude_guest=1)) == [{"flags": 0}, {"exclude_guest": 0}, {}]


def test_only_a_leader_gives_up_group_reads() -> None:
    attr = EventAttr(type=1, inherit=1, read_format=ReadFormat.GROUP | ReadFormat.ID)
    assert changes(attr)[-1] == {"read_format": 0}
    assert changes(attr, leads=False)[-1] == {}


def test_events_requested_by_name_have_no_fallback() -> None:
    attr = EventAttr(type=0, sample_type=SampleType.CODE_PAGE_SIZE, mmap2=1)
    assert changes(attr) == []
    assert changes(EventAttr(type=0, write_backward=1)) == []


def test_only_einval_on_the_first_cpu_and_thread_means_a_missing_feature() -> None:
    attempt = first_attempt(EventAttr(type=9, mmap2=1))
    assert next_attempt(attempt, EPERM) is None
    assert next_attempt(attempt, EINVAL, first=False) is None


def test_precision_is_lowered_step_by_step_for_the_modifier_p_only() -> None:
    attr = EventAttr(precise_ip=3)
    assert changes(attr, ENOENT, precise_max=True) == [{"precise_ip": 2}, {"precise_ip": 1}, {"precise_ip": 0}]
    assert changes(attr, ENOENT) == []


def test_missing_features_are_remembered_for_one_pmu() -> None:
    attempt: Attempt | None = first_attempt(EventAttr(type=9, exclude_guest=1))
    while attempt:
        last, attempt = attempt, next_attempt(attempt, EINVAL)
    same = first_attempt(EventAttr(type=9, exclude_guest=1, mmap2=1), last.missing)
    assert (same.attr.exclude_guest, same.attr.mmap2, same.flags) == (0, 1, 0)
    other = first_attempt(EventAttr(type=1, exclude_guest=1), last.missing)
    assert other.attr.exclude_guest == 1
    assert first_attempt(EventAttr()).flags == FLAG_FD_CLOEXEC


@pytest.mark.parametrize("errno", [ENOENT, EOPNOTSUPP])
@pytest.mark.parametrize(
    ("on_cpus", "clock", "name"), [(False, SoftwareId.TASK_CLOCK, "task-clock"), (True, SoftwareId.CPU_CLOCK, "cpu-clock")]
)
def test_cycles_without_a_pmu_become_a_clock(errno: int, on_cpus: bool, clock: int, name: str) -> None:
    result = replacement("cycles:P", EventAttr(precise_ip=3), errno, on_cpus=on_cpus, paranoid=2)
    assert result is not None
    assert (result.attr.type, result.attr.config, result.name) == (PerfType.SOFTWARE, clock, f"{name}:ppp")
    assert name in result.message


@pytest.mark.parametrize(
    ("name", "output"), [("cs", "cs:u"), ("cs:H", "cs:Hu"), ("cpu/event=1/", "cpu/event=1/u"), ("mem:0x1000:w", "mem:0x1000:wu")]
)
def test_users_without_access_to_the_kernel_count_user_space_under_a_name_with_u(name: str, output: str) -> None:
    result = replacement(name, EventAttr(type=1, config=3), EACCES, on_cpus=False, paranoid=2)
    assert result is not None
    assert (result.name, result.attr.exclude_kernel, result.attr.exclude_hv) == (output, 1, 1)


def test_there_is_no_other_event_for_the_rest() -> None:
    cs = EventAttr(type=1, config=3)
    assert replacement("cs", cs, EACCES, on_cpus=False, paranoid=1) is None
    assert replacement("cs", cs.copy(exclude_kernel=1), EACCES, on_cpus=False, paranoid=2) is None
    assert replacement("cs", cs.copy(exclude_user=1), EACCES, on_cpus=False, paranoid=2) is None
    assert replacement("instructions", EventAttr(config=1), ENOENT, on_cpus=False, paranoid=2) is None
