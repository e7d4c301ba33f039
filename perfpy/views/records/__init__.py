"""Side-band records as perf words them: for dumps, and for the lines of script between samples."""
