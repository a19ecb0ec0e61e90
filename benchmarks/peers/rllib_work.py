"""What all of RLlib's sides have alike: where its env runners are, and how much each samples and learns."""

from __future__ import annotations

import logging
from typing import Any

import ray


def begin(runners: int) -> None:
    """One core more than there are env runners, so that all of them are placed beside the driver, which learns."""
    ray.init(num_cpus=runners + 1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


def placed(config: Any, settings: dict[str, Any]) -> Any:
    """An algorithm's config with its copies on its env runners; without env runners all is in one process."""
    runners = settings["runners"]
    return (
        config.env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=settings["num_envs"] // max(runners, 1),
            rollout_fragment_length=settings["unroll"],
        )
        .learners(num_learners=0)
        .debugging(seed=settings["seed"], log_level="ERROR")
    )


def with_work(config: Any, settings: dict[str, Any], **training: Any) -> Any:
    """The same, with what is learned from each batch, for those who pass over it and forget it."""
    return placed(config, settings).training(
        train_batch_size_per_learner=settings["num_envs"] * settings["unroll"],
        minibatch_size=settings["minibatch"],
        num_epochs=settings["epochs"],
        lr=settings["lr"],
        **training,
    )
