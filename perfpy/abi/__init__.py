"""The perf_event ABI: bytes <-> values. Opens no file but its own tables, and needs no ctypes.

Both halves of perfpy share it. Layouts: include/uapi/linux/perf_event.h and perf_event_open(2).

Modules:

    flags               the kernel's constants
    attr                perf_event_attr
    readings            the result of read() on a counter
    framing             record headers, strings and padding
    records             the kernel's side-band records; record_tails: their variable parts; sample_id: their trailers
    user_records        perf's own records; newer_records, auxtrace_records, build_id_record, cpu_map: some of their bodies
    task_columns        records about tasks and mappings as columns
    samples             SAMPLE records as columns; sample_cursor, sample_fields, sample_branches, branch_flags: field by field
    fixed_fields        the fields at the beginning of samples
    record_starts       one field of many records
    sample_encoding     one sample as bytes; sample_rows: many samples as bytes
    columns             Columns, Ragged and Slices
    ring_records        records of a ring buffer as values
    registers           names of sampled registers
    waits               the samples of time off the CPU
    python_code         addresses of Python functions in callchains, and who has the GIL
    code_mapping        the mapping of JIT-compiled code
    system_calls        numbers, names, arguments and constants of system calls, as tables
    sampling_pace       whether samples are drawn by time or by count
    byteorder, cpu_list, startup    numbers, CPU lists, light stand-ins for typing and functools
"""
