"""The store of versions a run can be resumed from."""
