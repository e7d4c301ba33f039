"""Bytes <-> values of the perf_event ABI: no file, no fd, no ctypes.

Both halves of perfpy meet here: what the kernel is asked (attr), what it
answers (counts, records, samples). Layouts: include/uapi/linux/perf_event.h
and perf_event_open(2).
"""
