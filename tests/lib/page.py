"""A page of docs/ as something that runs: its fenced blocks, in their order.

    ```sh               commands. One bash runs all of them, so that folder, variables and jobs stay; each must succeed
    ```sh exit=1        ... or end with just that exit code
    ```sh given         ... or is for readers only: the test has what it makes
    ```text             what the commands right before it print; `...` is any text, alone on its line any lines
    ```LANG file=PATH   a file that a reader writes
    ```LANG edit=PATH   lines of a file that a reader changes: each takes the place of the one that begins with its name

Other blocks are to be read. Headings of the second level make sections, each to be run behind what is before the first.
"""
import difflib
import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass

from . import build

TIMEOUT_S = 120
BROKEN = 99  # exit code of the script itself: a block did not end as it should


@dataclass
class Block:
    language: str
    words: list
    text: str
    line: int
    section: str  # the heading above it; "" before the first

    def word(self, name):
        """VALUE of NAME=VALUE behind the language."""
        return next((word[len(name) + 1:] for word in self.words if word.startswith(name + "=")), None)


class Page:
    def __init__(self, path):
        """path is relative to the repository, or absolute."""
        self.path = path
        with open(os.path.join(build.ROOT, path), encoding="utf-8") as file:
            self.blocks = list(_blocks(file.read()))

    def sections(self):
        """Headings under which something runs."""
        running = [block.section for block in self.blocks if block.section and _runs(block)]
        return list(dict.fromkeys(running))

    def run(self, folder, env, section=None):
        """Run its blocks, or those before the first heading and then the section's, in a folder of their own."""
        blocks = [block for block in self.blocks if section is None or block.section in ("", section)]
        steps = [block for block in blocks if _runs(block)]
        shell = _shell(self.path, steps, folder, env)
        for step in steps:
            shown = _shown_behind(blocks, step)
            if step.language == "sh" and shown:
                _compare(f"{self.path}:{shown.line}", shown.text, shell[step.line])


def _blocks(text):
    section, fence = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if fence is None and line.startswith("## "):
            section = line[3:].strip()
        elif fence is None and line.startswith("```"):
            language, *words = line[3:].split() or [""]
            fence = Block(language, words, "", number, section)
        elif fence is not None and line.startswith("```"):
            yield fence
            fence = None
        elif fence is not None:
            fence.text += line + "\n"


def _runs(block):
    return (block.language == "sh" and "given" not in block.words) or bool(block.word("file") or block.word("edit"))


def _shown_behind(blocks, step):
    behind = blocks.index(step) + 1
    return blocks[behind] if behind < len(blocks) and blocks[behind].language == "text" else None


def _shell(path, steps, folder, env):
    """Run the steps; returns what each printed, by its line in the page."""
    outputs = {step.line: os.path.join(folder, f".{step.line}.out") for step in steps}
    script = "set -e -o pipefail\n" + "".join(_script(step, outputs[step.line]) for step in steps)
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        code = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        code = f"nothing for {TIMEOUT_S} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it left running
        except ProcessLookupError:
            pass
    printed = {line: _read(file) for line, file in outputs.items() if os.path.exists(file)}
    last = max(printed, default=0)
    assert code == 0, f"{path}:{last}: the block ended with {code}:\n{printed.get(last)}"
    return printed


def _script(step, output):
    if step.word("file"):
        body = _write(step.word("file"), step.text)
    elif step.word("edit"):
        body = _edit(step.word("edit"), step.text)
    elif step.word("exit"):
        body = (f"set +e\n( set -e\n{step.text})\ncode=$?\nset -e\n"
                f"[ $code = {int(step.word('exit'))} ] || {{ echo \"exit code $code\"; exit {BROKEN}; }}\n")
    else:
        body = step.text
    return f"{{\n{body}}} > {shlex.quote(output)} 2>&1\n"


def _write(path, text):
    folder = os.path.dirname(path) or "."
    return f"mkdir -p {shlex.quote(folder)}\ncat > {shlex.quote(path)} <<'END OF FILE'\n{text}END OF FILE\n"


def _edit(path, text):
    """A line NAME = ... takes the place of the file's NAME = ..., of which there must be one."""
    commands = ""
    for line in text.splitlines():
        name = re.match(r"\S+ =", line)[0]
        new = line.replace("\\", "\\\\").replace("|", "\\|").replace("&", "\\&")
        commands += (f"[ $(grep -c {shlex.quote('^' + name)} {shlex.quote(path)}) = 1 ]\n"
                     f"sed -i {shlex.quote(f's|^{name}.*|{new}|')} {shlex.quote(path)}\n")
    return commands


def _read(file):
    with open(file, encoding="utf-8", errors="replace") as text:
        return text.read()


def _compare(where, expected, found):
    wanted, got = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (expected, found))
    pattern = "".join("(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
                      for line in wanted)
    difference = "\n".join(difflib.unified_diff(wanted, got, "the page", "what was printed", lineterm=""))
    assert re.fullmatch(pattern, "".join(line + "\n" for line in got)), f"{where}: this is not printed:\n{difference}"
