"""A Python program that waits for six reasons, one after the other.

Input: a folder. Output: the program, and what why says of each wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_SOURCE: Final = """\
import queue, socket, subprocess, threading, time

def consume(items):
    while items.get() is not None:  # work in Queue.get()
        pass

def update(lock):
    for _ in range(3):
        with lock:  # a lock in update()
            time.sleep(0.03)

def receive(end):
    while end.recv(1):  # a socket in receive()
        pass

def count(until):
    total = 0
    while time.monotonic() < until:  # Python's global interpreter lock (GIL) in count()
        total += 1

def in_threads(number, *call):
    threads = [threading.Thread(target=call[0], args=call[1:]) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads

def main():
    items, (near, far), lock = queue.Queue(), socket.socketpair(), threading.Lock()
    threads = in_threads(1, consume, items) + in_threads(1, receive, near)
    for _ in range(3):
        time.sleep(0.06)  # sleeps in main()
        items.put(1)
        far.send(b"x")
    items.put(None)
    far.close()
    threads += in_threads(2, update, lock)
    subprocess.run(["sleep", "0.2"])  # a child process in subprocess.run()
    threads += in_threads(2, count, time.monotonic() + 0.2)
    for thread in threads:
        thread.join()

main()
"""


def build(folder: Path) -> tuple[Path, list[str]]:
    """Return the program and its waits: "for a lock in update(), waits.py:9"."""
    program = folder / "waits.py"
    program.write_text(_SOURCE)
    lines = enumerate(_SOURCE.splitlines(), 1)
    return program, [f"{line.partition('# ')[2]}, waits.py:{number}" for number, line in lines if "# " in line]
