"""The text of `perfpy lock`, byte for byte perf 6.12's.

Modules:

lock_lines   tables of waits, and the lists of lock info
"""
