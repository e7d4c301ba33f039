"""System calls of threads as columns: pairs of entry and return, open descriptors, sums; used for recordings and live.

Modules, in the order of the data:

events            samples of the tracepoints of system calls as columns
pairing           entries and returns of one thread as pairs
descriptors       the files of descriptors over time
descriptor_tables the descriptors of one process
descriptor_names  the names of descriptors at the moments of events
grouped_values    the place of a value among those of its group
descriptor_rules  what each call does to descriptors
thread_comms      the comms of threads over time
totals            calls, errors and times of each thread and call
lanes             the calls of each thread over time
named_totals      calls, errors, times and bytes of each file or peer
"""
