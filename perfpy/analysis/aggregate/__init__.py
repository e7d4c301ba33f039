"""Fold samples to distinct rows with their totals, in one process or in several.

Modules, in the order of the data:

scan            read a recording and fold it
chain_numbers   callchains of several profiles
shared_pass     fold in several ways in one pass
profile         the distinct rows
tuple_table     ids of tuples of numbers
exact_sums      exact sums by group
first_delivery  the first delivered sample of each row
partial         rows of another process
overflow        arrays beyond the memory limit, in temporary files
runs            merge rows that were written to temporary files
"""
