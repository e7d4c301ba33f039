"""Python scripts of perf, which are called for every sample, as by perf script -s (perf-script-python(1)).

A script runs in this process, as its main module, and gets perf's values in perf's order.
"""
