"""Tests of the names of functions in sentences."""

from __future__ import annotations

import pytest

from perfpy.views.verdict.sentence import function_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("py::search.<locals>.<genexpr>:/srv/slow.py", "a generator expression in search()"),
        ("py::<lambda>:/srv/slow.py", "a lambda in the top level of slow.py"),
        ("py::outer.<locals>.inner:/srv/slow.py", "outer.inner()"),
        ("py::<module>:/srv/slow.py", "the top level of slow.py"),
        ("JS:~ /srv/slow.js:1:1", "the top level of slow.js"),
        ("JS:*checksum /srv/slow.js:1:18", "checksum()"),
        ("void order<Row>(std::vector<Row, std::allocator<Row> >&)", "order<Row>()"),
        ("Sum::operator()(int) const", "Sum::operator()()"),
        ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()()"),
        ("java.lang.String Main.join(int)", "Main.join()"),
        ("int[] app.Rows.sort(java.util.List, int)", "app.Rows.sort()"),
        ("__memmove_avx_unaligned_erms", "memcpy() or memmove()"),
        ("__strlen_evex", "strlen()"),
        ("void std::__introsort_loop<int*, long, Less>(int*, int*, long, Less)", "std::sort()"),
        ("__x64_sys_clock_nanosleep", "clock_nanosleep()"),
        ("__memset_avx512_unaligned_erms", "memset()"),
        ("_int_malloc", "malloc()"),
        ("_int_free", "free()"),
        ("_int_free_merge_chunk", "free()"),
        ("__libc_malloc", "malloc()"),
        ("unlink_chunk.isra.0", "unlink_chunk()"),
        ("memory_of_avx", "memory_of_avx()"),
        ("string_avx2_search", "string_avx2_search()"),
        ("pread64@@GLIBC_2.2.5", "pread64()"),
        ("evil\x1b[2J(int)", "evil^[[2J()"),
        ("f(((((", "f(((((()"),
        (")", ")()"),
    ],
)
def test_a_name_reads_as_its_author_wrote_it(name: str, text: str) -> None:
    assert function_text(name) == text
