"""Live views: the samples of running events as a source of reports, window by window.

Modules, in the order of the data:
"""
