"""Events opened for sampling: their attrs, and a counter with a ring buffer for each.

Modules:

sample_attrs        options -> the attrs of sampling events; aux_area: events with an AUX area
sample_counters     opens each event on its CPUs and threads, with a ring buffer each
buffer_sizes        how large ring buffers are
affinity            the CPUs on which ring buffers are read
switch_event        the event that ends an output file (--switch-output-event)
frequency_limit     the kernel's limit of -F
cost_limit          lowers rates if recording costs too much (--max-cpu)
"""
