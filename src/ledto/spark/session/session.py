"""Start a Spark session anywhere.

Finds Java, runs workers on this interpreter, logs little, and binds to this machine only. Needs neither a network nor a
home, nor a name for the user's number: containers often have none of them.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import ledto
from ledto.errors import LedtoError, explain_full_disk, is_full
from ledto.folders import temporary_folder
from ledto.spark.session.class_archive import Archive, archive_for, archive_mode
from ledto.spark.session.java import JavaHome, find_java

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_LOCAL_DIR, _LOCAL_DIRS_VARIABLE = "spark.local.dir", "SPARK_LOCAL_DIRS"
_LOOPBACK = "127.0.0.1"
NO_NAME = "ledto"
"""The user's name in Spark, if the system has no name for the user's number."""

BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options for short work: the first compiler only, and the plain collector. Java starts sooner, and long jobs take
longer."""

_made_private: set[str] = set()

_EVERYWHERE: dict[str, str | int | bool] = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": True,
    # The transfer to Python is the slowest step of most jobs; 1 MiB instead of 64 KiB makes it 1.5 times as fast.
    "spark.sql.execution.python.udf.buffer.size": 1 << 20,
}


class NoTemporaryFolder(LedtoError):
    """Spark needs a folder for temporary files, and none can be written."""


def spark_session(
    app_name: str = "ledto",
    *,
    master: str | None = "local[*]",
    config: Mapping[str, str | int | bool] | None = None,
    brief: bool = False,
) -> SparkSession:
    """Get the running Spark session, or start a new one.

    `master` is Spark's own: ``local[*]`` runs on this machine's cores, ``None`` leaves the choice to ``spark-submit``.
    `config` wins over every setting made here; Java options in it are added to ours. With a local master, workers run
    this interpreter and can import ledto as the driver does; on a cluster, install ledto on its machines, and set
    ``PYSPARK_PYTHON`` if their interpreter has another path.

    A `brief` session is for work of a few seconds: it starts sooner, and is slower at long jobs. Any new local session
    uses the archive of Java's classes if there is one (`ledto.spark.session.class_archive`).

    With a local master, all temporary files, Java's too, are in folders that only this user can read, below those that
    ``spark.local.dir`` or ``SPARK_LOCAL_DIRS`` names. They are removed when this process ends.

    Raises `ledto.spark.session.java.JavaNotFound` if there is no Java to start, and `NoTemporaryFolder`. Sets
    ``JAVA_HOME``, ``PYSPARK_PYTHON`` and ``PYSPARK_DRIVER_PYTHON`` in this process's environment, because Spark reads them
    from nowhere else; and ``SPARK_LOCAL_IP`` or ``SPARK_USER`` where the host has no address or the user no name.

    HAZARD: if a session is running, it is returned, and of `config` only what Spark can change while running takes
    effect. The master can change after ``stop()``. Memory and Java options need a new process, because Java outlives
    the session.
    """
    settings, local = _prepare(app_name, master, config, brief=brief)
    is_running = SparkSession.getActiveSession() is not None
    _introduce_user(settings)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if local and _SHUFFLE_PARTITIONS not in settings:
        if is_running:
            spark.conf.set(_SHUFFLE_PARTITIONS, spark.sparkContext.defaultParallelism)
        else:
            _shuffle_by_cores(spark.sparkContext)
    return spark


def spark_context(
    app_name: str = "ledto",
    *,
    master: str | None = "local[*]",
    config: Mapping[str, str | int | bool] | None = None,
    brief: bool = False,
) -> SparkContext:
    """Get the running context, or start a new one, with all settings of a session but without SQL.

    It runs tasks. SQL, which every session starts with, takes a third of the time of Spark's start. Raises and sets
    what `spark_session` does.
    """
    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context
    settings, local = _prepare(app_name, master, config, brief=brief)
    _introduce_user(settings)
    context = SparkContext.getOrCreate(_make_conf(settings))
    if local and _SHUFFLE_PARTITIONS not in settings:
        _shuffle_by_cores(context)
    return context


def _prepare(
    app_name: str, master: str | None, config: Mapping[str, str | int | bool] | None, *, brief: bool
) -> tuple[dict[str, str | int | bool], bool]:
    """Make the environment ready for Java; return the settings, and whether the master is local."""
    local = master is not None and re.match(r"local(\[|$)", master) is not None
    own_config = dict(config or {})
    _prepare_environment(local=local)
    if local:
        _keep_files_private(own_config)
        _start_java_sooner(own_config, brief=brief)
    named = {"spark.app.name": app_name} | ({} if master is None else {"spark.master": master})
    return named | _settings(own_config, local=local), local


def _make_conf(settings: Mapping[str, str | int | bool]) -> SparkConf:
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))
    return conf


def _introduce_user(settings: Mapping[str, str | int | bool]) -> None:
    """Give Java a name for the user, if the system has none: Hadoop's classes, which open all files, need one to start.

    They ask the system only, and ignore HADOOP_USER_NAME if that fails. So they are told before they ask.
    """
    if _java_is_running() or _user_has_name():
        return
    SparkContext._ensure_initialized(conf=_make_conf(settings))
    assert SparkContext._jvm is not None
    users = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(os.environ.get("HADOOP_USER_NAME") or NO_NAME))


def _user_has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _host_has_address() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


def _shuffle_by_cores(context: SparkContext) -> None:
    """Let a shuffle make as many partitions as there are cores.

    A session reads its context's settings when SQL is first used. Setting it on the session would start all of SQL now.
    """
    context._jsc.sc().conf().set(_SHUFFLE_PARTITIONS, str(context.defaultParallelism))


def local_archive() -> Archive | None:
    """Find the place of the archive of classes for the Java that this process starts; None if it starts none."""
    return None if "PYSPARK_GATEWAY_PORT" in os.environ else archive_for(_java_to_start())


def _settings(config: Mapping[str, str | int | bool], *, local: bool) -> dict[str, str | int | bool]:
    quiet = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    java_options = f"{quiet} {config.get(_JAVA_OPTIONS, '')}".strip()
    return {**_EVERYWHERE, **(_on_this_machine() if local else {}), **config, _JAVA_OPTIONS: java_options}


def _on_this_machine() -> dict[str, str | int | bool]:
    # Without an address, Spark binds to whatever the host name resolves to, which offline or on a VPN may be nothing.
    settings: dict[str, str | int | bool] = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
    }
    root = Path(ledto.__file__).parents[1]
    if root.name not in ("site-packages", "dist-packages"):
        # Workers do not see what was done to the driver's sys.path, so a source tree must be named to them.
        settings["spark.executorEnv.PYTHONPATH"] = str(root)
    return settings


def _keep_files_private(config: dict[str, str | int | bool]) -> None:
    """Keep temporary files in private folders below the ones that were named, or in the usual temporary folder."""
    named = os.environ.get(_LOCAL_DIRS_VARIABLE) or str(config.get(_LOCAL_DIR, ""))
    private = named if named in _made_private else _private_folders(named)
    config[_LOCAL_DIR] = private
    if _LOCAL_DIRS_VARIABLE in os.environ:
        os.environ[_LOCAL_DIRS_VARIABLE] = private  # It wins over the setting.
    first = private.partition(",")[0]
    # Otherwise Spark would use a folder for tables below the current one.
    config.setdefault("spark.sql.warehouse.dir", str(Path(first, "warehouse")))
    quoted = first.replace("\\", "\\\\").replace('"', '\\"')
    options = f'-Djava.io.tmpdir="{quoted}"'
    if not _user_has_name():
        options += f' -Duser.home="{quoted}"'  # Otherwise it is "?", and Spark ends because that is no path.
    config[_JAVA_OPTIONS] = f"{options} {config.get(_JAVA_OPTIONS, '')}".strip()


@cache
def _private_folders(named: str) -> str:
    """Make a private folder in each of the named ones; return them separated by commas, as Spark reads them.

    Returns the same ones as long as this process runs. Raises `NoTemporaryFolder`.
    """
    try:
        places = [place.strip() for place in named.split(",") if place.strip()] or [tempfile.gettempdir()]
        for place in places:
            Path(place).mkdir(parents=True, exist_ok=True)
        made = ",".join(str(temporary_folder("ledto-spark", within=place)) for place in places)
    except OSError as failure:
        if is_full(failure):
            raise NoTemporaryFolder(explain_full_disk(named or tempfile.gettempdir())) from failure
        raise NoTemporaryFolder(
            f"Spark keeps temporary files and finds no folder that it can write ({failure}): set TMPDIR or "
            f"{_LOCAL_DIRS_VARIABLE} to one that you can, or use --engine inline, which needs none"
        ) from failure
    _made_private.add(made)
    return made


def _start_java_sooner(config: dict[str, str | int | bool], *, brief: bool) -> None:
    """Add Java options that shorten its start, before the given ones, which win."""
    options = list(BRIEF) if brief else []
    if not _java_is_running() and archive_mode() != "off":
        archive = local_archive()
        options += archive.java_options() if archive is not None else []
    config[_JAVA_OPTIONS] = " ".join([*options, str(config.get(_JAVA_OPTIONS, ""))]).strip()


def _java_is_running() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


@cache
def _java_to_start() -> JavaHome:
    return find_java()


def _prepare_environment(*, local: bool) -> None:
    if not _java_is_running():
        os.environ["JAVA_HOME"] = str(_java_to_start().path)
        if local and not _host_has_address():
            # Java looks up the host's name before it reads any setting, and ends if there is no address.
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        if not _user_has_name():
            os.environ.setdefault("SPARK_USER", os.environ.get("HADOOP_USER_NAME") or NO_NAME)
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if local or variable not in os.environ:
            os.environ[variable] = sys.executable
