"""Where experience waits to be learned from again. No processes in here."""
