"""Build the tables of a report from folded samples: sorted rows, groups, values and notes.

Modules, in the order of the data:
"""
