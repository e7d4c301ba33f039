"""Select samples by task, CPU, event, symbol, address and time, and between two events.

Modules:

sample_filter   SampleFilter: all conditions, as masks over samples and frames
conditions      the arguments of Recording.where() -> SampleFilter
time_ranges     `--time`
address_ranges  `-S 0xADDRESS`, `--addr-range`
event_switch    `--switch-on`, `--switch-off`
"""
