"""The index of pieces is linear in them, however they lie."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.symbols import mappings
from perfpy.symbols.mappings import FOREVER, Mapping, SpaceBuilder, find_lines
from tests.builders.timeline import dsos, exited, fork, mmap, timeline

if TYPE_CHECKING:
    from perfpy.symbols.mappings import AddressSpaces


PAGE = 0x1000


def nested(count: int) -> SpaceBuilder:
    """Return mappings, each inside the one before."""
    builder = SpaceBuilder()
    space = builder.new_space()
    for number in range(count):
        builder.insert(space, Mapping(number * PAGE, (2 * count - number) * PAGE, 0, number % 10), number + 1)
    return builder


def test_nested_mappings_take_memory_by_their_number():
    count = 3000
    builder = nested(count)
    tracemalloc.start()
    builder.build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * 3000  # an entry for each address that each holds takes 100 times that


def test_the_innermost_of_nested_mappings_holds_an_address_from_its_rank_on():
    count = 500
    spaces = nested(count).build()
    moment, page = (grid.ravel() for grid in np.meshgrid(np.arange(1, count + 1), np.arange(2 * count)))
    result, born = spaces.find(np.zeros(len(page), np.int32), (page * PAGE).astype(np.uint64), moment.astype(np.int32))
    depth = np.minimum(np.minimum(page, 2 * count - 1 - page), moment - 1)
    assert (result == depth).all()
    assert (born <= moment).all()


@pytest.mark.parametrize("largest", [2, 5, 1024])
def test_long_and_short_mappings_over_each_other_agree_with_a_plain_replay(largest: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mappings, "_LARGEST", largest)
    rng = np.random.default_rng(1)
    builder, held = SpaceBuilder(), np.full(400, -1)
    space = builder.new_space()
    log = [held.copy()]
    for rank in range(1, 300):
        start = int(rng.integers(0, 390))
        end = min(start + int(rng.choice([1, 5, 40, 300])), 400)
        builder.insert(space, Mapping(start, end, 0, rank % 5), rank)
        held[start:end] = rank % 5
        log.append(held.copy())
    spaces = builder.build()
    moment, address = (grid.ravel() for grid in np.meshgrid(np.arange(300), np.arange(400)))
    result, _ = spaces.find(np.zeros(len(address), np.int32), address.astype(np.uint64), moment.astype(np.int32))
    assert (np.where(result >= 0, spaces.dso[result], -1) == np.array(log)[moment, address]).all()


# Chains of forks joined to lines answer as the chains do, in few steps.


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Join chains of any length."""
    monkeypatch.setattr(mappings, "_DEPTH", 0)


def chain(length: int) -> AddressSpaces:
    """Return a space with a mapping, and a chain of spaces that each map something else."""
    builder = SpaceBuilder()
    space = builder.new_space()
    builder.insert(space, Mapping(0x1000, 0x2000, 0, 7), 1)
    for number in range(1, length):
        space = builder.new_space(space, 2 * number)
        builder.insert(space, Mapping(0x10000 * number, 0x10000 * number + 0x1000, 0, 8), 2 * number + 1)
    return builder.build()


def find_first(spaces: AddressSpaces, length: int) -> list[int]:
    """Return the dso of each space of a chain at the first one's mapping."""
    last = np.full(length, FOREVER - 1, np.int32)
    result, _ = spaces.find(np.arange(length, dtype=np.int32), np.full(length, 0x1000, np.uint64), last)
    dsos_found: list[int] = np.where(result >= 0, spaces.dso[result], -1).tolist()
    return dsos_found


def test_a_look_up_in_a_long_chain_takes_few_steps(monkeypatch: pytest.MonkeyPatch):
    length, steps = 4000, 0
    spaces = chain(length)
    search = np.searchsorted

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        return search(*args, **options)

    monkeypatch.setattr(np, "searchsorted", counted)
    assert find_first(spaces, length) == [7] * length
    assert steps < 100


def test_a_space_in_a_chain_has_its_own_dsos_and_its_parent():
    spaces = chain(100)
    assert (spaces.dsos(0), spaces.dsos(99), spaces.parent(99), spaces.parent(0)) == ([7], [8], 98, -1)


def test_short_chains_stay_unchanged():
    assert find_lines(np.arange(-1, 30, dtype=np.int32), np.zeros(31, np.int32)) is None


@pytest.mark.parametrize(("seed", "is_joined"), [*((seed, True) for seed in range(6)), (3, False)])
@pytest.mark.slow
def test_random_histories_agree_with_a_plain_replay(seed: int, is_joined: bool, request: pytest.FixtureRequest):
    if is_joined:
        request.getfixturevalue("joined")
    rng = random.Random(seed)
    builder = SpaceBuilder()
    plain: list[dict[int, int]] = []  # every address of every space, copied at forks
    log: list[list[dict[int, int]]] = [[]]
    for rank in range(1, 200):
        if not plain or rng.random() < 0.2:
            parent = rng.randrange(max(len(plain) - 4, 0), len(plain)) if plain and rng.random() < 0.95 else -1
            builder.new_space(parent, rank)
            plain.append(dict(plain[parent]) if parent >= 0 else {})
        else:
            space, start, dso = rng.randrange(len(plain)), rng.randrange(40), rng.randrange(4)
            end = start + rng.randrange(1, 12)
            builder.insert(space, Mapping(start, end, 0, dso), rank)
            plain[space].update(dict.fromkeys(range(start, end), dso))
        log.append([dict(space) for space in plain])
    spaces = builder.build()
    queries = [(space, address, rank) for rank in range(1, 200, 3) for space in range(len(log[rank])) for address in range(52)]
    places, addresses, ranks = (np.array(column) for column in zip(*queries, strict=True))
    result, _ = spaces.find(places.astype(np.int32), addresses.astype(np.uint64), ranks.astype(np.int32))
    got = np.where(result >= 0, spaces.dso[result], -1).tolist()
    assert got == [log[when][where].get(at, -1) for where, at, when in queries]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
def test_samples_of_joined_chains_have_the_mappings_of_their_time(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Samples use views, which are valid for a span of ranks."""
    rng = random.Random(seed)
    records: list[tuple[int, Any]] = [(0, mmap(1, 0x1000, 0x8000, "/first"))]
    pids = [1]
    for key in range(1, 120):
        pid = rng.choice(pids[-4:])
        if rng.random() < 0.25:
            pids.append(len(pids) + 1)
            records.append((key, fork(pids[-1], pid)))
        elif rng.random() < 0.05:
            records.append((key, exited(pid)))
        else:
            records.append((key, mmap(pid, rng.randrange(16) * 0x1000, rng.randrange(1, 6) * 0x1000, f"/{rng.randrange(6)}")))
    samples = [(pid, page * 0x1000, key) for key in range(120) for pid in pids for page in range(20)]
    one_by_one = dsos(timeline(*records), *samples)
    monkeypatch.setattr(mappings, "_DEPTH", 0)
    assert dsos(timeline(*records), *samples) == one_by_one
    assert len(set(one_by_one)) > 5
