"""Kernel functions are defined relative to _text, as perf does."""

from __future__ import annotations

import pytest

from perfpy.errors import PerfError
from perfpy.probing.grammar import parse_request
from perfpy.probing.sites import plan_kernel

KALLSYMS = """ffffffff81000000 T _text
ffffffff816b89f0 T vfs_read
ffffffff816b9000 t vfs_readv
ffffffff81ffff00 D not_code
ffffffffc0001000 t helper\t[nf_tables]
"""


@pytest.mark.parametrize(
    ("text", "definitions"),
    [
        ("vfs_read", ["p:probe/vfs_read _text+7047664"]),
        ("vfs_read+4 %di", ["p:probe/vfs_read _text+7047668 %di"]),
        ("vfs_read%return $retval", ["r:probe/vfs_read__return vfs_read+0 $retval"]),
        ("vfs_*", ["p:probe/vfs_read _text+7047664", "p:probe/vfs_readv _text+7049216"]),
        ("helper", ["p:probe/helper nf_tables:helper+0"]),
    ],
)
def test_a_kernel_function_is_defined(text: str, definitions: list[str]) -> None:
    assert [one.text for one in plan_kernel(KALLSYMS, parse_request(text)).definitions] == definitions


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        ("vfs_raed", 237, "did you mean 'vfs_read"),
        ("not_code", 237, "no function"),
        ("vfs_read:3", 254, "-k"),
        ("vfs_read count", 254, "-k"),
    ],
)
def test_errors_have_perfs_status(text: str, status: int, part: str) -> None:
    with pytest.raises(PerfError) as caught:
        plan_kernel(KALLSYMS, parse_request(text))
    assert caught.value.exit_code == status
    assert part in str(caught.value)


def test_hidden_addresses_are_reported() -> None:
    hidden = "0000000000000000 T _text\n0000000000000000 T vfs_read\n"
    with pytest.raises(PerfError, match="kptr_restrict"):
        plan_kernel(hidden, parse_request("vfs_read"))
