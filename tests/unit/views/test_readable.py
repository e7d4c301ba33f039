"""Names that runtimes pack more into, as people read them."""

from __future__ import annotations

import subprocess

import pytest

from perfpy.views.readable import command_text, readable, source_file


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("py::main:/srv/app.py", "main (app.py)"),
        ("py::Parser.<locals>.<lambda>:app.py", "Parser.<locals>.<lambda> (app.py)"),
        ("[.] py::loads:/usr/lib/python3.11/json/__init__.py", "[.] loads (json/__init__.py)"),
        ("py::<module>:/srv/tool/__main__.py", "<module> (tool/__main__.py)"),
        ("py::_find_and_load:<frozen importlib._bootstrap>", "_find_and_load (<frozen importlib._bootstrap>)"),
        ("py::f:<ipython-input-1:2>", "f (<ipython-input-1:2>)"),
        ("py::f:/a b/c:d.py", "f (c:d.py)"),
        ("py::run:/srv/", "run (/srv/)"),
        ("std::vector<py::object>::push_back", "std::vector<py::object>::push_back"),
        ("py::cast<int>(py::handle)", "py::cast<int>(py::handle)"),
        ("py::main:", "py::main:"),
        ("main", "main"),
    ],
)
def test_the_function_comes_first_and_then_its_file(name: str, output: str):
    assert readable(name) == output


def test_the_file_is_reported_whole():
    assert source_file("py::main:/srv/app.py") == "/srv/app.py"
    assert source_file("py::cast<int>(py::handle)") == ""


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("a", "a"),
        ("a b", "'a b'"),
        ("it's", '"it\'s"'),
        ("say 'a' \"b\"", '"say \'a\' \\"b\\""'),
        ("'$HOME' `x` \\", "\"'\\$HOME' \\`x\\` \\\\\""),
        ("it's!", "'it'\"'\"'s!'"),
        ("", "''"),
    ],
)
def test_a_command_has_few_quotes_and_a_shell_reads_it_back(word: str, text: str):
    assert command_text(["run", word]) == f"run {text}"
    assert subprocess.run(["sh", "-c", f"printf %s {command_text([word])}"], capture_output=True, text=True, check=True).stdout == word
