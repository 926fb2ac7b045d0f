#!/usr/bin/env python3
"""Write files as a C table of cli/embedded.h: embed.py TABLE FOLDER OUTPUT FILE..., each FILE relative to FOLDER."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "sql"))
from embed import c_string  # noqa: E402

HEAD = """/* Made by core/cli/embed.py. */
#include "cli/embedded.h"

const struct embedded_file {table}[] = {{
"""


def entry(folder, name):
    part, path = name.split("/", 1)
    file = os.path.join(folder, name)
    with open(file, encoding="utf-8") as source:
        text = c_string(source.read())
    executable = "true" if os.access(file, os.X_OK) else "false"
    return f'\t{{ "{part}", "{path}", {executable},\n{text} }},\n'


def main(table, folder, output, *names):
    with open(output, "w", encoding="utf-8") as out:
        out.write(HEAD.format(table=table) + "".join(entry(folder, name) for name in names)
                  + "\t{ NULL, NULL, false, NULL },\n};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
