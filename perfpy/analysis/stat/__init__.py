"""Counts of `stat`: aggregated, as ratios and metrics, compared between runs. Imports no numpy."""
