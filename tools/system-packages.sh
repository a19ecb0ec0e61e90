#!/usr/bin/env bash
# What tests use beside Python: a real Slurm, shellcheck, strace, a browser, and Prometheus. Without them those tests are skipped and say so.
set -euo pipefail
missing=()
for pair in slurmctld:slurm-wlm munged:munge shellcheck:shellcheck strace:strace chromium:chromium promtool:prometheus; do
  PATH=$PATH:/usr/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ "${#missing[@]}" = 0 ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "not installed: ${missing[*]}; on Debian and Ubuntu, as root: apt-get install ${missing[*]}" >&2
  exit 0
fi
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
