.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin

.PHONY: help setup system-packages train test test-slow chaos lint format bench docs release

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: ## Make .venv with pinned dependencies (does nothing the second time)
	@tools/setup.sh

system-packages: ## Install what tests use beside Python: a real Slurm, shellcheck, strace, a browser, Prometheus
	@tools/system-packages.sh

train: setup ## See a team learn within a minute, live, then its video and its curve; RECIPE=cartpole trains that recipe
	@$(BIN)/shoal $(if $(RECIPE),train $(RECIPE),demo)

test: setup lint ## Lint, type check and all tests that take seconds
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: setup ## The long proofs: every recipe to its bar with 5 seeds
	$(BIN)/pytest -m slow -s

chaos: setup ## Random faults for 30 minutes: what recovers, what is lost, what is left
	$(BIN)/python tools/chaos --seconds 1800

lint: setup ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup ## Let ruff format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## PPO, DQN and SAC beside their peers and the limit, replay, overhead per step, rings of Envs, two hosts
	$(BIN)/python benchmarks/cartpole_ppo.py --json benchmarks/results/cartpole_ppo.json
	$(BIN)/python benchmarks/solve.py --json benchmarks/results/solve.json
	$(BIN)/python benchmarks/atari_ppo.py --json benchmarks/results/atari_ppo.json
	$(BIN)/python benchmarks/cartpole_dqn.py --json benchmarks/results/cartpole_dqn.json
	$(BIN)/python benchmarks/pong_dqn.py --json benchmarks/results/pong_dqn.json
	$(BIN)/python benchmarks/sac_halfcheetah.py --json benchmarks/results/sac_halfcheetah.json
	$(BIN)/python benchmarks/replay.py --json benchmarks/results/replay.json
	$(BIN)/python docs/images/benchmarks.py
	$(BIN)/python benchmarks/mappo_spread.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/unity_exchange.py
	$(BIN)/python benchmarks/envpool_speed.py
	$(BIN)/python benchmarks/watched.py
	$(BIN)/python benchmarks/player.py
	$(BIN)/python benchmarks/local_overhead.py
	$(BIN)/python benchmarks/env_ring.py
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python benchmarks/slow_copy.py
	$(BIN)/python benchmarks/dashboard.py
	$(BIN)/python benchmarks/spectator.py
	$(BIN)/python benchmarks/cluster.py

docs: setup ## Build the documentation site into site/
	$(BIN)/mkdocs build --strict

release: setup ## Build wheel, sdist and site into dist/ and site/, and check them; uploads nothing
	$(BIN)/python tools/release.py
