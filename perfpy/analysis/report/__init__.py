"""Build the tables of a report from folded samples: entries, their order, and call trees.

Modules, in the order of the data:

options, layout, plan           the options and columns of a report, and what to fold
rows, entries                   folded rows -> entries and walkers of call trees
tables, histogram               sorted tables
event_groups                    event groups that share a table
tree_order                      the order of perf's red-black tree
call_tree, trees, call_names    call trees
hierarchy                       perf report -H
report                          Report and its steps
values                          reports as plain values
quality, short_callchain_note   notes on the accuracy of a profile
branch_blocks                   report --total-cycles
"""
