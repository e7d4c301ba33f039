"""The kinds of events beside those of a PMU's files.

Modules:

dynamic_probes      events of perfpy probe
sdt                 markers of programs (SDT, USDT)
ebb                 event-based branches of POWER
memory_events       events that sample memory accesses
pmcu                checks the events of a HiSilicon PMCU
"""
