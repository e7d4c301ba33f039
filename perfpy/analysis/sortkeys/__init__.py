"""The sort keys and output fields of a report: their names, what each reads, how it groups, orders and words."""
