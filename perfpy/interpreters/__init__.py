"""What the memory of running interpreters says: frames, functions, lines. Neither captures nor prints."""
