"""Waiting for an event, with a deadline and a message that says what did not happen.

Nothing in the tests sleeps and hopes: a test names the condition and how long it may take.
"""
import time


class WaitTimeout(AssertionError):
    """The awaited condition did not come true in time."""


def wait_until(predicate, timeout, what, interval=0.02, explain=None):
    """Call predicate until it answers something true, and return that answer.

    what says in words what is awaited; explain, called after a timeout, adds what was seen instead.
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            seen = f"; {explain()}" if explain else f"; last answer: {answer!r}"
            raise WaitTimeout(f"waited {timeout} s in vain for: {what}{seen}")
        time.sleep(interval)
