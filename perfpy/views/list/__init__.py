"""The events of a machine: perf list's text and JSON, and tables for a person."""
