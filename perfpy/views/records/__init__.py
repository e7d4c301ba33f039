"""Side-band records in perf's words, for dumps and for the lines of script.

Modules:

record_text  the text of a record
swapped      records of the other byte order, as perf has them in memory
"""
