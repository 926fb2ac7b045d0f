"""INI sections that a document shows."""
import configparser
import os
import re

from . import build


def options(document, consumer):
    """The plugin's options that [consumer:NAME] has in a document of this repository: plugin.key, plugin.sql.1 ..."""
    with open(os.path.join(build.ROOT, document), encoding="utf-8") as file:
        blocks = re.findall(r"```ini\n(.*?)```", file.read(), re.DOTALL)
    section = f"consumer:{consumer}"
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(next(block for block in blocks if f"[{section}]" in block))
    return {name: value for name, value in parser[section].items() if name.startswith("plugin.")}
