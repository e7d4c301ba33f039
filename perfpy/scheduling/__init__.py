"""Context switches, wakeups and exits as intervals off the CPU and times on the CPU; used for recording and reading."""
