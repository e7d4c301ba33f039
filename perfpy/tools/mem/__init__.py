"""`perfpy mem` and `perfpy c2c`: memory accesses, and cache lines that CPUs take from each other."""
