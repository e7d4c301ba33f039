"""Records that perf writes beside those of the kernel: HEADER_ATTR, AUXTRACE, THREAD_MAP and others.

Modules:

user_records        all kinds, and most of their bodies
newer_records       bodies of records of perf 6 and 7
auxtrace_records    AUXTRACE records, which describe AUX data
build_id_record     a dso and its build-id
cpu_map             sets of CPUs
"""
