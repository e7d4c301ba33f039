"""The arithmetic of counting, for what measures and what reads: aggregation, ratios, metrics, spread. Imports no numpy."""
