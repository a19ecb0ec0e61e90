"""Every peer and every version that is compared with, in one place. Each lives in an environment of its own, made on first use."""

from __future__ import annotations

TORCH = "torch==2.13.0"
ATARI = ["ale-py==0.12.1", "opencv-python-headless==5.0.0.93"]
MUJOCO = "mujoco==3.3.7"
"""The same for all sides. Of 4.0, the newest parts on the package index do not fit each other."""
WORLD = [TORCH, "mpe2==1.1.1", "pettingzoo==1.27.0", "numpy==2.4.6"]

PEERS = {
    "sb3": [TORCH, "stable-baselines3==2.9.0", "gymnasium[mujoco]==1.4.0", "numpy==2.4.6", *ATARI, MUJOCO],
    "rl-zoo3": [TORCH, "rl_zoo3==2.9.2", "pandas==2.3.3", "numpy==2.4.6"],
    "rllib": ["ray[rllib]==2.60.0", *WORLD, *ATARI],
    # the newest on the package index; it wants gymnasium below 1 and numpy below 2
    "sample-factory": [TORCH, "sample-factory==2.1.1", "gymnasium==0.29.1", "numpy==1.26.4"],
    "tianshou": [TORCH, "tianshou==2.0.1"],
    "torchrl": [TORCH, "torchrl==0.14.1"],
    "benchmarl": ["benchmarl==1.5.2", "torchrl==0.11.1", *WORLD],
}

LEFT_OUT = {
    "cleanrl": "its newest release, 1.2.0, wants Python below 3.11, and those without such a bound are of 2021, for gym",
}
"""Peers that cannot be compared, and why."""
