"""`perfpy probe`: dynamic probes in programs and the kernel."""
