"""A plugin of pytest that tells coverage which test runs, for `plant_bugs.py`."""

import coverage
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Count what runs from now on, fixtures included, for this test, whatever its parameters."""
    measuring = coverage.Coverage.current()
    assert measuring is not None
    measuring.switch_context(item.nodeid.partition("[")[0])
