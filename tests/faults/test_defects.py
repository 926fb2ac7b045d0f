"""The defects of tests/faults/defects, which prove that the tests can fail, still fit the source."""
import glob
import os
import subprocess

import pytest

from lib import build

FOLDER = os.path.join(build.ROOT, "tests", "faults", "defects")
PATCHES = sorted(glob.glob(os.path.join(FOLDER, "*.patch")))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: os.path.basename(path)[:-6])
def test_a_defect_can_still_be_made(patch):
    done = subprocess.run(["git", "apply", "--check", patch], cwd=build.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"make the patch anew:\n{done.stderr}"
    with open(patch, encoding="utf-8") as file:
        test = file.readlines()[1].split()
    assert test[0] == "run:" and os.path.exists(os.path.join(build.ROOT, test[1]))
