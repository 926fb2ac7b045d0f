"""effectd plugin new: each project builds against an installed effectd, passes its own test, and runs.

The projects find an installed effectd by pkg-config alone.
"""
import os
import re
import shutil
import subprocess

import pytest

from lib import build, config

pytestmark = pytest.mark.slow

LANGUAGES = {"c": "meson", "c++": "c++", "rust": "cargo", "sql": "python3"}  # and the program that one must have
SAMPLES = 3


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def consumer(language):
    return "in_" + language.replace("++", "xx")


@pytest.fixture(scope="module")
def ask(installed):
    """A variable of effectd.pc."""
    return installed.variable


@pytest.fixture(scope="module")
def place(servers_folder):
    folder = os.path.join(servers_folder, "projects")
    os.makedirs(folder)
    return folder


def test_pkg_config_says_where_plugins_go_and_for_which_abi(ask):
    assert os.path.exists(os.path.join(ask("plugindir"), "loyalty_points.so"))
    assert run(ask("effectd"), "version").endswith(f"(plugin ABI {ask('abi_version')})\n")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_new_project_builds_and_passes_its_test(language, installed, ask, place, empty_db):
    if not shutil.which(LANGUAGES[language]):
        pytest.skip(f"there is no {LANGUAGES[language]} here")
    name = consumer(language)
    written = run(ask("effectd"), "plugin", "new", name, "--lang", language, cwd=place).split()
    folder = os.path.join(place, name)
    assert f"{name}/{name}.ini" in written and all(os.path.exists(os.path.join(place, file)) for file in written)
    env = {**installed.env, "EFFECTD_TEST_DATABASE": empty_db.conninfo, "EFFECTD": ask("effectd")}
    if language == "rust":
        run("./build.sh", cwd=folder, env=env)
    elif language == "sql":
        run("./test.py", cwd=folder, env=env)
    else:
        run("meson", "setup", "build", "--werror", cwd=folder, env=env)
        run("meson", "test", "-C", "build", "--print-errorlogs", cwd=folder, env=env)
        shutil.copy(os.path.join(folder, "build", f"{name}.so"), folder)
    assert empty_db.value(f"SELECT count(*) FROM {name}") == SAMPLES


def test_a_project_s_samples_may_be_bad_ones_as_well(installed, ask, tmp_path, empty_db):
    """What golden.jsonl calls parked must be rejected each time; what it does not, must not."""
    run(ask("effectd"), "plugin", "new", "mixed", "--lang", "sql", cwd=tmp_path)
    folder = tmp_path / "mixed"
    env = {**installed.env, "EFFECTD_TEST_DATABASE": empty_db.conninfo, "EFFECTD": ask("effectd")}
    with open(folder / "samples.jsonl", "a", encoding="utf-8") as samples:
        samples.write('{"id": "a-4", "customer_id": "seven", "amount": 1}\n')
    file = tmp_path / "effectd.ini"
    file.write_text(config.text({"effectd": {"plugin_dir": ask("plugindir"), "include": "mixed/mixed.ini"},
                                 "broker:main": {"url": "amqp://nobody@127.0.0.1/"},
                                 "database:main": {"conninfo": empty_db.conninfo}}))
    failed = subprocess.run(["./test.py"], cwd=folder, env=env, capture_output=True, text=True)
    assert failed.returncode == 1, "it is not in golden.jsonl"
    run(ask("effectd"), "try", "-c", file, "--write-golden", folder / "golden.jsonl", folder / "samples.jsonl")
    run("./test.py", cwd=folder, env=env)
    assert empty_db.value("SELECT count(*) FROM mixed") == SAMPLES


def test_the_new_plugins_run_beside_each_other(installed, ask, place, db, vhost, publisher, daemon, runtime_dir):
    names = [name for name in map(consumer, LANGUAGES) if os.path.exists(os.path.join(place, name))]
    sections = config.base(db, vhost, runtime_dir)
    sections["effectd"]["plugin_dir"] = ask("plugindir")
    sections["effectd"]["include"] = os.path.join(place, "*.ini")
    for name in names:
        db.run_file(os.path.join(place, name, "schema.sql"))
        with open(os.path.join(place, name, f"{name}.ini"), encoding="utf-8") as section:
            text = re.sub(r"^plugin = (in_\w+\.so)", rf"plugin = {place}/{name}/\1", section.read(), flags=re.MULTILINE)
        with open(os.path.join(place, f"{name}.ini"), "w", encoding="utf-8") as file:
            file.write(text)
    vhost.declare(*names)
    for name in names:
        with open(os.path.join(place, name, "samples.jsonl"), "rb") as lines:
            publisher.publish([publisher.message(line, routing_key=name) for line in list(lines) * 2])
    with daemon(sections):
        vhost.wait_empty(*names)
    for name in names:
        assert db.value(f"SELECT count(*) FROM {name}") == SAMPLES
        assert db.value(f"SELECT amount::text FROM {name} WHERE id = 'a-3'") == "12345678901234567890.05"
    assert db.value("SELECT count(*) FROM effectd.parked_messages") == 0
    assert len(names) >= 3, "C, C++ and SQL are always there"


def test_the_readme_s_plugin_is_built_by_the_readme_s_commands(installed, ask, tmp_path):
    with open(os.path.join(build.ROOT, "README.md"), encoding="utf-8") as file:
        source, commands = re.search(r"```c\n(#include <effectd/plugin.h>.*?)```\s*```sh\n(.*?)```", file.read(),
                                     re.DOTALL).groups()
    (tmp_path / "loyalty.c").write_text(source)
    path = f"{os.path.dirname(ask('effectd'))}:{os.environ['PATH']}"
    shown = run("bash", "-euc", f"umask 022; {commands}", cwd=tmp_path, env={**installed.env, "PATH": path})
    assert f"abi          {ask('abi_version')}" in shown and "balance" in shown


def test_new_refuses_what_it_cannot_make(ask, place, tmp_path):
    def new(*words):
        return subprocess.run([ask("effectd"), "plugin", "new", *words], cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / "taken").mkdir()
    assert new("taken").returncode == 1 and os.listdir(tmp_path / "taken") == []
    assert new("Big-Name").returncode == 2
    assert new("fine", "--lang", "cobol").returncode == 2
    assert new().returncode == 2
    assert os.listdir(tmp_path) == ["taken"]
