"""docs/cookbook.md: each recipe, run as it stands there."""
import pytest

from lib.page import Page

pytestmark = pytest.mark.slow  # what it shows is tested elsewhere as well: one build is enough for the page

COOKBOOK = Page("docs/cookbook.md")


@pytest.mark.parametrize("recipe", COOKBOOK.sections())
def test_a_recipe_does_what_it_says(recipe, reader, empty_db, tmp_path):
    COOKBOOK.run(tmp_path, {**reader, "PGDATABASE": empty_db.name}, recipe)
