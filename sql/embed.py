#!/usr/bin/env python3
"""Write the migrations as a C table: embed.py OUTPUT FILE.sql...

A file is named NNN_name.sql, numbered from 001 without gaps, and says in comments at its top

    -- effectd: oldest runnable N       the oldest effectd, by the last migration it knows, that can run on this schema
    -- effectd: outside transaction     optional; such a file holds one statement
"""
import hashlib
import os
import re
import sys

HEAD = """/* Made from sql/ by sql/embed.py. */
#include "pg/migrate.h"

const struct migration migrations[] = {
"""
TAIL = """};
const size_t migration_count = sizeof(migrations) / sizeof(migrations[0]);
"""


def c_string(text):
    """One C literal a line of text."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
               for line in text.splitlines(keepends=True))
    return "\n".join(f'\t  "{line}"' for line in escaped)


def directives(text):
    head = re.match(r"(?:--[^\n]*\n|\s*\n)*", text).group()
    return re.findall(r"^-- effectd: (.+?)\s*$", head, re.MULTILINE)


def entry(path, expected):
    base = os.path.basename(path)
    match = re.fullmatch(r"(\d{3})_([a-z0-9_]+)\.sql", base)
    if not match or int(match[1]) != expected:
        sys.exit(f"{base}: must be named {expected:03}_name.sql")
    with open(path, "rb") as file:
        data = file.read()
    oldest, outside = None, False
    for directive in directives(data.decode("utf-8")):
        runnable = re.fullmatch(r"oldest runnable (\d+)", directive)
        if runnable and 1 <= int(runnable[1]) <= expected:
            oldest = int(runnable[1])
        elif directive == "outside transaction":
            outside = True
        else:
            sys.exit(f"{base}: not understood: -- effectd: {directive}")
    if oldest is None:
        sys.exit(f"{base}: does not say `-- effectd: oldest runnable N`")
    return (f'\t{{ .version = {expected}, .name = "{base[:-4]}", .oldest_runnable = {oldest},\n'
            f'\t  .outside_transaction = {"true" if outside else "false"},\n'
            f'\t  .checksum = "{hashlib.sha256(data).hexdigest()}",\n'
            f'\t  .sql =\n{c_string(data.decode("utf-8"))} }},\n')


def main(output, *paths):
    entries = [entry(path, number) for number, path in enumerate(paths, 1)]
    with open(output, "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(entries) + TAIL)


if __name__ == "__main__":
    main(*sys.argv[1:])
