"""The sort keys and output fields of a report: their names, dimensions, order and texts.

Modules:

names             the tables of keys
sort_key          the types SortKey and OutputField
key_columns       KeyColumn: ranks and texts of a key
key_texts         names and styles that keys need
location_columns  keys of locations: file, function, address, parent
container_names   the container of a cgroup
task_columns      keys of tasks: thread, comm, CPU, time, cgroup, state, waker
branch_columns    keys of branch records
memory_columns    keys of memory accesses
payload_columns   keys of tracepoint data, transactions, page sizes
trace_fields      the fields of tracepoints as keys
"""
