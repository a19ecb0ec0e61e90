"""Shipped tests: suites that hold any implementation against its contract, with the remedy in every failure."""
