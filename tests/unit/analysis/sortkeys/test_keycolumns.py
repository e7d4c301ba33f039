"""How sort keys group and word the numbers of their sources."""

from types import SimpleNamespace

import numpy as np

from perfpy.analysis.sortkeys import keycolumns


def test_commands_that_differ_in_numbers_only_are_one_row():
    facts = SimpleNamespace(comms=["kworker/0:1", "kworker/12:3", "sh"])
    column = keycolumns.comm_without_digits(facts, np.arange(3))
    assert [column.text(number) for number in range(3)] == ["kworker/<N>:<N>", "kworker/<N>:<N>", "sh"]
    assert column.same[0] == column.same[1] != column.same[2]


def test_sockets_of_unknown_cpus_are_minus_one():
    facts = SimpleNamespace(socket_of=lambda cpu: {0: 0, 1: 12}.get(cpu, -1))
    column = keycolumns.socket(facts, np.array([0, 1, 7]))
    assert [column.text(number) for number in range(3)] == ["000", "012", "-001"]


def test_cgroups_have_their_paths():
    facts = SimpleNamespace(cgroup_name={5: "/user.slice"}.get)
    column = keycolumns.cgroup(facts, np.array([0, 5, 6]))
    assert [column.text(number) for number in range(3)] == ["N/A", "/user.slice", "unknown"]
    assert column.wide(1) == len("/user.slice")
