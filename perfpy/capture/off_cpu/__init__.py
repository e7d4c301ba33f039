"""record --off-cpu: the time that threads spend off the CPU, why, and on whose behalf they are woken."""
