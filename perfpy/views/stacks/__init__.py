"""Stacks in the formats of other programs.

Modules:

exports          folded lines (flamegraph.pl) and speedscope
firefox          the Firefox Profiler
firefox_tables   the tables that all threads of a Firefox profile share
otlp             OpenTelemetry profiles
pprof            pprof
protobuf         the wire format of protocol buffers
"""
