"""Samples as dimensions read them."""

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import SampleType
from perfpy.abi.samples.branches import BRANCH_DTYPE
from perfpy.analysis.samples.branches import branch_samples
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView


def view(*times: int) -> SampleView:
    """Return samples with times only."""
    time = np.array(times, np.uint64)
    columns = Columns(len(time), {"time": time})
    attrs = [EventAttr(sample_type=SampleType.TIME)]
    return SampleView(columns, np.zeros(len(time), np.int32), DeliveryOrder(time, time, np.arange(len(time))), attrs, None, None)  # type: ignore[arg-type]


def test_times_in_grains_are_rounded_down() -> None:
    assert view(0, 99, 100, 250).in_grains(100).column("time").tolist() == [0, 0, 100, 200]


def test_samples_are_still_delivered_at_their_own_times() -> None:
    assert view(99, 250).in_grains(100).key.tolist() == [99, 250]


def test_a_grain_of_nothing_rounds_nothing() -> None:
    assert view(99, 250).in_grains(0).column("time").tolist() == [99, 250]


def test_samples_without_times_stay_unchanged() -> None:
    samples = view(5).with_columns({})
    assert samples.in_grains(100) is samples


def test_the_period_of_a_reading_counts_also_where_the_event_has_a_fixed_one() -> None:
    attrs = [EventAttr(sample_type=SampleType.READ, sample_period=100), EventAttr(sample_type=SampleType.IP, sample_period=50)]
    time = np.arange(2, dtype=np.uint64)
    columns = Columns(2, {"period": np.array([123, 0], np.uint64)})
    samples = SampleView(columns, np.array([0, 1], np.int32), DeliveryOrder(time, time, time), attrs, None, None)  # type: ignore[arg-type]
    assert samples.period().tolist() == [123, 50]


def weighted_view() -> SampleView:
    """Return three samples with weights, the second without one."""
    samples = view(1, 2, 3)
    return samples.with_columns({**samples.columns, "weight": np.array([5, 0, 7], np.uint64)})


def test_periods_stay_with_selected_samples_and_columns() -> None:
    weighted = weighted_view().with_weights()
    assert weighted.period().tolist() == [5, 1, 7]
    assert weighted.take(np.array([2, 0])).period().tolist() == [7, 5]
    assert weighted.take(slice(None)).period().tolist() == [5, 1, 7]
    assert weighted.with_columns({}).period().tolist() == [5, 1, 7]
    assert weighted.in_grains(10).period().tolist() == [5, 1, 7]


def test_original_samples_stay_unchanged() -> None:
    samples = weighted_view()
    samples.with_weights()
    assert samples.counted_once().period().tolist() == [1, 1, 1]
    assert samples.period().tolist() == [0, 0, 0]


def test_branches_are_samples_of_their_own() -> None:
    stacks = np.array([(1, 2, 3), (4, 5, 6), (7, 8, 9)], BRANCH_DTYPE)
    samples = view(10, 20)
    samples = samples.with_columns({**samples.columns, "branch_stack": Ragged(stacks, np.array([0, 2, 3]))})
    branches = branch_samples(samples)
    assert branches.column("branch_to").tolist() == [2, 5, 8]
    assert branches.column("time").tolist() == [10, 10, 20]
    assert branches.period().tolist() == [1, 1, 1]
    assert "branch_to" not in samples.columns
