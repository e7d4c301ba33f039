"""Numbers to what a person or a program reads: tables, lines, exports."""
