"""The manual pages say what the program does: same commands, actions, options, keys, constants."""
import json
import os
import re
import shutil
import subprocess

import pytest

from lib import build
from lib.daemon import effectd

HEADER = os.path.join(build.ROOT, "include", "effectd", "plugin.h")


@pytest.fixture(scope="module")
def page():
    """A page as text, 200 columns wide; what groff has to say against it fails the test."""
    if not shutil.which("groff"):
        pytest.skip("there is no groff here")

    def render(name):
        file = os.path.join(build.FOLDER, "docs", "man", name)
        if not os.path.exists(file):
            pytest.skip("the build has no manual pages: it found no scdoc")
        done = subprocess.run(["groff", "-t", "-man", "-ww", "-Tascii", "-rLL=200n", "-P-c", "-P-b", "-P-o", "-P-u", file],
                              capture_output=True, text=True, check=True, timeout=30)
        assert done.stderr == ""
        return done.stdout
    return render


def parts(text, indent):
    """{heading: what stands below it} of headings that are indented so."""
    pieces = re.split(rf"^ {{{indent}}}(\S.*)$", text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2]))


def options(text):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


def helped(*command):
    done = effectd(*command, "--help")
    assert done.rc == 0
    return done.stdout


def test_each_command_has_the_options_and_actions_of_its_help(page):
    sections = parts(page("effectd.8"), 0)
    commands = parts(sections["COMMANDS"], 3)
    common = options(sections["OPTIONS"])
    listed = re.findall(r"^  ([a-z]+) ", helped().split("Commands:")[1], re.MULTILINE)
    assert list(commands) == [f"effectd {name}" for name in listed] and len(listed) > 10
    for name in listed:
        text = helped(name)
        usage = text[text.index("\nusage: "):]
        assert options(commands[f"effectd {name}"]) | common == options(usage), name
        actions = re.findall(r"^  ([a-z]+) ", usage, re.MULTILINE)
        described = re.findall(rf"^ +effectd {name} ([a-z]+)", commands[f"effectd {name}"], re.MULTILINE)
        assert set(actions) == set(described[:len(actions)]), name
        for example in re.findall("^  effectd .*", text, re.MULTILINE):
            assert re.sub(" +", " ", example) in re.sub(" +", " ", commands[f"effectd {name}"])


def test_each_section_has_the_keys_of_the_reference(page):
    described = parts(parts(page("effectd.ini.5"), 0)["SECTIONS"], 3)
    reference = effectd("config", "default", "--markdown").stdout
    tables = re.split(r"^### `(.*)`$", reference, flags=re.MULTILINE)
    assert list(described) == tables[1::2]
    for section, table in zip(tables[1::2], tables[2::2]):
        keys = [key for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for key in re.findall("`(.*?)`", row)]
        told = re.findall(r"^ {7}(\S+?)(?:, (\S+))? \(", described[section], re.MULTILINE)
        assert keys == [key for pair in told for key in pair if key], section


def test_the_plugin_page_speaks_of_the_header(page):
    with open(HEADER, encoding="utf-8") as file:
        header = file.read()
    text = page("effectd-plugin.7")
    for name in re.findall(r"\b(?:EFFECTD|effectd)_\w+", text):
        assert re.search(rf"\b{name}\b", header), name
    for kind in ("verdict", "rows", "otherwise", "type"):
        enum = re.search(rf"typedef \w+ effectd_{kind};\nenum {{\n(.*?)\n}};", header, re.DOTALL)[1]
        names = re.findall(r"^\t(EFFECTD_\w+) = ", enum, re.MULTILINE)
        assert len(names) >= 2 and all(re.search(rf"^ +{name}$", text, re.MULTILINE) for name in names), kind
    assert "of version " + ".".join(re.findall(r"ABI_M\w+OR (\d+)", header)) + " of the" in text


def test_pages_and_completion_go_where_they_are_looked_for(page):
    page("effectd.8")  # a build without scdoc has none
    done = subprocess.run(["meson", "introspect", "--installed", build.FOLDER], capture_output=True, text=True, check=True,
                          timeout=60)
    places = " ".join(json.loads(done.stdout).values())
    for end in ("man/man8/effectd.8", "man/man5/effectd.ini.5", "man/man7/effectd-plugin.7",
                "bash-completion/completions/effectd", "zsh/site-functions/_effectd",
                "fish/vendor_completions.d/effectd.fish"):
        assert f"/share/{end}" in places, end
