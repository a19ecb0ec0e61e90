"""Whole episodes of a policy: scores, records and videos. Knows no process."""
