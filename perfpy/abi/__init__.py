"""The perf_event ABI: bytes <-> values. Opens no file but its own tables, and needs no ctypes.

Both halves of perfpy share it. Layouts: include/uapi/linux/perf_event.h and perf_event_open(2).

Modules:

    flags               the kernel's constants
    attr                perf_event_attr
    readings            the result of read() on a counter
    framing             record headers, numbers, strings and padding
    records             the kernel's side-band records; record_tails: their variable parts; sample_id: their trailers
    perf_records        perf's own records
    task_columns        records about tasks and mappings as columns
    samples             SAMPLE records: bytes to columns and back
    columns             Columns, Ragged and Slices
    ring_records        records of a ring buffer as values
    waits               the samples of time off the CPU
    python_code         addresses of Python functions in callchains, and who has the GIL
    code_mapping        the mapping of JIT-compiled code
    system_calls        numbers, names, arguments and constants of system calls, as tables
    comms               the kernel's names of threads
    cpu_list, startup   CPU lists, light stand-ins for typing and functools
"""
