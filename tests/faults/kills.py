"""SIGKILL at random moments: of a start, of probation, of work at full prefetch."""
import random
import threading
from collections import Counter

from works import start


class Killer(threading.Thread):
    """Kills one process over and over, and leaves it dead. It starts it in this thread, so it does not outlive it."""

    def __init__(self, daemon, turns, seed):
        """turns are Turns that all killers share: one is one kill."""
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


def kill_all(daemons, turns, seed):
    """Kill the processes as often as there are turns, each at its own moments. Returns how far they were."""
    killers = [Killer(one, turns, seed + number) for number, one in enumerate(daemons)]
    for killer in killers:
        killer.start()
    for killer in killers:
        killer.join()
    for killer in killers:
        if killer.failed:
            raise killer.failed
    return sum((killer.met for killer in killers), Counter())


class Turns:
    """range(count) for several threads."""

    def __init__(self, count):
        self.count, self.taken, self._lock = count, 0, threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            if self.taken == self.count:
                raise StopIteration
            self.taken += 1
