"""Virtual machines: why their CPUs leave to the host, and for how long.

Modules:

exits          exits, accesses to ports and to device memory, with their durations
exit_reasons   names of exit reasons
"""
