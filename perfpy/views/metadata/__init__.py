"""What a recording says of itself: header, events, counts of records, tasks."""
