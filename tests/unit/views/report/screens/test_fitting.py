"""Tests of shortened names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perfpy.views.report.screens.fitting import OF_OTHERS, fit_text, fitted_path

NAMES = st.text(st.sampled_from("ab_:é…世界<>"), min_size=1, max_size=40)


@given(NAMES, st.integers(0, 50))
def test_text_fits_and_is_unchanged_if_it_fits_already(name: str, width: int) -> None:
    text = fit_text(name, width)
    assert cell_len(text) <= width
    assert (text == name) == (cell_len(name) <= width)


@given(st.lists(NAMES, min_size=1, max_size=8), st.integers(1, 100))
def test_paths_fit_and_count_the_missing_names(names: list[str], width: int) -> None:
    text = fitted_path(names, " > ", width)
    assert cell_len(text) <= width
    if cell_len(" > ".join(names)) <= width:
        assert text == " > ".join(names)


def test_the_end_of_a_functions_name_and_the_beginning_of_a_files_are_kept() -> None:
    assert fit_text("std::__shared_count<…>::__shared_count(…)", 20) == "std::__…d_count(…)"[:7] + "…" + "red_count(…)"
    assert fit_text("libpython3.11.so.1.0", 12, OF_OTHERS) == "libpyth….1.0"


def test_a_path_keeps_its_first_and_its_last_names() -> None:
    names = ["_start", "__libc_start_main", "__libc_start_call_main", "main"]
    assert fitted_path(names, " > ", 80) == "_start > __libc_start_main > __libc_start_call_main > main"
    assert fitted_path(names, " > ", 45) == "_start > __libc_start_main > (1 more) > main"
    assert fitted_path(names, " > ", 18) == "(3 more) > main"
