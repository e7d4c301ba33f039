"""Live views: the samples of running events as a source of reports, window by window.

Modules, in the order of the data:

rings         open the events of a live view and read their ring buffers
reading       the records between two updates, in bounded memory
python_frames  callchains with Python functions (top --python)
jit_names     names of code that JVMs have compiled (top --jit)
containers    names of running containers, from the files of their runtimes
waits         waits of threads, also of those that have not ended (top --off-cpu)
window        the samples of one interval as a SampleSource
symbolizing   symbols across windows: files are searched and read once
code          the code of a function, with the samples of the last minute
saved_recording  the last minute as a perf.data (key w)
fading_rows   the rows of earlier windows, with falling weights
monitor       LiveMonitor: one report per interval
background    a thread that computes updates while keys and ring buffers are read
thread_watch  states of threads through /proc (why without access to tracepoints)
load_replay   threads that repeat a recorded load (sched replay)
calls         system calls of running tasks, for `perfpy trace`
"""
