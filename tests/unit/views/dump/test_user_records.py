"""Tests of the CoreSight trace units in dumps."""

from __future__ import annotations

from perfpy.views.dump.user_records import coresight_text

ETMV4 = 0x4040404040404040


def test_each_word_has_its_name() -> None:
    assert coresight_text([1, 0x800000001, 0, ETMV4, 12, 8, 0x40, 0x10, 1, 2, 3, 0, 0xCC, 0x47724A13]).splitlines() == [
        "\tHeader version\t\t       1",
        "\tPMU type/num cpus\t       800000001",
        "\tSnapshot\t\t       0",
        "\tMagic number\t\t       4040404040404040",
        "\tCPU\t\t\t       12",
        "\tNR_TRC_PARAMS\t\t       8",
        "\tTRCCONFIGR\t\t       40",
        "\tTRCTRACEIDR\t\t       10",
        "\tTRCIDR0\t\t\t       1",
        "\tTRCIDR1\t\t\t       2",
        "\tTRCIDR2\t\t\t       3",
        "\tTRCIDR8\t\t\t       0",
        "\tTRCAUTHSTATUS\t\t       cc",
        "\tTRCDEVARCH                     47724a13",
    ]


def test_the_number_of_parameters_in_version_0_depends_on_the_unit() -> None:
    lines = coresight_text([0, 2, 0, ETMV4, 0, *range(7), 0x3030303030303030, 1, *range(4)]).splitlines()
    names = "TRCCONFIGR TRCTRACEIDR TRCIDR0 TRCIDR1 TRCIDR2 TRCIDR8 TRCAUTHSTATUS"
    assert [line.split()[0] for line in lines[5:12]] == names.split()
    assert [line.split() for line in lines[13:15]] == [["CPU", "1"], ["ETMCR", "0"]]
    assert len(lines) == 3 + 9 + 6


def test_truncated_or_unknown_data_end_the_text() -> None:
    assert coresight_text([]) == ""
    assert coresight_text([1, 2]).count("\n") == 2
    assert coresight_text([1, 1, 0, 0x77, 1, 1, 5]).count("\n") == 3
    assert coresight_text([1, 1, 0, ETMV4, 1, 1 << 63, 5]).count("\n") == 7
    assert coresight_text([1, 2, 0, *([ETMV4, 0, 10, *range(10)] * 2)]).count("\n") == 3 + 2 * 12
