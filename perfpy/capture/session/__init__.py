"""One recording from start to end: what `perf record` does.

recorder            events and a target -> a recording
output_kinds        which output the options mean; folders, unwound_recording: those of --threads and --unwind
alarms              what happens at certain times while recording
own_samples         whether the recorder's own system calls feed the recording
progress, closing   the line on a terminal, and the last lines
"""
