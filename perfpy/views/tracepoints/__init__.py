"""The text of tracepoint samples by the kernel's print format, for script, reports and exports."""
