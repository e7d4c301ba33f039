"""Options and columns of a report, and folded samples as its entries.

Modules, in the order of the data:

options          the options of a report
layout           its columns
event_groups     event groups that share a table
plan             what samples are folded by
rows             folded samples with the numbers of their keys
entries          rows -> entries, and walkers of call trees
"""
