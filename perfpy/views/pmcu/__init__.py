"""What a HiSilicon PMCU counted, as text: a table of totals, a line a sample and CPU, and the dump of its AUX data."""
