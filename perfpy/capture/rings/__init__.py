"""Events opened for sampling: their attrs, and a counter with a ring buffer for each.

sample_attrs        options -> the attrs of events that sample; aux_area: of those with an AUX area
sample_counters     opens each event on its CPUs and threads, with a ring each
affinity            on which CPUs the rings are read
switch_event        the event that ends an output file (--switch-output-event)
cost_limit          lower rates if recording costs too much (--max-cpu)
"""
