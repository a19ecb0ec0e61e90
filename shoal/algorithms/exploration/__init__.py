"""Directed exploration: rates by lane, novelty, and who chooses between ways to explore. Told in docs/tasks/explore.md."""
