"""Decoders of AUX area data, a module for each kind of hardware tracer."""
