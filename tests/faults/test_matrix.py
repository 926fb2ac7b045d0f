"""The fault matrix: at every fault point that deliveries, retries and drains pass, everything that can happen there."""
import pytest

from lib.proxy import Proxy
from matrix import ACTIONS, ERROR, Matrix, points

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
