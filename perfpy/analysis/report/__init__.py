"""Build the tables of a report from folded samples: entries, their order, call trees; and compare tables.

Modules, in the order of the data:

options, layout, plan    the options and columns of a report, and what to fold
rows, entries            folded rows -> entries and walkers of call trees
tables, histogram        sorted tables
event_groups             event groups that share a table
tree_order               the order of perf's red-black tree
call_tree, trees, call_names    call trees
hierarchy                perf report -H
report                   Report and its steps
values   reports as plain values
quality, short_callchain_note    notes on the accuracy of a profile
branch_blocks            report --total-cycles
difference               recordings side by side (perf diff)
comparable               the interface of what can be compared
changed_rows, recording_changes, proportions          changes between two recordings, beyond sampling noise
group_table, group_changes, host_differences          changes between two groups, beyond the spread of hosts
"""
