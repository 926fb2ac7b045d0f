"""What docs/plugin-guide.md shows works: its plugins compile as it says, and the first one does what it says."""
import os
import re
import subprocess

import pytest

from lib import build, config
from lib.daemon import effectd

with open(os.path.join(build.ROOT, "docs", "plugin-guide.md"), encoding="utf-8") as _file:
    GUIDE = _file.read()


def block(language, word):
    """The first code block of that language with that word in it."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if word in text)


@pytest.fixture
def compiled(tmp_path):
    def compile_it(name, language, source):
        compiler, standard, suffix = {"c": ("cc", "c11", "c"), "cpp": ("c++", "c++17", "cc")}[language]
        (tmp_path / f"{name}.{suffix}").write_text(source)
        subprocess.run([compiler, f"-std={standard}", "-O2", "-Wall", "-Werror", "-shared", "-fPIC",
                        "-fvisibility=hidden", f"-I{build.ROOT}/include", "-o", f"{name}.so", f"{name}.{suffix}"],
                       cwd=tmp_path, check=True)
        (tmp_path / f"{name}.so").chmod(0o755)
        return tmp_path / f"{name}.so"
    return compile_it


def test_the_whole_plugin_does_what_the_guide_says(compiled, db, vhost, publisher, daemon, runtime_dir):
    plugin = compiled("payments", "c", block("c", '.consumer = "payments"'))
    db.execute(block("sql", "invoices") + "INSERT INTO invoices VALUES (7, 0)")
    vhost.declare("payments.received")
    good, unknown = re.search(r'`(\{"payment_id".*?\})`', GUIDE)[1], '{"payment_id": "p-2", "invoice_id": 8, "amount": "1"}'
    for body in (good, good, unknown, '{"payment_id": "p-3", "invoice_id": 7, "amount": "ten"}'):
        publisher.body(body.encode(), routing_key="payments.received")
    sections = {**config.base(db, vhost, runtime_dir),
                "consumer:payments": {"plugin": plugin, "queue": "payments.received"}}
    with daemon(sections):
        vhost.wait_empty("payments.received")
    assert db.rows("SELECT payment_id, invoice_id, amount::text FROM payments") == [("p-1", 7, "12.50")]
    assert db.rows("SELECT invoice_id, paid::text FROM invoices") == [(7, "12.50")]
    assert db.rows("SELECT message_key FROM effectd.processed_messages") == [("p-1",)]
    assert db.rows("SELECT message_key, reason, sqlstate FROM effectd.parked_messages ORDER BY message_key") == \
        [("p-2", "row_count", None), ("p-3", "sql", "22P02")]


@pytest.mark.parametrize("name, language", [("payments", "c"), ("visits", "cpp")])
def test_plugin_show_knows_the_guide_s_plugins(compiled, name, language):
    shown = effectd("plugin", "show", compiled(name, language, block(language, f'"{name}"')))
    assert shown.rc == 0 and name in shown.stdout, shown.stderr
