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


#: forms that libstdc++ 12 does not understand; as newer versions print them
NEW_FORMS = [
    (b"_Z4tmplIDF16_EvPT_", "void tmpl<_Float16>(_Float16*)"),
    (b"_Z9half_onlyPDF16_", "half_only(_Float16*)"),
    (b"_Z3g4bDF16b", "g4b(std::bfloat16_t)"),
    (b"_Z1fDF32_DF64_DF128_", "f(_Float32, _Float64, _Float128)"),
    (b"_Z2biDB17_DU129_", "bi(_BitInt(17), unsigned _BitInt(129))"),
    (b"_ZZ4mainENKUlTyT_E_clIiEEDaS_", "auto main::{lambda<typename $T0>($T0)#1}::operator()<int>(int) const"),
    (b"_ZZ4mainENKUlTyTnDaT_1VIXT0_EEE0_clIiLi3EEEDaS_S1_",
     "auto main::{lambda<typename $T0, auto $N1>($T0, V<$N1>)#2}::operator()<int, 3>(int, V<3>) const"),
    (b"_Z1fITk7AddableiEvT_", "void f<int>(int)"),
    (b"_ZW4shopW4cart8exportedi", "exported@shop.cart(int)"),
    (b"_ZDC1a1bE", "[a, b]"),
    (b"_Z1gDF16bDv4_fDn", "g(std::bfloat16_t, float __vector(4), decltype(nullptr))"),
    (b"_Z1hIDF16bEDTtlT_EEv", "decltype (std::bfloat16_t{}) h<std::bfloat16_t>()"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), NEW_FORMS)
def test_names_that_libstdcxx_does_not_understand_are_demangled_by_llvm(name: bytes, text: str):
    assert demangle(name) == text
    assert module._llvm(name.decode()) == text


def test_a_library_that_misreads_floats_is_not_asked_for_them(monkeypatch: pytest.MonkeyPatch):
    """libstdc++ 12 takes std::bfloat16_t for "bool _Accum", and _Float32x for "long long _Accum", which LLVM does not know."""
    monkeypatch.setattr(module, "_libstdcxx", lambda: lambda name: f"misread {name}")
    monkeypatch.setattr(module, "_misreads_floats", lambda: True)
    assert module._cxx("_Z1fDF16b") == "f(std::bfloat16_t)"
    assert module._cxx("_Z1fDF32x") is None
    assert module._cxx("_Z1fDF16_") == "misread _Z1fDF16_"


def test_a_library_that_understands_floats_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_libstdcxx", lambda: lambda name: "f(std::bfloat16_t)")
    module._misreads_floats.cache_clear()
    assert module._cxx("_Z1fDF16b") == "f(std::bfloat16_t)"
    assert not module._misreads_floats()
    module._misreads_floats.cache_clear()


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
