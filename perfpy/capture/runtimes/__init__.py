"""What makes runtimes tell the names of the code they make: what to set, whom to ask, what to keep of it."""
