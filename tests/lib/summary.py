"""What effectd counted, read from its summary lines."""
import re
from collections import Counter

OUTCOMES = ("applied", "duplicate", "stale", "ignored", "retried", "parked")


def counted(daemon, consumer):
    """The numbers of the consumer's last summary line."""
    lines = [line for line in daemon.log().splitlines() if re.search(r"\bevent=summary\b", line)
             and re.search(rf"\bconsumer={consumer}\b", line)]
    assert lines, daemon.log_tail()
    return Counter({name: int(number) for name, number in re.findall(r"\b(\w+)=(\d+)(?= |$)", lines[-1])})


def outcomes(counts):
    """What is not zero of a summary's outcomes."""
    return {name: counts[name] for name in OUTCOMES if counts[name]}
