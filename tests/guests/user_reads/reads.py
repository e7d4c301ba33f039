"""Reads of an arm64 PMU from user space against read(2), in a guest; what each line says is in ../test_user_reads.py."""

import os
import threading
from collections.abc import Callable

import perfpy

CYCLES, INSTRUCTIONS = 0x11, 0x8
USER, LONG = 2, 1  # config1 of arm64's PMU: user space may read it; a counter of 64 bits


def work(turns: int = 3000) -> int:
    return sum(number * number for number in range(turns))


def counter(event: int, how: int) -> perfpy.Counter:
    return perfpy.Counter.open(f"armv8_pmuv3/config={event:#x},config1={how}/")


def in_order() -> None:
    """Both kinds of read between one another never go back; also after the count was set to 0."""
    for event in (CYCLES, INSTRUCTIONS):
        for how in (USER, USER | LONG):
            with counter(event, how) as one:
                one.read()  # before it is mapped: its page then counts from a register without a sign
                where = one.read_user().why_read or "page"
                results: list[perfpy.Reading] = [one.read_user(), one.read(), one.read_user()]
                work()
                results += [one.read(), one.read_user(), one.read()]
                values = [reading.value for reading in results]
                one.reset()
                again = [one.read_user().value, one.read().value]
                print(
                    "order",
                    event,
                    how,
                    where,
                    values == sorted(values),
                    again == sorted(again),
                    again[0] < values[3],
                )


def shared() -> None:
    """Ten counters on six registers: each is estimated alike by both, and is read from the page while it has a register."""
    counters = [counter(INSTRUCTIONS, USER | LONG) for _ in range(10)]
    for _ in range(6):
        work(20_000)
        for one in counters:
            user, kernel = one.read_user(), one.read()
            if kernel.scaled:
                print("shared", "page" if user.from_page else user.why_read, abs(user.scaled / kernel.scaled - 1) < 0.1)
    for one in counters:
        one.close()


def cost() -> None:
    """Instructions of a call."""
    with counter(INSTRUCTIONS, 0) as instructions, counter(INSTRUCTIONS, USER | LONG) as one:

        def of(call: Callable[[], object], turns: int = 1000) -> float:
            call()
            before = instructions.read().value
            for _ in range(turns):
                call()
            return (instructions.read().value - before) / turns

        empty = of(lambda: None)
        print("cost", round(of(one.read_user) - empty), round(of(one.read) - empty), one.read_user().from_page)


def others() -> None:
    """Another thread, and a child: they fall back."""
    with counter(INSTRUCTIONS, USER | LONG) as one:
        one.read_user()
        widths: list[str] = []
        thread = threading.Thread(target=lambda: widths.append(one.read_user().why_read))
        thread.start()
        thread.join()
        child = os.fork()
        if child == 0:
            os._exit(0 if "forked" in one.read_user().why_read else 1)
        print("others", "another thread" in widths[0], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), one.read_user().from_page)


with perfpy.Counter.open("cycles") as plain:
    print("plain", plain.read_user().why_read)
with open("/proc/sys/kernel/perf_user_access", "w") as setting:
    setting.write("1")
for part in (in_order, shared, cost, others):
    part()
