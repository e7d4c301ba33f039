"""Command lines are read as perf reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli.line.options import argument, choice, fail, lacking_options, option, perf_command, workload
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from perfpy.cli.line.options import PerfCommand


@perf_command(runs_workload=True, ordered=("event", "filters"))
@option("-a", "--all-cpus", is_flag=True)
@option("-B", "--big-num", is_flag=True, default=True)
@option("-c", "--count", type=int)
@option("-e", "--event", multiple=True)
@option("--filter", "filters", multiple=True)
@option("-g", "call_graph", is_flag=True)
@option("-i", "--no-inherit", is_flag=True)
@option("-m", "--mmap-pages", default="auto", negated="none")
@option("-r", "--repeat", type=int, default=1)
@option("--realtime", type=int)
@option("-v", "--verbose", count=True)
@option("-z", "--compression-level", bare="1", type=int)
@option("--control", negatable=False)
@lacking_options({"-b,--branch-any": "it needs branch records", "--aio": "Python has threads"})
@workload
def sample(**values: object) -> int:
    """A command with an option of every kind."""
    received.update(values)
    return 7


@perf_command()
@option("-g", "--call-graph", bare="graph")
@option("-j", "--json", bare="-", takes_word=True)
@option("-n", "--show-nr-samples", is_flag=True)
@option("--percentage", type=choice("relative", "absolute"))
@option("--stdio", "view", is_flag=True, flag_value="plain")
@option("--tui", "view", is_flag=True, flag_value="screen", default="any")
@argument("words", nargs=-1)
def reading(**values: object) -> None:
    """A command without a workload: options may follow words."""
    received.update(values)


received: dict[str, object] = {}


def run(command: PerfCommand, *args: str) -> dict[str, object]:
    """What the command's function got."""
    received.clear()
    command.run("sample", args)
    return received


@pytest.mark.parametrize("spelling", [["-c", "99"], ["-c99"], ["--count", "99"], ["--count=99"], ["--coun", "99"], ["--coun=99"]])
def test_a_required_value_is_attached_or_follows(spelling):
    assert run(sample, *spelling)["count"] == 99


def test_a_required_value_may_look_like_an_option():
    assert run(sample, "-c", "-1", "--mmap-pages", "--")["count"] == -1


@pytest.mark.parametrize(
    ("args", "level", "program"),
    [
        (["-z", "22"], 1, ("22",)),
        (["-z22"], 22, ()),
        (["--compression-level", "22"], 1, ("22",)),
        (["--compression-level=22"], 22, ()),
    ],
)
def test_an_optional_value_is_only_ever_attached(args, level, program):
    values = run(sample, *args)
    assert (values["compression_level"], values["workload"]) == (level, program)


@pytest.mark.parametrize(
    ("args", "value"),
    [(["--json"], "-"), (["--json", "-n"], "-"), (["--json", "file"], "file"), (["--json=file", "word"], "file"), (["-jfile"], "file")],
)
def test_some_optional_values_may_be_the_next_word(args, value):
    assert run(reading, *args)["json"] == value


def test_flags_bundle_and_a_value_may_end_the_bundle():
    values = run(sample, "-agvvc1000", "true")
    assert (values["all_cpus"], values["call_graph"], values["verbose"], values["count"]) == (True, True, 2, 1000)
    assert values["workload"] == ("true",)


def test_an_optional_value_ends_a_bundle():
    values = run(reading, "-ng")
    assert (values["call_graph"], values["show_nr_samples"], values["words"]) == ("graph", True, ())
    assert run(reading, "-gcaller")["call_graph"] == "caller"


@pytest.mark.parametrize("args", [["prog", "-a", "--", "-x"], ["--", "prog", "-a", "--", "-x"]])
def test_the_workload_is_untouched(args):
    values = run(sample, "-v", *args)
    assert values["workload"] == ("prog", "-a", "--", "-x")
    assert not values["all_cpus"]


def test_a_workload_may_begin_with_a_dash_after_two_dashes():
    assert run(sample, "--", "-odd")["workload"] == ("-odd",)


def test_options_may_follow_words_where_there_is_no_workload():
    values = run(reading, "one", "-n", "two", "-", "--", "-n")
    assert values["words"] == ("one", "two", "-", "-n")
    assert values["show_nr_samples"] is True


def test_flags_are_negated_by_no():
    assert run(sample)["big_num"] is True
    assert run(sample, "--no-big-num")["big_num"] is False
    assert run(sample, "--no-big", "--big")["big_num"] is True
    assert run(sample, "-vv", "--no-verbose", "-v")["verbose"] == 1


def test_an_option_called_no_something_is_undone_by_its_opposite():
    assert run(sample, "--no-inherit")["no_inherit"] is True
    assert run(sample, "-i", "--inherit")["no_inherit"] is False
    assert run(sample, "-i", "--inh")["no_inherit"] is False


def test_a_negated_value_is_its_default_again_or_what_the_option_says():
    assert run(sample, "-r5", "--no-repeat")["repeat"] == 1
    assert run(sample, "-m8", "--no-mmap-pages")["mmap_pages"] == "none"
    assert run(sample, "-ea", "--no-event", "-eb")["event"] == ["b"]


def test_order_is_kept_for_options_that_depend_on_it():
    given_in_order = run(sample, "-e", "a", "--filter", "f1", "-eb", "--event=c", "--filter=f2")["ordered"]
    found = [(given.name, given.value) for given in given_in_order]
    assert found == [("event", "a"), ("filters", "f1"), ("event", "b"), ("event", "c"), ("filters", "f2")]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--re", "1"], "option --re is ambiguous: it may be --repeat or --realtime"),
        (["--evnt=x"], "unknown option --evnt; did you mean --event?"),
        (["--zzz"], "unknown option --zzz; -h lists the options"),
        (["-aX"], "unknown option -X; -h lists the options"),
        (["-e"], "option -e requires a value <str>"),
        (["--count"], "option --count requires a value <n>"),
        (["--all-cpus=3"], "option --all-cpus takes no value"),
        (["--no-count=3"], "option --no-count takes no value"),
        (["--no-control"], "option --no-control cannot be negated"),
        (["-b"], "option -b is perf's, but not perfpy's: it needs branch records"),
        (["-ab"], "option -b is perf's, but not perfpy's: it needs branch records"),
        (["--branch"], "option --branch is perf's, but not perfpy's: it needs branch records"),
        (["--aio=4"], "option --aio is perf's, but not perfpy's: Python has threads"),
    ],
)
def test_a_wrong_line_is_told_in_one(args, text):
    with pytest.raises(UsageError) as caught:
        run(sample, *args)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("command", "args", "text"),
    [
        (sample, ["-cx"], "option -c expects a whole number, not 'x'"),
        (sample, ["--count", "3000000000"], "option --count takes no number above 2147483647: 3000000000"),
        (sample, ["--count", "1.5"], "option --count expects a whole number, not '1.5'"),
        (reading, ["--percentage=half"], "option --percentage expects relative or absolute, not 'half'"),
        (reading, ["--no-help"], "option --no-help cannot be negated"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_option(command, args, text):
    with pytest.raises(UsageError) as caught:
        run(command, *args)
    assert str(caught.value) == text


def test_what_is_not_given_has_its_default():
    values = run(sample)
    assert values == {
        "all_cpus": False,
        "big_num": True,
        "call_graph": False,
        "compression_level": None,
        "control": None,
        "count": None,
        "event": [],
        "filters": [],
        "mmap_pages": "auto",
        "no_inherit": False,
        "ordered": [],
        "realtime": None,
        "repeat": 1,
        "verbose": 0,
        "workload": (),
    }


def test_several_flags_may_fill_one_parameter():
    assert run(reading)["view"] == "any"
    assert run(reading, "--stdio")["view"] == "plain"
    assert run(reading, "--stdio", "--tui")["view"] == "screen"
    assert run(reading, "--tui", "--no-tui")["view"] == "any"


def test_a_word_too_many_is_refused():
    @perf_command()
    def narrow() -> None:
        """Takes no word."""

    with pytest.raises(UsageError, match="unexpected argument 'word'"):
        run(narrow, "word")


def test_the_function_s_result_is_the_exit_status():
    assert sample.run("sample", []) == 7
    assert reading.run("reading", []) == 0


def test_help_wins_over_what_follows_it(capsys):
    assert sample.run("sample", ["-ah", "--zzz"]) == 129
    assert sample.run("sample", ["--help", "--zzz"]) == 0
    assert capsys.readouterr().out.count("-z, --compression-level[=<n>]") == 2


def test_help_hides_what_is_lacking(capsys):
    sample.run("sample", ["--help"])
    text = capsys.readouterr().out
    assert "--branch-any" not in text
    assert text.startswith("Usage: perfpy sample [OPTIONS] [--] [COMMAND [ARGS]...]\n")


def test_a_command_may_refuse_its_line_itself():
    with pytest.raises(UsageError, match="both"):
        fail("cannot have both")


@perf_command()
@option("--inline", is_flag=True, lacking="not read yet", undone=True)
@lacking_options({"--gtk": "no windows"})
def plain(**values: object) -> None:
    """A command that never does what one of its options asks for."""
    received.update(values)


@pytest.mark.parametrize("refused", ["--inline", "--gtk", "--no-gtk"])
def test_what_is_lacking_is_refused(refused: str):
    with pytest.raises(UsageError, match="but not perfpy's"):
        run(plain, refused)


def test_the_opposite_of_what_is_lacking_may_be_asked_for():
    assert run(plain, "--no-inline")["inline"] is False
