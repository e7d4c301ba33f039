"""Intel Processor Trace: the bytes of a trace -> packets."""
