"""Names for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.symbols.demangling import demangle as module
from perfpy.symbols.demangling.demangle import demangle, plain

CXX = [
    (b"_ZN3foo3barEv", "foo::bar()"),
    (b"_Z3addii", "add(int, int)"),
    (b"_ZN2ns3FooIiEC1El", "ns::Foo<int>::Foo(long)"),
    (b"_ZTV3Foo", "vtable for Foo"),
    (b"_ZN3foo3barEv.isra.0", "foo::bar() [clone .isra.0]"),
    (b"_ZNSt6vectorISsSaISsEE4sizeEv", "std::vector<std::string, std::allocator<std::string> >::size()"),
    (b"_Z2mkIZ4mainEUllE_Evv", "void mk<main::{lambda(long)#1}>()"),
    (b"_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"),
]


@pytest.mark.parametrize(("name", "text"), CXX)
def test_cxx_names_have_their_parameters(name: bytes, text: str):
    assert demangle(name) == text


@pytest.mark.parametrize(("name", "text"), [pair for pair in CXX if b"SaISs" not in pair[0]])
def test_llvms_spelling_is_turned_into_gnus(name: bytes, text: str):
    assert module._llvm(name.decode()) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"_ZN4core3fmt9Formatter3pad17h0123456789abcdeaE", "core::fmt::Formatter::pad"),
        (b"_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdeaE",
         "<alloc::string::String as core::fmt::Display>::fmt"),
        (b"_ZN3foo28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdeaE", "foo::{{closure}}"),
    ],
)  # fmt: skip
def test_legacy_rust_names_lose_their_hash(name: bytes, text: str):
    assert demangle(name) == text


@pytest.mark.parametrize("digits", ["0" * 16, "0123012301230123", "0123456789abcdef"])
def test_doubtful_hashes_stay(digits: str):
    assert demangle(f"_ZN3foo3bar17h{digits}E".encode()) == f"foo::bar::h{digits}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"camlStdlib__Array__map_154", "Stdlib.Array.map_154"),
        (b"camlFoo__bar$2b_12", "Foo.bar+_12"),
        (b"camlDune__exe__Main__entry", "Dune.exe.Main.entry"),
        (b"caml_main", "caml_main"),
        (b"Lcom/foo/Bar;run(I[Ljava/lang/String;)V", "com.foo.Bar.run(int, java.lang.String[])"),
        (b"Ljava/lang/String;<init>()V", "java.lang.String.<init>()"),
        (b"LA;f([[JZ)[LB;", "A.f(long[][], bool)"),
        (b"class com/foo/Baz;go()J", "class com/foo/Baz;go()J"),
        (b"LoadIC", "LoadIC"),
        (b"L1;x(Q)V", "L1;x(Q)V"),
    ],
)
def test_names_of_ocaml_and_java_are_demangled(name: bytes, text: str):
    assert demangle(name) == text


def test_rust_v0_names_are_demangled():
    assert demangle(b"_RNvNtCs1234_7mycrate3foo3bar") == "mycrate::foo::bar"


def test_rust_names_drop_suffixes_of_link_time_optimization():
    assert demangle(b"_RNvNtCs1234_7mycrate3foo3bar.llvm.1524389613005862818") == "mycrate::foo::bar"
    assert demangle(b"_RNvNtCs1234_7mycrate3foo3bar.llvm.9D1C9369@@16") == "mycrate::foo::bar"
    assert ".warm" in demangle(b"_RNvNtCs1234_7mycrate3foo3bar.warm")


@pytest.mark.parametrize(
    "name",
    [b"main", b"f", b"_Z", b"_ZN", b"_Zqq", b"_R", b"_R0", b"$s4main3fooyyF", b"_D4main3fooFZv", b"", b"caf\xe9", b"_ZN\xff"],
)
def test_unmangled_and_malformed_names_stay(name: bytes):
    assert demangle(name) == plain(name)


def test_the_ending_of_a_plt_stub_is_kept():
    assert demangle(b"_Z3addii@plt") == "add(int, int)@plt"
    assert demangle(b"puts@plt") == "puts@plt"


@given(st.one_of(st.binary(), st.binary().map(lambda tail: b"_Z" + tail), st.binary().map(lambda tail: b"_R" + tail)))
def test_no_name_raises(name: bytes):
    name = name.replace(b"\0", b"")
    demangle(name)
    module._llvm(plain(name))
