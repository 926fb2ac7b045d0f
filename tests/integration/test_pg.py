"""The PostgreSQL session, its flights and the three answers of COMMIT, against a real server: see pg_*_driver.c."""
import os
import subprocess

import pytest

from lib import build


@pytest.mark.parametrize("name", ["pg_session_driver", "pg_commit_driver"])
def test_driver(empty_db, name):
    driver = os.path.join(build.FOLDER, "tests", "integration", name)
    done = subprocess.run([driver], env={**os.environ, "CONNINFO": empty_db.conninfo}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
