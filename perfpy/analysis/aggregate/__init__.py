"""From batches to sums: the scan of a recording, partial sums that can be merged, the first delivery of each row."""
