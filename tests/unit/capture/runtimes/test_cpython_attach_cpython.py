"""CPython 3.8 to 3.11 with perfpy's evaluator: names in the perf map, and no other visible effect on the program."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.capture.runtimes.cpython_attach import STARTUP
from perfpy.capture.runtimes.session import environment_for
from tests.builders.pythons import WITHOUT_TRAMPOLINES, interpreter, run

CHECKOUT = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")

#: what every program below may use: the lines of its own map
MAP = """
import os, sys
def lines(pid=None):
    with open("/tmp/perf-%d.map" % (pid or os.getpid())) as file:
        return file.read().splitlines()
def named(name): return [line for line in lines() if line.split(" ", 2)[2].startswith("py::%s:" % name)]
def forget(): os.unlink("/tmp/perf-%d.map" % os.getpid())
"""


@pytest.fixture(params=WITHOUT_TRAMPOLINES)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    return path


def said(python: str, program: str, *arguments: str, **variables: str) -> str:
    result = run(python, MAP + program + "\nforget()", *arguments, named=True, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_functions_have_qualified_names(python: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        MAP
        + """
class Shape:
    class Side:
        def length(self): return [x for x in map(lambda v: v, (1,))]
    def sides(self): return self.Side().length()
def outer():
    def inner(): return Shape().sides()
    return inner()
def numbers(): yield outer()
list(numbers())
for line in lines(): print(line)
forget()
"""
    )
    outcome = run(python, program)
    assert outcome.returncode == 0
    evaluator, *result = [line.split(" ", 2) for line in outcome.stdout.splitlines()]
    assert evaluator[2] == "perfpy::evaluate"
    addresses = [int(address, 16) for address, _, _ in result]
    sizes = {int(size, 16) for _, size, _ in result}
    assert len(set(addresses)) == len(addresses)
    assert len(sizes) == 1
    own = [name.rpartition(":") for _, _, name in result if name.endswith(f":{program}")]
    assert [name for name, _, _ in own][:9] == [
        *("py::<module>", "py::Shape", "py::Shape.Side", "py::numbers", "py::outer", "py::outer.<locals>.inner", "py::Shape.sides"),
        *("py::Shape.Side.length", "py::Shape.Side.length.<locals>.<listcomp>"),
    ]


#: generators, coroutines, exceptions thrown into both, recursion to the limit, tracing, threads, weak references, signals
MANY_KINDS = """
import asyncio, gc, signal, sys, threading, traceback, weakref
def gen():
    try:
        got = yield 1
        yield got
    except ValueError as error:
        yield never_run_before(error)
    finally:
        print("closed")
def never_run_before(error): return type(error), sys.exc_info()[0]
g = gen(); print(next(g), g.send(5)); g = gen(); next(g); print(g.throw(ValueError("x"))); g.close()
async def leaf(n):
    await asyncio.sleep(0)
    if n == 3: raise KeyError(n)
    return n
async def main():
    print(await asyncio.gather(*(leaf(n) for n in range(5)), return_exceptions=True))
asyncio.run(main())
async def agen():
    for n in range(3): yield n
async def use(): return [n async for n in agen()]
print(asyncio.run(use()))
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError as error: print("deep", error.args[0][:30])
def raises(): raise OSError("a") from None
def through():
    try: raises()
    except OSError: raise TypeError("b")
try: through()
except TypeError: print([frame.name for frame in traceback.extract_tb(sys.exc_info()[2])])
events = []
def tracer(frame, event, arg):
    events.append((frame.f_code.co_name, event)); return tracer
def traced(x): return first_time(x) + 1
def first_time(x): return x
sys.settrace(tracer); traced(1); sys.settrace(None); print(events)
events.clear(); sys.setprofile(lambda frame, event, arg: events.append((frame.f_code.co_name, event)))
def profiled(): return first_profiled()
def first_profiled(): return 1
profiled(); sys.setprofile(None); print(events)
results = []
def work(n): results.append(sum(fib(n) for _ in range(3)))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
threads = [threading.Thread(target=work, args=(12,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(results)
class Node: pass
def cycle():
    a, b = Node(), Node(); a.b, b.a = b, a; return weakref.ref(a)
ref = cycle(); gc.collect(); print(ref() is None)
signal.signal(signal.SIGALRM, lambda number, frame: print("signal", frame.f_code.co_name))
def waits(): signal.raise_signal(signal.SIGALRM)
waits()
print(eval("(lambda x: x * 2)(4)"), [x for x in sorted([3, 1], key=lambda v: -v)])
def forever():
    while True: fib(5)
threading.Thread(target=forever, daemon=True).start()
"""


def test_names_do_not_change_programs(python: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        MANY_KINDS + "\nimport os\nif os.path.exists('/tmp/perf-%d.map' % os.getpid()): os.unlink('/tmp/perf-%d.map' % os.getpid())"
    )
    plain, with_names = run(python, program, named=False), run(python, program)
    assert (with_names.returncode, with_names.stdout, with_names.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.stdout.count("\n") == 14


def test_the_program_sees_no_trace_of_the_startup_folder(python: str):
    text = "print(sys.path, 'sitecustomize' in sys.modules, sorted(n for n in sys.modules if 'perfpy' in n), list(sys.path_importer_cache))"
    assert STARTUP not in said(python, text)
    assert said(python, text).split("]")[1].split() == run(python, f"import sys\n{text}", named=False).stdout.split("]")[1].split()


def test_the_users_sitecustomize_is_run_in_its_turn(python: str, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.flag = __file__")
    text = "import sitecustomize; print(sys.flag, sitecustomize.__file__)"
    assert said(python, text, PYTHONPATH=str(tmp_path)).split() == [f"{tmp_path}/sitecustomize.py"] * 2


def test_an_error_in_the_users_sitecustomize_is_reported_as_before(python: str, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("1 / 0")
    plain, with_names = (run(python, "print(1)", named=with_names, PYTHONPATH=str(tmp_path)) for with_names in (False, True))
    assert "ZeroDivisionError" in plain.stderr
    assert (plain.returncode, plain.stdout, plain.stderr) == (with_names.returncode, with_names.stdout, with_names.stderr)


def test_children_are_named_too(python: str):
    text = "import subprocess; print(subprocess.run([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE).stdout.decode())"
    assert said(python, text, MAP + "def child(): pass\nchild(); print(len(named('child'))); forget()").strip() == "1"


def test_a_forked_child_has_its_own_map_with_the_lines_of_its_parent(python: str):
    text = """
def before(): pass
def after(): pass
before()
child = os.fork()
if not child:
    after()
    print(len(named("before")), len(named("after")), oct(os.stat("/tmp/perf-%d.map" % os.getpid()).st_mode), flush=True)
    taken = {line.split()[0][:-4] for line in lines(os.getppid())}
    print(named("after")[0].split()[0][:-4] in taken, flush=True)
    forget(); os._exit(0)
os.waitpid(child, 0)
print(len(named("after")))"""
    # no address is in an arena of the parent's, who may give it to another function
    assert said(python, text).split() == ["1", "1", "0o100600", "False", "0"]


def test_descriptors_that_the_program_closes_and_uses_again_stay_unchanged(python: str, tmp_path: Path):
    text = """
os.closerange(3, 1024)
file = open(sys.argv[1], "w"); copies = [os.dup(file.fileno()) for _ in range(300)]
def later(): pass
later()
print(len(named("later")), os.path.getsize(sys.argv[1]))"""
    assert said(python, text, str(tmp_path / "file")).split() == ["1", "0"]


def test_code_that_is_compiled_again_and_again_takes_one_trampoline(python: str):
    text = "for _ in range(500): exec(compile('def again(): pass\\nagain()', 'made.py', 'exec'), {})\nprint(len(named('again')))"
    assert said(python, text).split() == ["1"]


def test_there_is_room_for_more_functions_than_one_arena_has(python: str):
    text = "for n in range(9000): exec(compile(f'def many{n}(): pass\\nmany{n}()', 'made.py', 'exec'), {})\n"
    text += "all = lines(); print(sum('py::many' in line for line in all), len({line.split()[0] for line in all}) == len(all))"
    assert said(python, text).split() == ["9000", "True"]


def test_names_stay_on_their_line(python: str):
    text = "exec(compile('1', 'a\\nb\\x1b' + 'c' * 5000, 'exec'))\nline = lines()[-1] if 'a?b?' in lines()[-1] else named('<module>')[-1]\n"
    text += "print(any('a?b?ccc' in line and len(line) < 2000 for line in lines()), all(line.count(' py::') == 1 for line in lines()[1:]))"
    assert said(python, text).split() == ["True", "True"]


def test_names_that_are_no_utf_8_harm_nothing(python: str):
    assert said(python, "exec(compile('def f(): return 5\\nprint(f())', '\\udc80.py', 'exec'), {})\nprint(len(named('f')))").split() == [
        "5",
        "1",
    ]


def test_the_program_that_follows_with_exec_goes_on_in_the_same_map(python: str):
    text = """
def first(): pass
first()
if not sys.argv[2:]: os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[1], "again"])
print(len(named("first")))"""
    assert said(python, text, MAP + text + "\nforget()").split() == ["2"]


def test_a_foreign_map_is_not_extended(python: str, tmp_path: Path):
    """Neither a link, nor a file that is older than the process."""
    victim, code = tmp_path / "victim", MAP + "print(len([line for line in lines() if 'old' in line])); forget()"
    leave = "import os, sys; p = '/tmp/perf-%d.map' % os.getpid(); os.path.exists(p) and os.unlink(p); "
    leave += "os.symlink(sys.argv[1], p); os.execv(sys.argv[2], sys.argv[2:])"
    victim.write_text("1 1 old\n")
    assert run(python, code, launcher=(sys.executable, "-I", "-c", leave, str(victim))).stdout.split() == ["0"]
    assert victim.read_text() == "1 1 old\n"
    leave = "import os, sys; p = '/tmp/perf-%d.map' % os.getpid(); open(p, 'w').write('1 1 old'); os.utime(p, (9, 9)); "
    leave += "os.execv(sys.argv[1], sys.argv[1:])"
    assert run(python, code, launcher=(sys.executable, "-I", "-c", leave)).stdout.split() == ["0"]


def test_a_machine_without_executable_memory_is_reported_in_a_line(python: str):
    refuse = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    if ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) < 0:
        pytest.skip("this kernel has no PR_SET_MDWE")
    result = run(python, "print(5)", launcher=(sys.executable, "-I", "-c", refuse))
    assert (result.returncode, result.stdout) == (0, "5\n")
    assert result.stderr.startswith("perfpy: process ")
    assert result.stderr.endswith("no names of Python functions: no executable memory here (Permission denied)\n")
    assert result.stderr.count("\n") == 1


def test_subinterpreters_stay_unchanged(python: str):
    text = """
import _xxsubinterpreters as others
one = others.create()
others.run_string(one, "def inside(): pass\\ninside()")
others.destroy(one)
print(len(named("inside")))"""
    assert said(python, text).split() == ["0"]


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.12", "3.13", "3.14"])
def test_other_versions_run_as_before(version: str):
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    text = "import sys; print(sys.path, 'sitecustomize' in sys.modules, 'ctypes' in sys.modules)"
    plain, with_names = run(python, text, named=False), run(python, text)
    assert (with_names.returncode, with_names.stdout, with_names.stderr) == (0, plain.stdout, plain.stderr)


def test_the_startup_folder_comes_before_the_users_own_path():
    paths = [environment_for(["python3"], environ).variables["PYTHONPATH"] for environ in ({}, {"PYTHONPATH": ""}, {"PYTHONPATH": "/a:/b"})]
    assert paths == [STARTUP, STARTUP, f"{STARTUP}:/a:/b"]  # an empty part would be the current folder


def test_code_in_other_interpreters_imports_nothing_of_perfpy():
    for path in Path(STARTUP).glob("*.py"):
        imported = {
            name.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8)))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        allowed = {"__future__", "os", "sys", "stat", "time", "ctypes", "sitecustomize", "perfpy_trampolines", "perfpy_machine_code"}
        assert imported <= allowed


@pytest.mark.particular
def test_the_machine_code_is_that_of_its_source(tmp_path: Path):
    compilers = [shutil.which(f"{machine}-linux-gnu-gcc") or "" for machine in ("x86_64", "aarch64")]
    if not all(compilers) or " 12.2." not in subprocess.run([compilers[0], "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("needs gcc 12.2 for x86-64 and aarch64")
    copied = shutil.copytree(CHECKOUT / "perfpy" / "capture" / "runtimes", tmp_path / "perfpy" / "capture" / "runtimes")
    (tmp_path / "scripts").mkdir()
    result = copied / "cpython_startup" / "perfpy_machine_code.py"
    result.unlink()
    subprocess.run([sys.executable, shutil.copy(CHECKOUT / "scripts" / "build_evaluator.py", tmp_path / "scripts")], check=True)
    assert result.read_text() == (Path(STARTUP) / "perfpy_machine_code.py").read_text()
