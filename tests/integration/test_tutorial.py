"""docs/tutorial.md, run from its first to its last command; and that a page which is wrong is noticed."""
import textwrap

import pytest

from lib.page import Page
from lib.wait import wait_until


def page(tmp_path, text):
    (tmp_path / "page.md").write_text(textwrap.dedent(text))
    return Page(str(tmp_path / "page.md"))


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(reader, tmp_path, vhost):
    Page("docs/tutorial.md").run(tmp_path, reader)
    assert vhost.depth("giftcards") == (0, 0)


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
