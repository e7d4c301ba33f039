"""The events of a machine: perf list's text and JSON, and tables on terminals.

Modules:

text    perf list's lines, names and JSON
tables  a table per section, with descriptions
"""
