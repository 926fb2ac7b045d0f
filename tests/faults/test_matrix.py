"""The fault matrix: at every fault point that deliveries, retries and drains pass, everything that can happen there."""
import pytest

from lib.proxy import Proxy
from lib.wait import wait_until
from matrix import ACTIONS, ERROR, Matrix, hit, points
from stage import QUEUE, script

# Places where the code has nothing that could fail: an error there is no fault.
NOTHING_FAILS = {"after_collect", "after_key", "after_commit", "before_ack", "after_ack", *points("DRAINS")}

pytestmark = pytest.mark.usefixtures("fault_points")


@pytest.fixture
def matrix(stage, runtime_dir, pg, rabbit):
    with Proxy("postgresql", pg.port) as pg_proxy, Proxy("amqp", rabbit.port) as mq_proxy:
        yield Matrix(stage, runtime_dir, pg_proxy, mq_proxy)


@pytest.mark.slow
@pytest.mark.parametrize("point", points("DELIVERIES", "RETRIES", "DRAINS"))
def test_nothing_is_lost_or_applied_twice_whatever_happens_at(matrix, point):
    with matrix.beside() as beside:
        matrix.stage.ready(beside, 2)
        for action in ACTIONS:
            if action != ERROR or point not in NOTHING_FAILS:
                matrix.cell(point, action)


def test_a_message_goes_back_to_its_queue_when_its_parked_row_did_not_commit(stage):
    stage.declare()
    with stage.daemon(fault="before_commit=delay:60000") as daemon:
        stage.send(script("k", verdict="reject"))
        daemon.wait_log(hit("before_commit"))
        daemon.kill()
        wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 15, "the delivery to go back")
    assert not stage.parked()
