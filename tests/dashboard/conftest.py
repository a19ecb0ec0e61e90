"""What the tests of the dashboard share."""

from tests.dashboard.browsing import browser, dashboard, visit

__all__ = ["browser", "dashboard", "visit"]
