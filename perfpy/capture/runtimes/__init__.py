"""Names of code that runtimes generate: switch them on, request them, and store them in the recording."""
