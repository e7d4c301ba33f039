"""report -D and script -D: the bytes and text of every record."""
