"""The numbers of verdicts on recordings."""
