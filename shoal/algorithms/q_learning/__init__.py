"""Learners of action values from replay: DQN and QMIX. See README.md in this folder."""
