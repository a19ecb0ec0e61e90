"""Never give up: Q-learning that seeks what is new. See README.md in this folder."""
