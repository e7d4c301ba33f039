"""Tables of virtual machines.

Modules:

exit_table   the durations of exits
"""
