"""effectd installed into a folder of its own, as `meson install` does it, and found by pkg-config alone."""
import os
import re
import subprocess

from . import build


class Installed:
    def __init__(self, root):
        """Installs the build under test below root, which is made."""
        _run("meson", "install", "-C", build.FOLDER, "--no-rebuild", env={**os.environ, "DESTDIR": root})
        self.env = {**os.environ, "PKG_CONFIG_PATH": _move(root)}

    def variable(self, name):
        """A variable of effectd.pc."""
        return _run("pkg-config", f"--variable={name}", "effectd", env=self.env).strip()


def _move(root):
    """Tell effectd.pc where it lies; returns its folder."""
    for folder, _, files in os.walk(root):
        if "effectd.pc" in files:
            file = os.path.join(folder, "effectd.pc")
            with open(file, encoding="utf-8") as text:
                moved = re.sub("^prefix=(.*)", rf"prefix={root}\1", text.read(), flags=re.MULTILINE)
            with open(file, "w", encoding="utf-8") as text:
                text.write(moved)
            return folder
    raise AssertionError(f"no effectd.pc in {root}")


def _run(*command, env):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
