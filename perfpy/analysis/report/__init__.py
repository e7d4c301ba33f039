"""Build the tables of a report from folded samples: sorted rows, groups, values and notes.

Modules, in the order of the data:

tables, histogram               sorted tables
hierarchy                       perf report -H
report                          Report and its steps
report_samples                  samples folded again by address, for source lines
values                          reports as plain values
quality, short_callchain_note   notes on the accuracy of a profile
branch_blocks                   report --total-cycles
"""
