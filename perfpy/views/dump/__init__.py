"""report -D and script -D: every record's bytes and text; `recording` writes the whole, the others one kind of record each."""
