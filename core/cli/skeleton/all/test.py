#!/usr/bin/env python3
"""Each line of samples.jsonl does what golden.jsonl says, and has its effect once however often it comes.

    EFFECTD_TEST_DATABASE='host=127.0.0.1 dbname=scratch' ./test.py [FOLDER OF THE PLUGIN]

The database is for tests: schema.sql and effectd's own tables are made in it, and what the samples did before is taken
away first. Without it the section is checked and nothing else, and the exit code is 77: skipped. EFFECTD names the
daemon, if it is not in the PATH.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Yours: how the tables are before the samples, what is asked of them afterwards, and the rows of the answer.
BEFORE = "TRUNCATE example"
QUESTION = "SELECT id, customer_id, amount FROM example ORDER BY id"
ANSWER = ["a-1|7|12.50", "a-2|7|0.10", "a-3|9223372036854775807|12345678901234567890.05"]

HERE = pathlib.Path(__file__).resolve().parent
EFFECTD = os.environ.get("EFFECTD", "effectd")
DATABASE = os.environ.get("EFFECTD_TEST_DATABASE")


def run(*command, fine=(0,)):
    """What the command writes to stdout; its failure ends the test."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode not in fine:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def plugin_dir():
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1]).resolve()
    return run("pkg-config", "--variable=plugindir", "effectd").strip()


def feed(file, folder):
    return json.loads(run(EFFECTD, "feed", "-c", file, "--json", "--consumer", "example", "--beyond-window", "--rejects",
                          folder / "rejects.jsonl", HERE / "samples.jsonl", fine=(0, 1)))  # 1: some were rejected


def test(folder):
    file = folder / "effectd.ini"
    file.write_text(f"[effectd]\nplugin_dir = {plugin_dir()}\nruntime_dir = {folder}\n"
                    f"include = {HERE / 'example.ini'}\n"
                    "[broker:main]\nurl = amqp://nobody@127.0.0.1/\n"
                    f"[database:main]\nconninfo = {DATABASE or 'dbname=none'}\nallow_unsafe_durability = yes\n")
    run(EFFECTD, "check", "-c", file)
    if not DATABASE:
        print("EFFECTD_TEST_DATABASE is not set: only the section was checked", file=sys.stderr)
        sys.exit(77)
    run(EFFECTD, "migrate", "up", "-c", file)
    run("psql", "-qX", "-v", "ON_ERROR_STOP=1", DATABASE, "-f", HERE / "schema.sql", "-c", BEFORE, "-c",
        "DELETE FROM effectd.processed_messages WHERE consumer = 'example'")

    # What each sample would do, as golden.jsonl has it (--write-golden makes it anew), and again as a duplicate.
    run(EFFECTD, "try", "-c", file, "--consumer", "example", "--golden", HERE / "golden.jsonl", "--twice",
        HERE / "samples.jsonl")

    # Samples may be bad ones as well: what golden.jsonl calls parked must be rejected, each time.
    golden = [json.loads(line)["outcome"] for line in (HERE / "golden.jsonl").read_text().splitlines()]
    good, bad = golden.count("applied"), golden.count("parked")
    first, second = feed(file, folder), feed(file, folder)
    assert (first["applied"], first["rejected"]) == (good, bad), f"{good} are good, {bad} are not: {first}"
    assert (second["applied"], second["rejected"]) == (0, bad), f"fed again, nothing may be applied: {second}"
    rows = run("psql", "-AtqX", DATABASE, "-c", QUESTION).splitlines()
    assert rows == ANSWER, f"{rows} is not {ANSWER}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        test(pathlib.Path(name))
