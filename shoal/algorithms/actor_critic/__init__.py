"""PPO and its relatives: an actor, a critic, one Adam. See README.md in this folder."""
