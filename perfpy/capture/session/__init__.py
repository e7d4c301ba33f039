"""Run one recording from start to end, as `perf record` does.

Modules:

recorder            events and a target -> a recording
output_kinds        the output for the options; folders, unwound_recording: those of --threads and --unwind
alarms              periodic actions while recording
own_samples         whether the recorder's own system calls feed the recording
progress, closing   the progress line on a terminal, and the last lines
"""
