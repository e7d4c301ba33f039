"""Tasks over time: threads, comms and address spaces, from fork, exec, comm and mmap records.

Modules:

task_states         the rules of fork, exec, comm and exit
task_replay         tasks and mappings of a recording, by columns
address_space       comms and address spaces of samples
mapping_intervals   mappings over time, split where they overlap
mapping_index       the mapping of an address at a time
live_tasks          the records of running tasks, in memory that days do not fill
outdated_records    which records of tasks no later sample needs
fork_lines          chains of forked address spaces
value_history       values of owners over time
task_tree           the thread tree of report --tasks
"""
