"""Tiny worlds with known answers, batched with numpy: what tests and learning tests are held against."""
