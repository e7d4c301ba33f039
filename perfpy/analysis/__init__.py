"""Columns and readings to numbers: histograms, call trees, sums and ratios. Knows no text."""
