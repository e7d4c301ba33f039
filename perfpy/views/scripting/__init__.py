"""perf's scripts: programs in Python that are called for every sample, as perf script -s calls them (perf-script-python(1)).

What enters: a script, and the samples that perf script would print. What leaves: calls of the script's functions, with
perf's values in perf's order; a script to begin with (-g). The script runs in this process, as its main module.
"""
