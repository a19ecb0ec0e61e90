"""Transport between processes of one machine: shared memory and one wake-up handle per process. Linux, numpy, standard library.

What is relied on, and nothing more:

- An aligned store or load of 4 or 8 bytes through a `memoryview` is one machine instruction, so a counter is never seen half.
- x86-64 keeps the order of stores, and of loads, and glibc's `memcpy` ends its streaming stores with a fence. So "fill, then count
  up" on one side and "look at the counter, then read" on the other need no fence. Where a streaming store must stay *behind* a
  plain one (a mailbox place marked empty, then filled) there is a real barrier.
- A doorbell is rung by an atomic add inside the kernel (`FUTEX_WAKE_OP`), a full barrier: whoever falls asleep has either seen the
  counter or is woken.
- aarch64 keeps no such order: there `futex.fence` goes through the kernel at each hand-over. Written for it, not tested on it.
- Any other machine is refused.

No lock is held by anybody, so a process killed at any instruction leaves nothing locked.
"""
