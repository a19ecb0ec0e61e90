"""Tiny environments with known answers, batched with numpy: for tests and learning tests."""
