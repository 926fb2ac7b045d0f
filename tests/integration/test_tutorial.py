"""docs/tutorial.md, run from its first to its last command; and that a page which is wrong is noticed."""
import os
import textwrap

import pytest

from lib import build
from lib.page import Page


def page(tmp_path, text):
    (tmp_path / "page.md").write_text(textwrap.dedent(text))
    return Page(str(tmp_path / "page.md"))


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(reader, tmp_path, vhost):
    Page("docs/tutorial.md").run(tmp_path, reader)
    assert vhost.depth("giftcards") == (0, 0)


def test_what_the_tutorial_is_given_is_what_a_reader_can_have():
    """Its first blocks are not run: servers and an installed effectd are there already. They name what exists."""
    given = [line.split("#")[0].strip() for block in Page("docs/tutorial.md").blocks if "given" in block.words
             for line in block.text.splitlines()]
    assert len(given) == 6
    with open(os.path.join(build.ROOT, "README.md"), encoding="utf-8") as file:
        readme = [" ".join(line.split("#")[0].split()) for line in file]
    for command in given:
        program = os.path.join(build.ROOT, command.split()[0])
        assert command in readme or command.startswith(". ") or os.access(program, os.X_OK), command


GOOD = """\
    ```sh
    mkdir here && cd here
    NAME=world
    sleep 60 &
    ```

    ```ini file=deep/a.ini
    key = 1
    other = $NAME `date`
    ```

    ```ini edit=deep/a.ini
    key = a|b & c\\d
    ```

    ```sh
    cat deep/a.ini
    echo "hello $NAME"; pwd
    ```

    ```text
    key = a|b & c\\d
    other = $NAME `date`
    ...
    .../here
    ```

    ```sh exit=3
    exit 3
    ```
    """


def test_one_shell_runs_the_blocks_of_a_page_and_leaves_nothing_running(tmp_path):
    page(tmp_path, GOOD).run(tmp_path, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("right, wrong", [
    ("cat deep/a.ini", "cat deep/b.ini"), (".../here", ".../there"), ("    exit 3", "    exit 0"),
    ("key = a|b & c\\d\n    ```", "kez = 1\n    ```"), ("```sh\n    cat", "```sh exit=1\n    cat"),
    ("`date`\n    ...", "`date`"),
])
def test_a_page_that_is_wrong_is_noticed(tmp_path, right, wrong):
    assert right in GOOD
    with pytest.raises(AssertionError, match="page.md:"):
        page(tmp_path, GOOD.replace(right, wrong)).run(tmp_path, {"PATH": "/usr/bin:/bin"})
