"""The numbers of verdicts on recordings.

Modules:

categories  own code, libraries, interpreters, runtimes and the kernel
functions   shares of functions, with their callers and callees
statements  source lines at which functions run, call or wait
waits       waits by their reason
wakers      threads that end waits
processes   parents and programs of processes
event_loops callbacks that block an event loop
evidence    all numbers of one report
shares      confidence intervals of shares
"""
