"""INI sections that a document shows."""
import configparser
import os
import re

from . import build


def section(document, name):
    """The settings of [NAME], as the first block with it in a document of this repository has them."""
    with open(os.path.join(build.ROOT, document), encoding="utf-8") as file:
        blocks = re.findall(r"```ini\n(.*?)```", file.read(), re.DOTALL)
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(next(block for block in blocks if f"[{name}]" in block))
    return dict(parser[name])


def options(document, consumer):
    """The plugin's options that [consumer:NAME] has: plugin.key, plugin.sql.1 ..."""
    settings = section(document, f"consumer:{consumer}")
    return {name: value for name, value in settings.items() if name.startswith("plugin.")}
