"""Which samples count: by task, CPU, symbol, time, and from one event to another."""
