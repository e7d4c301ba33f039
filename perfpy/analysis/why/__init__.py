"""Find the reasons for the waits of threads, for `perfpy why`.

Modules, in the order of the data:

kinds         what threads do, as numbers
events        switches, wakeups, calls and samples of a recording as columns
python_lines  the functions and lines of Python frames
stacks        the meaning of callchains: reasons of waits, functions
wakers        threads and interrupts that end waits
activities    what each thread does in each segment of its time
polls         sleeps of parents that look for the end of a child again and again
causes        the tree of waits, followed from thread to thread
cause_groups  the nodes of the tree, merged by label
lock_names    the names of variables at the addresses of locks
launches      waits for programs that the waiting one started
tasks         processes, their parents and names, the recorded command
explanation   the times of threads, the critical path, and the waits of all threads
"""
