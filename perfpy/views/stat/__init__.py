"""Counts as text, CSV, JSON, a comparison, and a table for a person."""
