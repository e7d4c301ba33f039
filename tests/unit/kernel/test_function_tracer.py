"""The function tracer, and probes in tracefs."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import KernelRefusedError, PerfError
from perfpy.kernel.function_tracer import FUNCTION, GRAPH, FunctionTracer, function_names
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs

if TYPE_CHECKING:
    from pathlib import Path


# Tests that the state of the function tracers is put back, on a folder with tracefs' files.


STATE = {
    "current_tracer": "nop\n",
    "set_ftrace_filter": "vfs_read\nvfs_write [module]\nschedule:traceoff:unlimited\n",
    "set_graph_function": "#### all functions enabled ####\n",
    "set_ftrace_pid": "no pid\n",
    "tracing_on": "1\n",
    "buffer_size_kb": "7 (expanded: 1408)\n",
}
RESTORED = {
    **STATE, "set_ftrace_filter": "vfs_read\nvfs_write [module]\n", "set_graph_function": "", "set_ftrace_pid": "",
    "buffer_size_kb": "1408\n",
}  # fmt: skip


@pytest.fixture
def root(tmp_path):
    for name, text in STATE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "instances").mkdir()
    return tmp_path


def state(root):
    return {name: (root / name).read_text() for name in STATE}


def change_everything(tracer):
    tracer.set("set_ftrace_filter", "a\nb")
    tracer.set("set_graph_function", "c")
    tracer.set("set_ftrace_pid", "7")
    tracer.set("buffer_size_kb", "4096")
    tracer.choose()
    tracer.start()


def test_settings_are_written_and_put_back(root):
    with FunctionTracer(str(root), GRAPH) as tracer:
        change_everything(tracer)
        assert state(root) == {
            "current_tracer": "function_graph\n", "set_ftrace_filter": "a\nb\n", "set_graph_function": "c\n", "set_ftrace_pid": "7\n",
            "tracing_on": "1\n", "buffer_size_kb": "4096\n",
        }  # fmt: skip
    assert state(root) == RESTORED


def test_settings_are_put_back_after_an_error(root):
    def fail_in_between():
        with FunctionTracer(str(root), GRAPH) as tracer:
            change_everything(tracer)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail_in_between()
    assert state(root) == RESTORED


def test_settings_are_put_back_after_sigkill(root):
    ready, messages = os.pipe()
    pid = os.fork()
    if not pid:
        with FunctionTracer(str(root), GRAPH) as tracer:
            change_everything(tracer)
            os.write(messages, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + 20
    while state(root) != RESTORED and time.monotonic() < deadline:
        time.sleep(0.01)
    assert state(root) == RESTORED


def test_defaults_replace_earlier_settings(root):
    with FunctionTracer(str(root), GRAPH) as tracer:
        tracer.set_defaults()
        assert (root / "set_ftrace_filter").read_text() == ""
        assert tracer.missing == []
    assert state(root) == {**RESTORED, "buffer_size_kb": STATE["buffer_size_kb"]}


def test_a_file_that_the_kernel_lacks_is_noted(root):
    with FunctionTracer(str(root), GRAPH) as tracer:
        tracer.set("max_graph_depth", "3")
        assert tracer.missing == ["max_graph_depth"]


def test_another_tracer_is_left_alone(root):
    (root / "current_tracer").write_text("function\n")
    with pytest.raises(PerfError, match="the tracer 'function' is active"), FunctionTracer(str(root), GRAPH):
        pass
    assert (root / "current_tracer").read_text() == "function\n"


def test_the_tracer_function_has_an_instance_of_its_own(root):
    with FunctionTracer(str(root), FUNCTION) as tracer:
        assert tracer.folder == f"{root}/instances/perfpy_{os.getpid()}"
        assert os.path.isdir(tracer.folder)
        tracer.set_defaults()
    assert state(root) == STATE
    assert os.listdir(root / "instances") == []


def test_an_option_that_all_instances_share_is_put_back(root):
    with FunctionTracer(str(root), FUNCTION) as tracer:
        option = root / tracer.folder / "options" / "func_stack_trace"
        option.parent.mkdir()
        option.write_text("0\n")
        tracer.set("options/func_stack_trace", "1")
        assert option.read_text() == "1\n"
    assert option.read_text() == "0\n"


def test_the_global_buffer_gets_its_first_size_back_from_kernels_that_forget_it(root):
    with FunctionTracer(str(root), FUNCTION):
        (root / "buffer_size_kb").write_text("7\n")  # as kernels before 6.7 do at the first use of an instance
    assert state(root) == {**STATE, "buffer_size_kb": "1408\n"}


def test_a_kernel_without_tracers_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(KernelRefusedError, match="built without function tracers; perfpy record"):
        function_names(str(tmp_path))


# The file of dynamic probes gets one definition at a time.


@pytest.mark.parametrize("text", ["p:a/b /x:0x1\np:c/d /bin/sh:0x2", "p:a/b /x:0x1 #"])
def test_several_lines_are_not_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "kprobe_events").write_text("")
    events = ProbeEvents(Tracefs((str(tmp_path),)))
    with pytest.raises(KernelRefusedError, match="more than one line"):
        events.add(text, None)
    events.add("p:a/b vfs_read+0", None)
    assert (tmp_path / "kprobe_events").read_text() == "p:a/b vfs_read+0\n"


def test_a_process_owns_probes_that_are_younger_or_whose_list_it_has_open(tmp_path: Path) -> None:
    group = tmp_path / "events" / "probe_a_by1"
    group.mkdir(parents=True)
    (tmp_path / "uprobe_events").write_text("")
    events = ProbeEvents(Tracefs((str(tmp_path),)))
    pid = os.getpid()
    assert events.may_own(pid, group.name)
    os.utime(group, (0, 1))
    assert not events.may_own(pid, group.name)
    fd = events.open()
    assert events.may_own(pid, group.name)
    os.close(fd)
    assert not events.may_own(pid, group.name)
    assert events.may_own(pid, "a_group_without_a_folder")
    assert not events.may_own(999_999_999, group.name)
