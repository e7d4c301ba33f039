"""Names that would become too long are known before anybody demangles them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.symbols.demangling import demangle as module
from perfpy.symbols.demangling.cxx_sizes import demangled_size as cxx_size
from perfpy.symbols.demangling.demangle import demangle, plain
from perfpy.symbols.demangling.name_budget import LONGEST, is_short_cxx, is_short_rust
from perfpy.symbols.demangling.rust_sizes import demangled_size as rust_size

if TYPE_CHECKING:
    from collections.abc import Callable


def base(number: int, digits: str) -> str:
    """0 is "", 1 is 0, 2 is 1 ..."""
    if not number:
        return ""
    number, text = number - 1, ""
    while True:
        number, digit = divmod(number, len(digits))
        text = digits[digit] + text
        if not number:
            return text


BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BASE62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def doubling_cxx(times: int) -> str:
    """A<int, int>, then A of two of the one before, and so on."""
    steps = "".join(f"S_IS{base(step, BASE36)}_S{base(step, BASE36)}_E" for step in range(1, times))
    return f"_Z1f1AIiiE{steps}"


def doubling_rust(times: int) -> str:
    """(u32, u32), then two of the one before, and so on."""
    name = "_RINvC1a1bTuuE"
    at = name.index("T") - 2
    for _ in range(times):
        reference = f"B{base(at, BASE62)}_"
        at = len(name) - 2
        name += f"T{reference}{reference}E"
    return name + "E"


def through_arguments(contexts: int) -> str:
    """A<T, T, T, T> in functions whose argument is that of the function around them."""
    name = "i"
    for _ in range(contexts):
        name = f"Z1fI{name}Ev1AIT_T_T_T_EEUlvE_"
    return f"_Z1gI{name}Ev1AIT_T_T_T_E"


def expanded_packs(depth: int) -> str:
    """A pack of forty, in a pattern of a pattern of ..., each for every element."""
    pattern = "T_"
    for _ in range(depth):
        pattern = f"1AIJDp{pattern}EE"
    return f"_Z1fIJ{'i' * 40}EEvDp{pattern}"


def tried_twice(depth: int) -> str:
    """What libstdc++ reads both as a conversion to a template and as a template of a conversion."""
    return f"_ZN1Acv{'T_I' * depth}i{'E' * depth}Ev"


@pytest.mark.parametrize(
    "name",
    [
        doubling_cxx(30),
        doubling_cxx(200),
        through_arguments(30),
        expanded_packs(6),
        tried_twice(40),
        doubling_rust(40),
        "_Z1f" + "P" * 100_000 + "i",
        "_RNvC1a1b" + "N" * 100_000,
    ],
)
def test_names_that_become_too_long_or_slow_stay_mangled(name: str):
    module._libstdcxx()  # loaded before the clock runs
    start = time.process_time()
    assert demangle(name.encode()) == name
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "name",
    [
        "_Z1fDTsr1C1sDai",
        "_Z2f5IFviEEDtsr1CIT_EDB8_sES3_",
        "_Z1fDTsr1C1sUxE",
        "_Z1fDTsr1CIiE1sCxE",
        "_Z2f5IDnEDtsr1CITDDpDpv4_E1sES2_",
        "_Z2f5IiEDtsr1CITDF16_EE1sE1CIS3_E",
        "_Z1fDTsr1CIDB8_E1sE",
    ],
)
def test_malformed_members_of_dependent_types_stay_mangled(name: str):
    """libstdc++ 12 reads them forever, so it is never asked."""
    assert not is_short_cxx(name)
    assert demangle(name.encode()) == name


def lambdas(depth: int) -> str:
    """Lambdas in the parameters of lambdas, with templates of their own, which libstdc++ does not understand."""
    name = "T_"
    for _ in range(depth):
        name = f"UlTyTnDa{name}T_E_"
    return f"_ZN1A{name}clEv"


@pytest.mark.parametrize(
    "name", [lambdas(depth) for depth in (3, 40, 100, 140)] + ["_Z1fDF16b" + "P" * 1900 + "i", "_Z1fDF" + "1" * 2000 + "b"]
)
def test_names_that_only_llvm_understands_are_quick(name: str):
    module._llvm("_Z1fi")  # loaded before the clock runs
    start = time.process_time()
    assert len(demangle(name.encode())) <= LONGEST
    assert time.process_time() - start < 0.5


def test_the_size_of_doubling_names_is_bounded():
    for times in range(2, 12):
        assert 4 << times < cxx_size(doubling_cxx(times)) < 400 << times
        assert 4 << times < rust_size(doubling_rust(times)) < 400 << times
    assert demangle(doubling_cxx(8).encode()).count("int") == 2 ** (8 + 1) - 2
    assert "((), ())" in demangle(doubling_rust(3).encode())


SOME_CXX = [
    "_ZNSt5tupleIJPiPcEEC2ILb1ETnNSt9enable_ifIXclsr17_TupleConstraintsIXT_ES0_S1_EE37__is_implicitly_default_constructibleEEbE4typeELb1EEEv",
    "_ZN2RqIbEC1EvQgtst2PkIJT_EELi0E",
    "_Z2f0IN2L3MUlTniTpTySt17integral_constantIiXT_EEDpT0_E_EEvv",
    "_Z2f2IN2L4MUlTtTyET_IiEE_ESt15strong_orderingEv2PkIJT_T0_EE",
    "_ZZ4mainENKUlTyTnDaT_1VIXT0_EEE0_clIiLi3EEEDaS_S1_",
    "_ZN5forms3rr2ITkNS_7AddableE1AQrqXplT_T_NR3BarTNT_4typeEQ1CEEEvT_",
    "_Z1fIiEvDB8_DU129_DBT__",
    "_ZW4shopW4cart8exportedi",
    "_ZNSt6vectorISt4pairIKN4llvm9StringRefEjESaIS4_EE9push_backEOS4_",
    "_ZNKSt8functionIFvRKSt10shared_ptrIiEEEclES3_",
    "_ZZ4mainENKUlT_T0_E_clIiSt6vectorIdSaIdEEEEDaS_S0_",
    "_ZSt7forwardIRKN5boost10shared_ptrINS0_6threadEEEEOT_RNSt16remove_referenceIS7_E4typeE",
    "_ZN3FoocvT_IiEEv",
    "_ZN3FoocvSt6vectorIT_SaIS1_EEIiEEv",
    "_Z1fIJiidEEvDpT_",
    "_Z1fIJiidEEvDp1AIJT_S0_EE",
    "_Z3addIiEDTplfp_fp_ET_",
    "_ZN1AIiEC2IS0_EEOT_NSt9enable_ifIXntsr3std7is_sameIS3_S0_EE5valueEPvE4typeE",
    "_ZTv0_n24_N1A1fEv",
    "_ZGVZ4mainE1x",
    "_ZThn16_N3foo3barEv",
    "_ZTCN1AE0_1B",
    "_ZN2wi6lshiftINS_13hwi_with_precEiEENS_13binary_traitsIT_S3_XsrNS_10int_traitsIS3_EE14precision_typeEXsrS5_14precision_typeEE11result_typeERKS3_RKT0_",
    (
        "_ZmlILj2EimE8poly_intIXT_EN11poly_resultIN10if_nonpolyIT0_S3_Xsr15poly_int_traitsIS3_E7is_polyEE4typeET1_"
        "Xsr22poly_coeff_pair_traitsIS7_S8_E11result_kindEE4typeEERKS3_RK12poly_int_podIXT_ES8_E"
    ),
    "_ZN4llvm3orc14SelfExecutorProcessControl6CreateESt10shared_ptrINS0_16SymbolStringPoolEESt10unique_ptrINS0_14TaskDispatcherESt14default_deleteIS6_EES5_INS_7jitlink20JITLinkMemoryManagerES7_ISA_EE",
]


@pytest.mark.parametrize("name", SOME_CXX)
def test_sizes_of_compilers_names_are_upper_bounds(name: str):
    assert is_short_cxx(name)
    text = module._cxx(name)
    assert text is None or len(text) <= cxx_size(name) < 100 * len(name) + 2000


SOME_RUST = [
    "_RNvNtCs1234_7mycrate3foo3bar",
    "_RINvNtCsbmNqQUJIY6D_4core3ptr13drop_in_placeINtNtCs1234_5alloc3vec3VecNtNtBG_6string6StringEECs9_1a",
    "_RNvXs_NtCs1_4core3fmtNtB4_5ErrorNtB4_5Debug3fmt",
    "_RNCNvCs1_1a4main0B3_",
    "_RNvMCs1_1aINtB2_3FooRShE3bar",
    "_RINvCs1_1a1fKj10_Kb1_Kc61_E",
    "_RINvCs1_1a1fFG_RL0_hEuDNtB2_1TEL_E",
    "_RNvYNtCs1_1a1SNtB4_1T1f",
]


@pytest.mark.parametrize("name", SOME_RUST)
def test_sizes_of_rust_names_are_upper_bounds(name: str):
    assert is_short_rust(name)
    text = module._rust_v0(name)
    assert text is None or len(text) <= rust_size(name) < 100 * len(name) + 2000


def of_tokens(*tokens: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(tokens), max_size=40).map("".join)


CXX = of_tokens(*"S_ S0_ S1_ S2_ T_ T0_ I E N Z 1A 1f i P K Dp J F v Ul E_ cv X L St Ss sr cl D0 C1 M".split()).map("_Z1f".__add__)
RUST = of_tokens(*"B_ B2_ B6_ T E I N C 1a 1b v u h R S A K j0_ F D p M X Y L_ s_ G_".split()).map("_RINvC1a1b".__add__)


@given(CXX)
def test_no_cxx_name_exceeds_its_bound(name: str):
    _bounded(name, cxx_size, is_short_cxx, module._cxx)


@given(RUST)
def test_no_rust_name_exceeds_its_bound(name: str):
    _bounded(name, rust_size, is_short_rust, module._rust_v0)


def _bounded(name: str, size: Callable[[str], int], is_short: Callable[[str], bool], read: Callable[[str], str | None]) -> None:
    if not is_short(name):
        return
    text = read(name)
    try:
        bound = size(name)
    except (ValueError, LookupError):
        return
    assert text is None or len(text) <= bound


def test_many_endings_of_stubs_are_no_recursion():
    name = b"_Z3addii" + b"@plt" * 10_000
    assert demangle(name) == plain(name)
    assert demangle(b"_Z3addii@plt@plt") == "_Z3addii@plt@plt"


def test_long_results_are_not_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_cxx", lambda name: "x" * (LONGEST + 1))
    assert module._new(b"_Z1gv") == "_Z1gv"
