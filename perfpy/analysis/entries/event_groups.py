"""Event groups: the events that share a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.perfdata.container.feature_values import EventGroup


class EventGroups(NamedTuple):
    """The table of each event, by the index of its leader, and the event's ordinal in the group.

    Attributes:
        leader, member: of each event.
        titles: of the groups, by leader.
        sizes: the recorded number of members, by leader.
    """

    leader: tuple[int, ...]
    member: tuple[int, ...]
    titles: Mapping[int, str]
    sizes: Mapping[int, int]

    @classmethod
    def of(cls, count: int, recorded: Sequence[EventGroup], as_groups: bool | None) -> EventGroups:
        """Group `count` events as recorded; not at all if as_groups is False; all together if it is True and none are recorded."""
        leader, member, titles = list(range(count)), [0] * count, {}
        sizes = {group.leader: group.members for group in recorded}
        if as_groups is not None and not recorded:
            sizes = {0: count}  # perf treats them as a group then, even if it is not shown
        shared = [] if as_groups is False else [(group.leader, group.members, group.name) for group in recorded]
        if as_groups and not recorded:
            shared = [(0, count, "")]
        for first, members, name in shared:
            titles[first] = "anon group" if name == "{anon_group}" else name
            for position in range(1, min(members, count - first)):
                leader[first + position], member[first + position] = first, position
        return cls(tuple(leader), tuple(member), titles, sizes)
