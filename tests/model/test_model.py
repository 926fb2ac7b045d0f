"""The promise as a model (effectd.pml), searched by spin: every interleaving, with a crash, a cut channel and a lost answer
of COMMIT at every step. Each broken variant must give a counterexample, else the model could not tell.

By hand, with more of each going wrong:  tests/model/search -DCRASHES=2 -DCUTS=2 -DLOST=2
"""
import os
import re
import shutil
import subprocess

import pytest

SEARCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "search")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("spin"), reason="spin is not installed")]


def search(*defines):
    result = subprocess.run([SEARCH, *defines], capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"errors: (\d+)", result.stdout)
    assert found, result.stdout + result.stderr
    return int(found.group(1)), result.stdout


def test_an_effect_is_there_once_and_an_acknowledged_message_is_applied_or_parked():
    errors, output = search()
    assert errors == 0, output


@pytest.mark.parametrize("defect", [
    "ACK_BEFORE_COMMIT", "CLAIM_IN_ITS_OWN_TRANSACTION", "SKIP_CLAIM_UNLESS_REDELIVERED", "ACK_IN_DOUBT", "STALE_ACK",
    "WINDOW_TOO_SHORT", "ACK_BEFORE_PARKING"])
def test_a_broken_variant_is_found(defect):
    errors, output = search(f"-D{defect}")
    assert errors > 0, output
    assert "assertion violated" in output
