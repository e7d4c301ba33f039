"""Tests of system calls without ctypes: results, errors, and buffers that the kernel fills."""

from __future__ import annotations

import errno
import os
import platform

import pytest

from perfpy.kernel.syscalls import system_call

_NUMBERS = {"x86_64": (39, 0, 3), "aarch64": (172, 63, 57)}  # getpid, read, close
pytestmark = pytest.mark.skipif(platform.machine() not in _NUMBERS, reason="the test knows no system call numbers of this machine")
GETPID, READ, CLOSE = _NUMBERS.get(platform.machine(), (0, 0, 0))


def test_a_result_is_returned() -> None:
    assert system_call(GETPID) == os.getpid()


def test_an_error_is_raised_with_its_number() -> None:
    with pytest.raises(OSError, match="system call failed") as refusal:
        system_call(CLOSE, -1)
    assert refusal.value.errno == errno.EBADF


def test_the_kernel_fills_a_buffer() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"answer")
        buffer = bytearray(16)
        assert system_call(READ, reading, buffer, len(buffer)) == 6
        assert buffer[:6] == b"answer"
    finally:
        os.close(reading)
        os.close(writing)


def test_negative_numbers_keep_their_sign() -> None:
    """A pid of -1 must not become 4294967295."""
    with pytest.raises(OSError, match="system call failed") as refusal:
        system_call(READ, -1, bytearray(1), 1)
    assert refusal.value.errno == errno.EBADF
