"""Stacks in the formats of other programs.

Modules:

exports          folded lines (flamegraph.pl) and speedscope
firefox          the Firefox Profiler
firefox_tables   the tables that all threads of a Firefox profile share
otlp             OpenTelemetry profiles
perfetto         Perfetto traces
pprof            pprof
time_order       begins and ends of a thread's frames, in order of time
protobuf         the wire format of protocol buffers
"""
