"""Recordings as Parquet: tables of samples, stacks, frames, symbols, tasks and events, for DuckDB, Polars, Spark and BigQuery.

The files of a folder, to which further recordings can be added:

    samples/host=H/day=D/RECORDING.parquet  a row a sample; H: the machine's name, D: 2026-01-31
    stacks/  stack -> frames, innermost first
    frames/  frame -> symbol, address
    symbols/    symbol -> name, dso, path, build_id, start, end, inlined
    tasks/   task -> recording, pid, tid, comm
    events/  event -> name
    recordings/ recording -> host, command, times; and data to read it back
    chains/  recording, chain -> raw addresses, to read it back

Keys are hashes, so that the same stack, function or event has the same key in all recordings.

Modules:

export  one recording to rows
keys    the keys of frames and symbols
tables  the files of a folder
"""
