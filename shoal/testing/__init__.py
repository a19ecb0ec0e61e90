"""Shipped tests: suites that check any implementation against its contract, with the remedy in every failure."""
