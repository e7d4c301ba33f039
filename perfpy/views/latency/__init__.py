"""Durations of a function's calls and of the kernel's latencies, for `perfpy latency`.

text       tables, histogram and slowest calls as text
as_json    the same as JSON
distributions  percentiles and histograms of the kernel's latencies (--of)
"""
