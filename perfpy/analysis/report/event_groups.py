"""Event groups: which events share a table.

What enters: the groups as they were recorded. What leaves: for each event the
leader of its group and its ordinal in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.perfdata.container.feature_values import EventGroup


class EventGroups(NamedTuple):
    """Which events share a table: for each event the index of its leader, and its ordinal in the group.

    titles: of the groups, by leader; sizes: how many events were recorded as one group, by leader.
    """

    leader: tuple[int, ...]
    member: tuple[int, ...]
    titles: Mapping[int, str]
    sizes: Mapping[int, int]

    @classmethod
    def of(cls, count: int, recorded: Sequence[EventGroup], wanted: bool | None) -> EventGroups:
        """`count` events, grouped as recorded; not at all if wanted is False; all together if it is True and none is."""
        leader, member, titles = list(range(count)), [0] * count, {}
        sizes = {group.leader: group.members for group in recorded}
        if wanted is not None and not recorded:
            sizes = {0: count}  # to perf they are a group then, even if it is not to be shown
        shared = [] if wanted is False else [(group.leader, group.members, group.name) for group in recorded]
        if wanted and not recorded:
            shared = [(0, count, "")]
        for first, members, name in shared:
            titles[first] = "anon group" if name == "{anon_group}" else name
            for position in range(1, min(members, count - first)):
                leader[first + position], member[first + position] = first, position
        return cls(tuple(leader), tuple(member), titles, sizes)
