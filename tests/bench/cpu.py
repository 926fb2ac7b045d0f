"""CPU time, from /proc: of a server with all its processes, and of the whole machine."""
import os

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count()
UTIME, STIME, CUTIME, CSTIME, PPID = 11, 12, 13, 14, 1  # fields of /proc/PID/stat behind the name
IDLE, IOWAIT = 3, 4                                     # columns of /proc/stat's first line


def family_s(pid):
    """CPU seconds of a process and its children, the ended ones as well."""
    own = _stat(pid)
    ticks = sum(own[UTIME:CSTIME + 1]) if own else 0
    for name in os.listdir("/proc"):
        child = _stat(name) if name.isdigit() else None
        if child and child[PPID] == pid:
            ticks += sum(child[UTIME:CSTIME + 1])
    return ticks * TICK_S


def machine_busy_s():
    """CPU seconds that anybody has used since boot, all cores together."""
    with open("/proc/stat", encoding="ascii") as file:
        columns = [int(word) for word in file.readline().split()[1:9]]
    return (sum(columns) - columns[IDLE] - columns[IOWAIT]) * TICK_S


def _stat(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return [0, *map(int, numbers)] if state not in "ZX" else None
