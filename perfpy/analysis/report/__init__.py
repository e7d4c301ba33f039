"""From samples to the tables of a report: folded, joined to entries, sorted, with their call trees; and their differences."""
