"""`perfpy why`: who waits for whom.

options    the options
command    checks, and the output
measuring  the recording
"""
