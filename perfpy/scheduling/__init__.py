"""Context switches, wakeups and exits as intervals off the CPU and times on the CPU; used for recording and reading.

Modules:

transitions   records and tracepoints of switches as rows of one table
intervals     transitions paired to intervals off the CPU
run_queue     delays between readiness and a CPU (sched latency)
switch_times  run time, delay and wait before each switch (sched timehist)
segments      the time of every thread, divided by its state (why)
event_pairs   begins and ends of system calls, requests and interrupts
contention    waits for locks: begins and ends
running       the time that threads ran, and the number of running threads
"""
