"""SIGKILL at random moments: of a start, of probation, of work at full prefetch."""
import random
import threading
from collections import Counter

from works import start


class Killer(threading.Thread):
    """Kills one process over and over, and leaves it dead. It starts it in this thread, so it does not outlive it."""

    def __init__(self, daemon, turns, seed):
        """turns is an iterator that all killers share: one item is one kill."""
        super().__init__(daemon=True)
        self._daemon, self._turns, self._rng = daemon, turns, random.Random(seed)
        self.met = Counter()  # how far the lives were when they ended
        self.failed = None

    def run(self):
        try:
            for _ in self._turns:
                self._live_and_die()
        except BaseException as error:  # told by kill_all
            self.failed = error

    def _live_and_die(self):
        life = start(self._daemon)
        try:
            if self._rng.random() < 0.7:
                self._pause(0.02, 0.3)
            else:
                life.wait_full()
                self._pause(0, 0.1)
            assert self._daemon.alive(), f"effectd ended by itself; {self._daemon.log_tail()}"
            self.met["full" if life.is_full() else "some" if life.consuming() else "probation"] += 1
        finally:
            self._daemon.kill()

    def _pause(self, least, most):
        threading.Event().wait(self._rng.uniform(least, most))


def kill_all(daemons, kills, seed):
    """Kill the processes `kills` times in all, each at its own moments. Returns how far they were."""
    turns = _Shared(kills)
    killers = [Killer(one, turns, seed + number) for number, one in enumerate(daemons)]
    for killer in killers:
        killer.start()
    for killer in killers:
        killer.join()
    for killer in killers:
        if killer.failed:
            raise killer.failed
    return sum((killer.met for killer in killers), Counter())


class _Shared:
    """range() for several threads."""

    def __init__(self, count):
        self._numbers, self._lock = iter(range(count)), threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            return next(self._numbers)
