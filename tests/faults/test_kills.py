"""kill -9 at random moments under load, two processes with the same consumers: nothing lost, nothing twice."""
import os
import random
import time

import pytest

from kills import Turns, kill_all
from works import start

KILLS = 200


@pytest.fixture
def seed():
    """EFFECTD_SEED, or another one each time. pytest shows it when the test fails."""
    number = int(os.environ.get("EFFECTD_SEED", random.SystemRandom().randrange(10**6)))
    print(f"EFFECTD_SEED={number} chooses the same moments again")
    return number


@pytest.mark.slow
def test_every_effect_is_there_once_after_200_kills(works, seed):
    a, b = works.process("a"), works.process("b")
    with works.traffic(seed):
        begin = time.monotonic()
        met = kill_all([a, b], Turns(KILLS), seed)
        print(f"{met} in {time.monotonic() - begin:.1f} s, {works.progress()}")
    assert sum(met.values()) == KILLS and min(met["probation"], met["full"]) > KILLS / 10, met
    start(a), start(b)
    works.wait_empty()
    a.stop(), b.stop()
    works.check_all_applied()
