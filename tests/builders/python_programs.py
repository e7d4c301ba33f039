"""A program whose parts say how much processor time they took, and what a report says of them."""

from __future__ import annotations

import re

#: each part says how long it took of its own processor time; parts are of about the same length
PROGRAM = """
import asyncio, json, os, subprocess, sys, threading, time, zlib
TEXT = json.dumps([{"key": str(n), "list": [n] * 5} for n in range(400)])
took = {}
def measured(function):
    def measure():
        began = time.thread_time(); end = began + SECONDS
        while time.thread_time() < end: function()
        took[function.__name__] = time.thread_time() - began
    return measure
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
    return x
@measured
def plain(): spin(3000)
def deeper(n): return deeper(n - 1) + 1 if n else spin(3000)
@measured
def recursion(): deeper(15)
def numbers(n):
    for i in range(n): yield spin(20)
@measured
def generators(): sum(numbers(100))
@measured
def extensions():
    json.loads(TEXT); zlib.compress(TEXT.encode()); sorted(range(2000), key=lambda value: -value)
@measured
def exceptions():
    for n in range(200):
        try: fail(n)
        except ValueError: pass
def fail(n):
    spin(10)
    raise ValueError(n)
async def step():
    spin(300)
    await asyncio.sleep(0)
async def several(): await asyncio.gather(*(step() for _ in range(20)))
@measured
def coroutines(): loop.run_until_complete(several())
@measured
def threads(): spin(3000)
@measured
def forks(): spin(3000)
@measured
def children(): spin(3000)
def told(number, function):
    function(); os.write(number, json.dumps(took).encode())
if sys.argv[1:]:
    told(1, children); sys.exit()
for part in (plain, recursion, generators, extensions, exceptions): part()
loop = asyncio.new_event_loop(); coroutines(); loop.close()
thread = threading.Thread(target=threads); thread.start(); thread.join()
reading, writing = os.pipe()
if not os.fork():
    took.clear(); told(writing, forks); os._exit(0)
os.wait(); took.update(json.loads(os.read(reading, 1000)))
took.update(json.loads(subprocess.run([sys.executable, __file__, "child"], stdout=subprocess.PIPE).stdout))
with open("took.json", "w") as file: json.dump(took, file)
"""


def shares(text: str) -> dict[str, float]:
    """What each function of the program takes with what it calls, by the last part of its name."""
    results: dict[str, float] = {}
    for percent, name in re.findall(r"^ +([\d.]+)% +[\d.]+% .*py::(?:[\w<>]+\.)*(\w+):[^ ]*program\.py *$", text, re.MULTILINE):
        results[name] = results.get(name, 0) + float(percent)
    return results
