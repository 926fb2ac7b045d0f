"""promtool, the machine's own or Debian's, fetched once; a test is skipped where there is neither it nor a network."""
import os
import subprocess

import pytest

from . import build

TOOL = os.path.join(build.ROOT, "tools", "promtool")
UNAVAILABLE = 69


def check(*args, text=None):
    """Run it, with text to read; it must find nothing wrong."""
    done = subprocess.run([TOOL, *args], input=text, stdin=None if text is not None else subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
