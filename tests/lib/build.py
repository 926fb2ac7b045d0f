"""Where the build under test is: EFFECTD_BUILD names the build folder (default: build)."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, os.environ.get("EFFECTD_BUILD", "build"))
EFFECTD = os.path.join(FOLDER, "core", "effectd")


def plugin(name):
    """The .so of a shipped plugin, or of a test plugin."""
    shipped = os.path.join(FOLDER, "plugins", name, f"{name}.so")
    return shipped if os.path.exists(shipped) else os.path.join(FOLDER, "tests", "plugins", f"{name}.so")


def plugin_schema(name):
    """The schema.sql that makes a shipped plugin's tables."""
    return os.path.join(ROOT, "plugins", name, "schema.sql")


def require():
    """Raise with what to do when nothing has been built."""
    if not os.access(EFFECTD, os.X_OK):
        raise RuntimeError(f"{EFFECTD} is missing: run `meson setup build && ninja -C build`, "
                           "or name another build folder in EFFECTD_BUILD")
