"""Exits of virtual CPUs to the host: their reasons and durations.

Modules:

exits          exits, accesses to ports and to device memory, with their durations
exit_reasons   names of exit reasons
"""
