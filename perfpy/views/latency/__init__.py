"""Durations of a function's calls, for `perfpy latency`.

text       tables, histogram and slowest calls as text
as_json    the same as JSON
"""
