"""The perf.data file: header, features, records, their order; reading and writing."""
