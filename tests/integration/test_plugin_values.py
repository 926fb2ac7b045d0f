"""A plugin's values and statements against a real server: see plugin_driver.c."""
import os
import subprocess

from lib import build

DRIVER = os.path.join(build.FOLDER, "tests", "integration", "plugin_driver")


def test_values_arrive_as_given(empty_db):
    done = subprocess.run([DRIVER], env={**os.environ, "CONNINFO": empty_db.conninfo}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
