"""Fixtures of the tests that break servers and processes; all others are in tests/conftest.py."""
import pytest

from works import Works


@pytest.fixture
def make_works(db, vhost, daemon, runtime_dir):
    """A factory: make_works(arguments, **settings), see Works."""
    return lambda arguments=None, **settings: Works(db, vhost, daemon, runtime_dir, arguments, **settings)


@pytest.fixture
def works(make_works):
    return make_works()
