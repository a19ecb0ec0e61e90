"""Ways to explore that differ from lane to lane. Told in docs/tasks/explore.md."""
