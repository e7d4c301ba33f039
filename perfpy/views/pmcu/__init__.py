"""The counts of a HiSilicon PMCU as text.

Modules:

table         totals, for report
sample_lines  a line a sample and CPU, for script
dump          the AUX data, for report -D
"""
