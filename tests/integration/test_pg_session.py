"""The PostgreSQL session, its flights and the three answers of COMMIT, against a real server: see pg_driver.c."""
import os
import subprocess

from lib import build

DRIVER = os.path.join(build.FOLDER, "tests", "integration", "pg_driver")


def test_session_and_its_faults(empty_db):
    done = subprocess.run([DRIVER], env={**os.environ, "CONNINFO": empty_db.conninfo}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
