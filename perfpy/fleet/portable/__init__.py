"""Profiles without machine-specific numbers: what hosts send, and what can be merged.

Modules:

profile           PortableProfile: a folded recording
lines             source lines of portable profiles
own_values        task, cgroup and socket numbers as values that compare across recordings
traced_values     tracepoint data as texts that compare across recordings
"""
