"""Who carries the bytes. A transport implements `Ring` and `Mailbox` (see `shoal.streams.primitives`), nothing else."""
