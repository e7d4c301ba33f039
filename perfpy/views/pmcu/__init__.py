"""The counts of a HiSilicon PMCU as text.

Modules:

table    totals for report, and lines for script
dump     the AUX data, for report -D
"""
