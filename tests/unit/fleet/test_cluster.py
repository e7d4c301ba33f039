"""A cluster gives the same report as one process, also if workers die or recordings are unreadable."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.analysis.report.options import ReportOptions
from perfpy.errors import PerfError, UsageError
from perfpy.fleet import cluster
from perfpy.fleet.cluster import _await_task, _fold_on_worker, _Folding, _seconds_each, bundles_of, cluster_address
from perfpy.fleet.folding import FoldedGroup, FoldingRequest, merge_groups
from perfpy.fleet.portable_profile import RecordingProblem
from perfpy.fleet.recordings import Recordings
from tests.builders.own_corpus import RECORDINGS

# a separate program: a cluster has threads and processes, and warns of objects that it leaves to the garbage collector
REPORTS = """
import json, os, signal, sys, time
from perfpy.analysis.report.options import ColumnOptions
from perfpy.analysis.report.options import CallGraph, ChainOptions, ReportOptions
from perfpy.fleet.cluster import _client
from perfpy.fleet.recordings import Recordings

OPTIONS = ReportOptions(columns=ColumnOptions(sort="comm,dso,symbol"), chains=ChainOptions(CallGraph(order="caller"), children=True))

def report(recordings, options_of=None):
    rows = [[list(row.texts.values()), row.period, row.samples] for row in recordings.report(options=OPTIONS, options_of=options_of)]
    return rows, [path for path, _ in recordings.failed]

class Evil:
    def __reduce__(self):
        return exec, ("import sys; sys.perfpy_ran = True",)

def evil():
    return Evil()

def harmful(recording):
    if recording.path.endswith("host3.data"):
        os.kill(os.getpid(), signal.SIGKILL)
    if recording.path.endswith("host4.data"):
        time.sleep(600)
    return OPTIONS, None

if __name__ == "__main__":
    from distributed import LocalCluster
    paths = sys.argv[1:]
    found = {"alone": report(Recordings(paths, jobs=1)), "without": report(Recordings(paths[:3] + paths[5:], jobs=1))}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        os.environ["PERFPY_CLUSTER_TIMEOUT"] = "10"
        with _client(cluster.scheduler_address) as client:
            try:
                client.submit(evil).result()
            except TypeError:
                found["refused"] = not hasattr(sys, "perfpy_ran")
        allowed, cluster.scheduler.allowed_failures = cluster.scheduler.allowed_failures, 0
        harmed = Recordings(paths, cluster=cluster.scheduler_address)
        found["harmed"] = report(harmed, harmful)
        found["reasons"] = [reason for path, reason in harmed.failed]
        del os.environ["PERFPY_CLUSTER_TIMEOUT"]
        cluster.scheduler.allowed_failures = allowed
        def killing(share):
            if pids:
                os.kill(pids.pop(), signal.SIGKILL)
        pids = [worker.pid for worker in cluster.workers.values()][:1]
        found["cluster"] = report(Recordings(paths, cluster=cluster.scheduler_address))
        found["killed"] = report(Recordings(paths, cluster=cluster.scheduler_address, progress=killing))
        assert not pids
    print(json.dumps(found))
"""
COPIES = 12
REQUEST = FoldingRequest(lambda _recording: (ReportOptions(), None))


@pytest.mark.thorough
def test_a_cluster_gives_the_same_report_also_when_workers_die(tmp_path):
    """A worker that dies once changes nothing; a recording that repeatedly kills or blocks workers is reported as unreadable."""
    pytest.importorskip("distributed")
    (tmp_path / "reports.py").write_text(REPORTS)
    paths = [tmp_path / f"host{number}.data" for number in range(COPIES)]
    for number, path in enumerate(paths):
        name = ("chains", "lost", "fork-exec")[number % 3]
        path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    paths[5].write_bytes(b"PERFILE2 and no more")
    paths[7].unlink()
    command = [sys.executable, tmp_path / "reports.py", *map(str, paths)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=400)
    output = json.loads(process.stdout)
    assert output["cluster"] == output["alone"] == output["killed"]
    assert output["harmed"][0] == output["without"][0]
    assert output["harmed"][1] == [str(paths[number]) for number in (3, 4, 5, 7)]
    assert output["reasons"][:2] == ["the workers that read it died", "not read within 10 seconds"]
    assert output["refused"], "a pickled result was accepted"
    rows, failed = output["alone"]
    assert failed == [str(paths[5]), str(paths[7])]
    assert len(rows) > 10


class Future:
    """A task that finishes at once, or never."""

    def __init__(self, *, done):
        self._done = done

    def add_done_callback(self, callback):
        if self._done:
            callback(self)

    def done(self):
        return self._done

    def exception(self):
        return None


class Client:
    """Workers "slow" and "idle", or none. The first task of all never finishes."""

    def __init__(self, workers):
        self.workers = workers
        self.asked = []

    def nthreads(self):
        return dict.fromkeys(self.workers, 1)

    def processing(self):
        return {worker: ["task"] if worker == "slow" else [] for worker in self.workers}

    def submit(self, _work, paths, *_rest, workers=(), **_how):
        self.asked.append((paths, tuple(workers)))
        return Future(done=len(self.asked) > 1)


@pytest.fixture
def at_once(monkeypatch):
    pytest.importorskip("distributed")
    for name in ("_LOOK", "_SLOW", "_ALONE"):
        monkeypatch.setattr(cluster, name, 0.01)


@pytest.mark.usefixtures("at_once")
@pytest.mark.thorough
def test_slow_tasks_run_on_an_idle_worker_too():
    client = Client(["slow", "idle"])
    shares: list[float] = []
    results = _Folding(client, "tcp://here:1", REQUEST, ["a", "b"]).results(shares.append)
    assert [future.done() for future in results] == [True, True]
    assert client.asked == [(["a"], ()), (["b"], ()), (["a"], ("idle",))]
    assert shares == [0.5, 1]


@pytest.mark.usefixtures("at_once")
def test_a_cluster_without_workers_fails():
    with pytest.raises(PerfError, match="the cluster at tcp://here:1 has no workers"):
        _Folding(Client([]), "tcp://here:1", REQUEST, ["a"]).results(None)
    with pytest.raises(PerfError, match="the cluster at tcp://here:1 has no workers"):
        _await_task(Client([]), "tcp://here:1", Future(done=False))


def test_another_version_on_a_worker_is_an_error():
    with pytest.raises(PerfError, match=r"a worker has perfpy .*, this process 0\.0\.0; install the same version"):
        _fold_on_worker(["a"], REQUEST, "report", "0.0.0", 1.0)


@pytest.mark.parametrize("given", ["soon", "1,5"])
def test_invalid_timeouts_are_refused(monkeypatch, given):
    monkeypatch.setenv("PERFPY_CLUSTER_TIMEOUT", given)
    with pytest.raises(UsageError, match="a number of seconds"):
        _seconds_each()


def test_a_missing_cluster_is_an_error(tmp_path):
    distributed = pytest.importorskip("distributed")
    assert distributed
    code = "import dask; dask.config.set({'distributed.comm.timeouts.connect': '0.2s'});"
    code += "import perfpy; perfpy.open_many('nowhere.data', cluster='tcp://127.0.0.1:1').report()"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "perfpy.errors.PerfError: no cluster at tcp://127.0.0.1:1" in process.stderr


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PerfError, match=r"pip install 'perfpy\[cluster\]'"):
        Recordings(["perf.data"], cluster="tcp://127.0.0.1:1").report()


def test_the_address_may_be_in_the_environment(monkeypatch):
    monkeypatch.setenv("PERFPY_CLUSTER", "tcp://there:8786")
    assert cluster_address("") == "tcp://there:8786"
    assert cluster_address("tcp://here:8786") == "tcp://here:8786"
    monkeypatch.delenv("PERFPY_CLUSTER")
    assert cluster_address("") == ""


def test_groups_without_readable_recordings():
    nothing = FoldedGroup(None, [RecordingProblem("a", "why")])
    assert merge_groups([nothing, FoldedGroup(None, [RecordingProblem("b", "why")])]) == FoldedGroup(
        None, [RecordingProblem("a", "why"), RecordingProblem("b", "why")]
    )


def test_small_recordings_share_a_task_and_large_ones_do_not(tmp_path: Path) -> None:
    small = [str(tmp_path / f"small{number}") for number in range(40)]
    large = [str(tmp_path / f"large{number}") for number in range(3)]
    for path in small:
        Path(path).write_bytes(b"x")
    for path in large:
        with open(path, "wb") as file:
            file.truncate(60 << 20)
    assert [len(bundle) for bundle in bundles_of(small, 2)] == [5] * 8
    assert [len(bundle) for bundle in bundles_of([*large, *small], 1)] == [1, 1, 10, 10, 10, 10, 1]
    assert [path for bundle in bundles_of([*large, *small], 1) for path in bundle] == [*large, *small]


def test_recordings_that_only_workers_see_are_taken_for_16_mb() -> None:
    paths = [f"s3://bucket/{number}" for number in range(100)]
    assert {len(bundle) for bundle in bundles_of(paths, 2)} == {4}
    assert {len(bundle) for bundle in bundles_of(paths, 50)} == {1}
