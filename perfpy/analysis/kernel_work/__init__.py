"""Compute how long the kernel works on interrupts, soft interrupts and work queues, and which tasks used the CPUs.

Modules:

events     the tracepoints of all kinds of work as one table
works      run times and delays of each piece of work
cpu_usage  the run time of each task, without interrupts
"""
