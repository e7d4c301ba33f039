"""Compare the reports of recordings, and of groups of recordings.

Modules:

difference                              recordings side by side (perf diff)
comparable                              the interface of what can be compared
changed_rows, recording_changes         changes between two recordings, beyond sampling noise
proportions                             the test of a share in two recordings
group_table, group_changes              changes between two groups, beyond the spread of hosts
host_differences                        the test of a share in two groups of hosts
"""
