"""The alert rules: they speak of metrics that exist, and fire when they should."""
import os
import re

from lib import build, promtool

FOLDER = os.path.join(build.ROOT, "docs", "alerts")
RULES = os.path.join(FOLDER, "effectd.rules.yml")


def test_every_metric_of_a_rule_is_documented():
    with open(RULES, encoding="utf-8") as file:
        used = set(re.findall(r"\beffectd_\w+", file.read()))
    with open(os.path.join(build.ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        documented = set(re.findall(r"^\| `(effectd_\w+)`", file.read(), re.MULTILINE))
    assert used and used <= documented


def test_rules_fire_when_they_should():
    promtool.check("check", "rules", RULES)
    promtool.check("test", "rules", os.path.join(FOLDER, "effectd.test.yml"))
