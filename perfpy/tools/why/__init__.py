"""`perfpy why`: why a program is slow, and which thread waits for which."""
