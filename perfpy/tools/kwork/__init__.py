"""`perfpy kwork`: interrupts, soft interrupts and work queues of the kernel."""
