"""Configured defaults of callchains in reports."""

import pytest

from perfpy.cli.line.perfconfig import Config
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.cli.report.request import call_graph

THRESHOLD, ROWS = {"call-graph.threshold": "10"}, {"report.percent-limit": "2"}


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, 0.5),
        (THRESHOLD, 10),
        (ROWS, 2),
        (THRESHOLD | ROWS, 2),
    ],
)
def test_the_configured_limit_of_rows_is_that_of_callers_too(config, limit):
    assert call_graph(ReportCommandOptions(call_graph="graph"), children=False, config=Config(config)).percent == limit


def test_counts_of_branches_leave_the_rest_as_it_is():
    """Chains have none: they are not made of branch records."""
    argument_lists = [
        call_graph(ReportCommandOptions(call_graph=text), children=False, config=Config())
        for text in ("graph,srcline,branch", "graph,srcline")
    ]
    assert argument_lists[0] == argument_lists[1]
