"""Intel Processor Trace: decode the bytes of a trace into packets (packets)."""
