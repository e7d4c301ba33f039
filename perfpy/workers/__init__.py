"""Work on all cores: processes that do parts of a task, and how many of them pay."""
