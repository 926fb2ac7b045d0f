"""effectd plugin list and show: what an operator sees of the plugins in a folder."""
import json
import os
import shutil
import subprocess

import pytest

from lib import build

ABI_PLUGINS = os.path.join(build.FOLDER, "tests", "abi")


def effectd(*arguments, **options):
    return subprocess.run([build.EFFECTD, "plugin", *arguments], capture_output=True, text=True, timeout=30, **options)


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o755)
    shutil.copy(build.plugin("loyalty_points"), tmp_path / "loyalty_points.so")
    shutil.copy(os.path.join(ABI_PLUGINS, "right.so"), tmp_path / "right.so")
    (tmp_path / "README").write_text("no plugin, and not meant to be one\n")
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    return tmp_path


def test_list_names_each_plugin_on_a_line(folder):
    done = effectd("list", str(folder))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["loyalty_points.so", "right.so"]
    assert "consumer loyalty" in lines[0] and "ABI 1." in lines[0]


def test_list_shows_refused_files_with_the_reason(folder):
    shutil.copy(os.path.join(ABI_PLUGINS, "hidden_commit.so"), folder / "hidden_commit.so")
    (folder / "text.so").write_text("not a shared object")
    (folder / "right.so").chmod(0o666)
    done = effectd("list", str(folder), "--json")
    assert done.returncode == 1
    found = {entry["file"]: entry.get("refused", "") for entry in json.loads(done.stdout)}
    assert found["loyalty_points.so"] == ""
    assert 'statement s begins with "COMMIT"' in found["hidden_commit.so"]
    assert "cannot be loaded" in found["text.so"]
    assert "writable by others" in found["right.so"]


def test_show_says_what_a_plugin_declares(folder):
    done = effectd("show", str(folder / "right.so"), "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["consumer"] == "right" and shown["apply_batch"] is False
    assert shown["options"][0] == {"name": "factor", "type": "int", "required": True, "default": None, "min": 1,
                                   "max": 100, "help": "points for each"}
    assert [(s["name"], s["rows"], s["otherwise"]) for s in shown["statements"]] == [
        ("entry", "new", "reject"), ("balance", "one", "retry")]

    text = effectd("show", str(folder / "right.so")).stdout
    assert "factor: int between 1 and 100, required" in text
    assert "UPDATE balances SET points = points + 1" in text


def test_show_refuses_as_the_daemon_does(folder):
    (folder / "right.so").chmod(0o646)
    done = effectd("show", str(folder / "right.so"))
    assert done.returncode == 1
    assert "is writable by others: chmod go-w it" in done.stderr and done.stdout == ""
    assert effectd("show").returncode == 2
    assert effectd("list", str(folder / "nowhere")).returncode == 1


def test_a_file_that_lies_here_is_offered_by_its_path(folder):
    done = effectd("show", "right.so", "-c", "nowhere.ini", cwd=folder)
    assert done.returncode == 78 and "did you mean ./right.so?" in done.stderr
