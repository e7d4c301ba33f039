"""The perf_event ABI: bytes <-> values. Opens no file but its own tables, and needs no ctypes.

Both halves of perfpy share it. Layouts: include/uapi/linux/perf_event.h and perf_event_open(2).
"""
