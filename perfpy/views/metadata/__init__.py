"""The metadata of a recording: header, events, counts of records, tasks.

Modules:

header         --header, --header-only, -I
attr           event attrs, field by field
evlist         perf evlist
record_counts  report --stats
tasks          report --tasks, --mmaps
"""
