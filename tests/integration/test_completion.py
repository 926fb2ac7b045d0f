"""Completion: what `effectd completion words` offers, and that each shell's script brings it to the command line."""
import fcntl
import os
import pty
import select
import shutil
import subprocess
import termios
import time

import pytest

from lib import build
from lib.daemon import effectd

INI = """[effectd]
include = more.ini
[database:main]
conninfo = host=nowhere
password_file = /not/there
[consumer:loyalty]
wrong = key
[consumer:loyal_too]
"""


@pytest.fixture
def ini(tmp_path):
    """Names can be offered from a configuration with mistakes: it may be the one that is being mended."""
    (tmp_path / "more.ini").write_text("[consumer:receipts]\n[relay:mail]\n")
    (tmp_path / "my.ini").write_text(INI)
    return str(tmp_path / "my.ini")


def words(*typed, **options):
    done = effectd("completion", "words", "--", *typed, **options)
    assert done.rc == 0 and done.stderr == "", done
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def offered(verb, kind):
    """The lines of a command's --help that begin so."""
    lines = effectd(*verb, "--help").stdout.split("\n\n")
    return {line.split()[0] for part in lines for line in part.splitlines() if line.startswith("  " + kind)}


def test_commands_actions_and_options_are_those_of_help():
    commands = [line.split()[0] for line in effectd("--help").stdout.split("Commands:\n")[1].split("\n\n")[0].splitlines()
                if line.startswith("  ") and line[2] != " "]
    assert words("") == commands and words("re") == ["reload", "retention"]
    for command in commands:
        options = words(command, "--")
        assert offered([command], "--") <= set(options) and {"--json", "--config"} <= set(options), command
    assert words("parked", "") == ["list", "show", "retry", "drop"] and words("parked", "sh") == ["show"]
    assert words("no", "") == words("parked", "no", "") == []


def test_options_are_those_of_the_action():
    assert "--body" in words("parked", "show", "--b") and words("parked", "list", "--bo") == []
    assert words("plugin", "new", "x", "--l") == ["--lang"] and words("plugin", "list", "--l") == []


def test_values_are_words_of_the_table():
    assert words("parked", "list", "--status", "") == ["retry", "dead"]
    assert words("outbox", "list", "--status", "") == ["pending", "sent", "dead"]
    assert words("plugin", "new", "--lang=c") == ["--lang=c", "--lang=c++"]
    assert words("parked", "--reason", "=", "ro") == ["row_count"]  # as bash splits it
    assert words("migrate", "claims", "loyalty", "") == ["daily"]


def test_names_come_from_the_configuration(ini):
    names = ["loyalty", "loyal_too", "receipts"]
    assert words("try", "-c", ini, "--consumer", "") == words("-c" + ini, "try", "--consumer", "") == names
    assert words("run", f"--config={ini}", "--relay", "") == ["mail"]
    assert words("migrate", "-c", ini, "claims", "loyal_") == ["loyal_too"]
    assert words("retention", "-c", "~/my.ini", "--forget", "r", env={"HOME": os.path.dirname(ini)}) == ["receipts"]
    assert words("try", "-c", ini + ".not", "--consumer", "") == []


def test_files_are_left_to_the_shell():
    for typed in (["-c", ""], ["try", "--golden", "x"], ["feed", ""], ["plugin", "list", ""], ["try", "--golden=x"]):
        assert words(*typed) == ["@files"], typed


def test_bash_gets_the_words_that_it_split(ini):
    """As bash calls it for `effectd run -c FILE --consumer=loy`: three words of the last."""
    script = effectd("completion", "bash").stdout + """
        COMP_WORDS=(effectd run -c "$2" --consumer = loy); COMP_CWORD=6
        _effectd "$1" loy =
        printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", build.EFFECTD, ini], capture_output=True, text=True,
                          check=True, timeout=30)
    assert done.stdout.split() == ["loyalty", "loyal_too"] and done.stderr == ""


RC = {
    "bash": ("rc", "source {script}", ["bash", "--rcfile", "rc", "-i"]),
    "zsh": (".zshrc", "autoload -U compinit; compinit -u -D; source {script}", ["zsh", "-d", "-i"]),
    "fish": ("rc", "source {script}", ["fish", "--no-config", "-i", "-C", "source rc"]),
}
RECORDER = """#!/bin/sh
[ "$1" = completion ] && exec {effectd} "$@"
printf '%s\\n' "$@" >{called}.new && mv {called}.new {called}
"""


def type_into(command, text, called, **options):
    """Types text into a shell of its own terminal, until the recorder was called."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **options)
    os.close(theirs)
    seen, end = b"", time.monotonic() + 60
    try:
        os.write(ours, text)
        while not called.exists():
            assert time.monotonic() < end and shell.poll() is None, f"{command} said:\n{seen.decode(errors='replace')}"
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 4096)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize("shell", RC)
def test_a_shell_completes_what_is_typed(shell, ini, tmp_path):
    """Commands, options, names of the configuration and files, by pressing Tab."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    file, rc, command = RC[shell]
    called, recorder = tmp_path / "called", tmp_path / "bin" / "effectd"
    (tmp_path / "script").write_text(effectd("completion", shell).stdout)
    (tmp_path / file).write_text(rc.format(script=tmp_path / "script") + "\n")
    (tmp_path / "samples.jsonl").write_text("{}\n")
    recorder.parent.mkdir()
    recorder.write_text(RECORDER.format(effectd=build.EFFECTD, called=called))
    recorder.chmod(0o755)
    type_into(command, b"effectd tr\t-c my.i\t--cons\tloyalt\t--gold\tsam\t\r", called, cwd=tmp_path,
              env={**os.environ, "PATH": f"{recorder.parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
                   "ZDOTDIR": str(tmp_path), "TERM": "xterm", "INPUTRC": "/dev/null"})
    assert called.read_text().split() == ["try", "-c", "my.ini", "--consumer", "loyalty", "--golden", "samples.jsonl"]
