"""Fixtures of the tests that break servers and processes; all others are in tests/conftest.py."""
import pytest

from works import Works


@pytest.fixture
def make_works(db, vhost, daemon, runtime_dir):
    """A factory: make_works(**settings), see Works."""
    return lambda **settings: Works(db, vhost, daemon, runtime_dir, **settings)


@pytest.fixture
def works(make_works):
    return make_works()
