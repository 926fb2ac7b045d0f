"""Builds what the bench runs: effectd as its users get it, the peers, and the loyalty plugin without apply_batch."""
import os
import subprocess

from lib import build

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(build.FOLDER, "bench")
PUBLISH, DRAIN, FLOOR, GO = (os.path.join(FOLDER, name) for name in ("publish", "drain", "floor", "go_consumer"))
PROVIDER = os.path.join(FOLDER, "provider")
TEXTBOOK = os.path.join(HERE, "peers", "textbook.py")
LOYALTY_ROWS = os.path.join(FOLDER, "loyalty_points_rows.so")

MESON = ["--buildtype=release", "-Dtests=disabled"]
CC = ["cc", "-O2", "-std=gnu11", "-Wall", "-Wextra"]
PEERS = {
    PUBLISH: [*CC, "publish.c", "-lrabbitmq"],
    DRAIN: [*CC, "drain.c", "-lrabbitmq"],
    FLOOR: [*CC, "-I/usr/include/postgresql", "floor.c", "-lrabbitmq", "-lpq", "-ljansson"],
    LOYALTY_ROWS: [*CC, "-fPIC", "-shared", "-fvisibility=hidden", f"-I{build.ROOT}/include", "loyalty_points_rows.c"],
    GO: ["go", "build", "go_consumer.go"],
}
OUTBOX_PEERS = {PROVIDER: [*CC, "provider.c", "-lmicrohttpd"], PUBLISH: PEERS[PUBLISH]}
# Debian's Go packages install their sources here.
GO_ENV = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}


def make(own_build, peers=None):
    """own_build: the bench configures effectd itself; else somebody names a build folder in EFFECTD_BUILD."""
    if own_build and not os.path.exists(os.path.join(build.FOLDER, "build.ninja")):
        _run(["meson", "setup", *MESON, build.FOLDER], build.ROOT)
    if own_build:
        _run(["meson", "compile", "-C", build.FOLDER], build.ROOT)
    build.require()
    os.makedirs(FOLDER, exist_ok=True)
    for target, command in (peers or PEERS).items():
        _run([*command[:2], "-o", target, *command[2:]], os.path.join(HERE, "peers"))


def _run(command, folder):
    done = subprocess.run(command, cwd=folder, env={**os.environ, **GO_ENV}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
