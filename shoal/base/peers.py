"""What other libraries call our settings and algorithms, for those who write what they know: stable-baselines3 and rl-zoo,
RLlib, CleanRL, Tianshou, Sample Factory, EPyMARL. Read where a name is not known."""

from __future__ import annotations

from collections.abc import Iterable

KEYS = {
    "algorithm.lr": "learning_rate lr_schedule actor_lr policy_lr anneal_lr lr",
    "algorithm.critic_lr": "q_lr",
    "algorithm.unroll": "n_steps num_steps rollout rollout_fragment_length rollout_length horizon unroll_length train_freq "
    "train_frequency train_batch_size unroll",
    "algorithm.minibatch": "batch_size minibatch_size sgd_minibatch_size num_minibatches",
    "algorithm.batch": "batch_size minibatch_size",
    "algorithm.parts": "batch_size num_minibatches",
    "algorithm.epochs": "n_epochs num_epochs update_epochs num_sgd_iter ppo_epoch noptepochs",
    "algorithm.entropy": "ent_coef entropy_coeff entropy_coef exploration_loss_coeff",
    "algorithm.temperature": "ent_coef entropy_coef alpha",
    "algorithm.value_coef": "vf_coef vf_loss_coeff value_loss_coeff",
    "algorithm.clip": "clip_range clip_coef clip_param eps_clip",
    "algorithm.value_clip": "clip_range_vf vf_clip_param clip_vloss",
    "algorithm.lam": "gae_lambda lambda_ lambda",
    "algorithm.gamma": "discount discount_factor gamma",
    "algorithm.max_grad_norm": "grad_clip max_grad",
    "algorithm.target_kl": "kl_target",
    "algorithm.normalise_advantages": "norm_adv normalize_advantage",
    "algorithm.normalise_observations": "norm_obs normalize",
    "algorithm.normalise_rewards": "norm_reward",
    "algorithm.capacity": "buffer_size replay_buffer_size memory_size replay_buffer_config",
    "algorithm.warmup": "learning_starts num_steps_sampled_before_learning_starts start_timesteps",
    "algorithm.updates": "gradient_steps utd_ratio",
    "algorithm.target_every": "target_update_interval target_network_frequency target_network_update_freq",
    "algorithm.epsilon": "exploration_fraction exploration_initial_eps eps exploration_final_eps start_e end_e",
    "algorithm.double": "double_q",
    "algorithm.learn_temperature": "autotune",
    "env.num_envs": "n_envs num_envs_per_worker num_envs_per_env_runner num_envs",
    "placement.actors": "num_workers num_env_runners num_rollout_workers actors",
    "placement.trainers": "num_learners",
    "placement.cluster.trainer.gpus": "num_gpus",
    "placement.device": "device cuda",
    "env.id": "env_id env_name",
    "env.kwargs": "env_config env_kwargs env_args",
    "env.wrappers": "wrapper env_wrapper frame_stack num_stack sticky_actions repeat_action_probability max_episode_steps",
    "stop.steps": "total_timesteps n_timesteps timesteps t_max total_steps max_steps timesteps_total train_for_env_steps steps",
    "stop.updates": "training_iteration",
    "stop.return": "episode_reward_mean reward_threshold",
    "stop.seconds": "time_limit",
    "evaluation.every": "eval_freq evaluation_interval",
    "evaluation.episodes": "n_eval_episodes evaluation_duration eval_episodes",
    "checkpoint.every": "save_freq checkpoint_freq checkpoint_frequency",
    "model.hidden": "net_arch fcnet_hiddens hidden_size hidden_dim hidden_sizes policy_kwargs",
    "model.activation": "fcnet_activation activation_fn",
    "model.name": "use_lstm",
    "agents": "policy_mapping_fn",
    "name": "exp_name",
    "policies": "multiagent",
    "model": "policy",
    "log.every": "log_interval",
    "log.tensorboard": "tensorboard_log",
    "log.wandb": "track use_wandb with_wandb wandb_mode report_to",
    "log.wandb.project": "wandb_project wandb_project_name project_name",
    "log.wandb.entity": "wandb_entity wandb_team wandb_user",
    "log.wandb.group": "wandb_group",
    "log.wandb.tags": "wandb_tags",
    "seed": "random_seed",
}  # fmt: skip
"""Our key -> what others call it. Of several the first that there is: algorithms differ."""

ALGORITHMS = {
    "mappo": "ppo algorithm.critic=central", "ippo": "ppo", "ppo2": "ppo", "maskableppo": "ppo", "ppo_mask": "ppo",
    "recurrentppo": "ppo model.name=gru", "recurrent_ppo": "ppo model.name=gru", "ppo_lstm": "ppo model.name=lstm",
    "vtrace": "impala", "ddqn": "dqn", "double_dqn": "dqn", "dueling_dqn": "dqn algorithm.dueling=true", "iql": "dqn",
    "apex": "dqn algorithm.prioritised=true algorithm.epsilon={base: 0.4, alpha: 7} placement.actors=2 placement.buffers=1",
    "r2d2": "dqn algorithm.burn_in=8 algorithm.rescale=true algorithm.prioritised=true model.name=lstm",
    "ngu": "dqn algorithm.novelty=true", "vdn": "qmix algorithm.mixer=vdn",
    "a4c": "a3c placement.trainers=2 placement.agree=average",
}  # fmt: skip
"""Another library's algorithm -> ours, and the settings that make it that."""
ALGORITHMS |= {"apex_dqn": ALGORITHMS["apex"], "apexdqn": ALGORITHMS["apex"]}

NEAREST = {
    "pg": "a2c", "reinforce": "a2c", "c51": "dqn", "qrdqn": "dqn", "rainbow": "dqn", "agent57": "dqn algorithm.novelty=true",
    "ddpg": "sac", "td3": "sac", "trpo": "ppo", "happo": "ppo algorithm.critic=central",
    "maddpg": "ppo algorithm.critic=central", "coma": "ppo algorithm.critic=central",
}  # fmt: skip
"""An algorithm that is not here -> what comes nearest."""


RECIPES = {
    "ppo": "cartpole", "mappo": "spread", "ippo": "multi-cartpole", "recurrent_ppo": "cartpole-memory", "a2c": "cartpole-a2c",
    "a3c": "cartpole-a3c", "a4c": "cartpole-a4c", "appo": "cartpole-appo", "impala": "cartpole-impala", "dqn": "cartpole-dqn",
    "r2d2": "cartpole-memory-r2d2", "ngu": "deep-sea", "qmix": "two-step-game", "vdn": "two-step-game", "sac": "pendulum-sac",
    "simple_spread": "spread", "simple_tag": "tag", "simple_reference": "reference", "simple_speaker_listener": "speaker-listener",
    "connect4": "connect-four", "breakout": "pong", "atari": "pong",
}  # fmt: skip
"""What else a recipe might be called -> a recipe of it."""


def algorithm_line(name: str) -> str | None:
    """What to write for another library's algorithm, and a recipe of it."""
    word = name.lower().replace("-", "_")
    if word in NEAREST:
        return f"algorithm.name={NEAREST[word]} comes nearest"
    if word not in ALGORITHMS:
        return None
    recipe = f", as in the recipe '{RECIPES[word]}'" if word in RECIPES else ""
    quoted = [f"'{part}'" if "{" in part else part for part in settings_of(ALGORITHMS[word])]
    return f"write algorithm.name={' '.join(quoted)}{recipe}"


def settings_of(line: str) -> list[str]:
    """Split where a setting begins: a value may hold spaces."""
    parts: list[str] = []
    for word in line.split():
        if not parts or "=" in word:
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    return parts


def peer_key(word: str, siblings: Iterable[str]) -> str | None:
    """Our key for another library's: bare where it stands beside what was written, else with its section."""
    ours = [key for key, others in KEYS.items() if word.lower().replace("-", "_") in others.split()]
    known = set(siblings)
    beside = [last for last in (key.rpartition(".")[2] for key in ours) if last in known]
    return next(iter(beside or ours), None)
