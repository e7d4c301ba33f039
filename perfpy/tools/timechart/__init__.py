"""`perfpy timechart`: what CPUs and tasks did over time, as an SVG file."""
