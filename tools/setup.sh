#!/usr/bin/env bash
# Makes .venv with the pinned dependencies. Does nothing when what it would install has not changed.
# EXTRAS chooses optional parts (default: what the tests need); TORCH_BACKEND=cpu asks uv for a CPU build of torch.
set -euo pipefail
cd "$(dirname "$0")/.."

EXTRAS=${EXTRAS:-dev,box2d,atari,mpe,classic,butterfly,sisl,cluster,plot,video,wandb,prometheus,dashboard,federation,population,tune,docs}
stamp=.venv/.shoal-$(cat pyproject.toml constraints.txt tools/setup.sh <(echo "$EXTRAS") | sha256sum | cut -c1-16)
[ -e "$stamp" ] && exit 0

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "shoal needs Python 3.11 or newer, and $python is $("$python" --version 2>&1): set PYTHON=/path/to/python3.11" >&2
  exit 2
}
if [ ! -x .venv/bin/python ]; then
  echo "making .venv with $("$python" --version)"
  "$python" -m venv .venv || {
    echo "python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 2
  }
fi

echo "installing pinned dependencies (once)"
target=".[${EXTRAS}]"
if .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv 2>/dev/null; then
  # uv does not read pip's settings: hand over where pip was told to look.
  links=$(.venv/bin/python -m pip config get global.find-links 2>/dev/null || .venv/bin/python -m pip config get :env:.find-links 2>/dev/null || true)
  index=$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)
  [ -n "$links" ] && export UV_FIND_LINKS=${links// /,}
  [ -n "$index" ] && export UV_DEFAULT_INDEX=$index
  [ -n "${TORCH_BACKEND:-}" ] && export UV_TORCH_BACKEND=$TORCH_BACKEND
  .venv/bin/uv pip install --quiet --python .venv/bin/python -c constraints.txt -e "$target" || fallback=1
else
  fallback=1
fi
if [ -n "${fallback:-}" ]; then
  echo "uv could not, trying pip"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$target"
fi
# uv leaves no bytecode, and where PYTHONDONTWRITEBYTECODE is set, as in many containers, runs leave none either: each would
# compile a thousand modules anew, which takes longer than to train CartPole. One update imports what a run needs, a demo of one
# update also what evaluates, films and plots; its team has learned nothing, and the demo says so.
shoal=$PWD/.venv/bin/shoal first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
.venv/bin/python -m compileall -q shoal
(unset PYTHONDONTWRITEBYTECODE && cd "$first" && "$shoal" train cartpole stop.updates=1 >/dev/null)
case ",$EXTRAS," in
*,mpe,*) (unset PYTHONDONTWRITEBYTECODE && cd "$first" && "$shoal" demo stop.updates=1 >/dev/null 2>&1 || true) ;;
esac
rm -f .venv/.shoal-*
touch "$stamp"
