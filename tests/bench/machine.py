"""The lines without which the figures mean nothing: on what they were measured, and how quiet it was."""
import os
import platform
import re
import subprocess
from statistics import median

import cpu


def describe(stage, sync_ms, runs):
    """runs: every Throughput of this run of the bench."""
    rabbitmq = stage.rabbit.eval("rabbit_misc:version().").strip('"')
    lines = [
        f"{_cpu_model()}, {cpu.CORES} cores, {_memory_gib():.0f} GiB, Linux {platform.release()}; servers, publisher "
        "and contenders on this one machine",
        f"PostgreSQL {_postgres(stage)}, RabbitMQ {rabbitmq} (quorum queues), {_first_line('cc')}, "
        f"{_first_line('go', 'version')}, Python {platform.python_version()}",
        f"a sync of PostgreSQL's log takes {sync_ms:.2f} ms on average; fsync and synchronous_commit are on",
    ]
    if runs:
        others = [run.others for run in runs]
        lines.append(f"programs that are no part of this took {100 * median(others):.0f} % of the machine (median of "
                     f"the runs; worst {100 * max(others):.0f} %)")
    return lines


def _cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        match = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return match[1] if match else platform.machine()


def _memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _postgres(stage):
    with stage.pg.connect() as connection:
        return connection.execute("SHOW server_version").fetchone()[0].split()[0]


def _first_line(program, option="--version"):
    done = subprocess.run([program, option], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
