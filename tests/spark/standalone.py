"""A standalone Spark cluster on this machine, from the installed package: a master and some workers, as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from ledto.spark.session.java import find_java

HOST = "127.0.0.1"


class Cluster:
    """A master and its workers; each is a process group, so that killing one takes its executors with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._groups: list[subprocess.Popen[bytes]] = []
        self.port = _free_port()
        self.url = f"spark://{HOST}:{self.port}"

    def start(self, workers: int) -> None:
        ports = ["--port", str(self.port), "--webui-port", str(_free_port())]
        self._launch("org.apache.spark.deploy.master.Master", "--host", HOST, *ports)
        _wait_for_port(self.port)
        for number in range(workers):
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"worker-{number}")]
            self._launch("org.apache.spark.deploy.worker.Worker", "--host", HOST, "--webui-port", "0", *own, self.url)

    def kill_worker(self) -> None:
        """Kill -9, as a machine that loses its power."""
        worker = self._groups.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        for process in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _launch(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        log = (self._folder / f"{name.rpartition('.')[2]}-{len(self._groups)}.log").open("wb")
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().path),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
        }
        command = [str(home / "bin" / "spark-class"), name, *arguments]
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self._groups.append(started)


@contextmanager
def standalone_cluster(folder: Path, *, workers: int) -> Iterator[Cluster]:
    """A running cluster, all of whose processes are gone at the end."""
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")
