"""`perfpy sched`: what the scheduler did."""
