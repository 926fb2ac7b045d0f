"""INI files for the daemon, from a dict of sections."""
from . import build


def base(database, vhost, runtime_dir):
    """The sections that every test needs; add consumers to them."""
    return {
        "effectd": {"plugin_dir": build.FOLDER, "runtime_dir": runtime_dir, "log_level": "debug", "http_listen": ""},
        "broker:main": {"url": vhost.url},
        "database:main": {"conninfo": database.conninfo},
    }


def consumer(plugin, queue, **settings):
    """A consumer's section; a double underscore in a name stands for a dot (plugin__cents_per_point)."""
    return {"plugin": build.plugin(plugin), "queue": queue,
            **{name.replace("__", "."): value for name, value in settings.items()}}


def text(sections):
    """The sections as INI text; None leaves a key out, True and False become yes and no."""
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]\n")
        lines += [f"{key} = {_value(value)}\n" for key, value in keys.items() if value is not None]
        lines.append("\n")
    return "".join(lines)


def _value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
