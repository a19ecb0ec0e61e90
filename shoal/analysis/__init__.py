"""Finished and live runs looked at together: curves, statistics, comparisons."""
