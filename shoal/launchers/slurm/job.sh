
# ---------------------------------------------------------------- the same in every job
# shellcheck disable=SC2034,SC2154  # set above, or used in the last line

set -u
unset LD_PRELOAD                                # what one machine preloads, Ray's processes on another may not find
unset RAY_ADDRESS RAY_AUTH_TOKEN                # of some other cluster
run=runs/$experiment/$trial
records=$PWD/runs/.slurm/$experiment/$trial
job=$records/job-$SLURM_JOB_ID                  # on the disk that all nodes share: they read the token there
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$job/token
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0 RAY_USAGE_STATS_ENABLED=0

child=                                          # what runs now and gets our signals
reason=                                         # why it was told to stop
again=                                          # what comes after that: requeue, scancel, slurm (it decides), or nothing
patience_ends=1000000000                        # in seconds of this script: when Slurm ends the job, the training has a few more
head=$(mktemp -d "/tmp/shoal-$SLURM_JOB_ID.XXXXXX")   # the Ray head's folder
ray_nodes=()

say() { echo "shoal: $*"; }
fail() { say "$*" >&2; exit 1; }
alive() { local pid; for pid; do kill -0 "$pid" 2>/dev/null || return 1; done; }
pause() { sleep "$1" & wait $!; }               # unlike plain `sleep`, a signal ends it

# ---------------------------------------------------------------- signals

stop() {                                        # REASON WHAT_NEXT: a checkpoint, then the end. The first reason counts
  [ -z "$reason" ] || return
  reason=$1 again=$2
  say "$reason; the training saves a checkpoint and stops"
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

on_term() {
  if [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T | head -n 1)" = RUNNING ]; then
    stop "Slurm asked for an end" requeue
  elif [ -z "$reason" ]; then                   # Slurm told every process itself: a second SIGTERM would cost the checkpoint
    reason="Slurm ends the job" again=slurm
    say "$reason"
    rm -rf "$job"                               # everybody has read the token; Slurm may not wait for the rest
    patience_ends=$((SECONDS + 5))
  fi
}

trap 'stop "the time limit is near, or the job gives way" requeue' USR1
trap 'stop "cancelled" scancel' INT
trap on_term TERM

# ---------------------------------------------------------------- the end

finish() {
  local code=$?
  trap '' USR1 INT TERM
  if [ "$code" != 0 ] && [ -z "$again" ]; then
    touch "$records/keep-logs"
    cat "$head/workers.log" 2>/dev/null >&2
  fi
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
  end "$child"
  rm -rf "$job"                                 # before the long part: Slurm may not wait for it
  # All steps at once: a SIGTERM to srun would kill them before they tidy up
  ((${#ray_nodes[@]} < 2)) || scancel --quiet --signal=TERM "$SLURM_JOB_ID" 2>/dev/null
  [ -z "${ray_nodes[*]}" ] || kill -TERM "${ray_nodes[0]}" 2>/dev/null
  local pid
  for pid in "${ray_nodes[@]}"; do end "$pid"; done
  rm -rf "$head" "$records/keep-logs"
  [ "$code" = 0 ] && again=
  case $again in
    requeue) scontrol requeue "$SLURM_JOB_ID" || say "Slurm did not requeue the job: go on with $submit --resume" ;;
    scancel) scancel "$SLURM_JOB_ID" ;;
  esac
  exit "$code"
}

end() {                                         # PID: it was told to end; it has 20 s
  local deadline=$((SECONDS + 20))
  while [ -n "$1" ] && alive "$1"; do
    ((SECONDS < deadline)) || kill -KILL "$1" 2>/dev/null
    pause 0.1
  done
}

trap finish EXIT

# ---------------------------------------------------------------- Ray

ray_node() {                                    # FOLDER CPUS GPUS PEER OPTION...: one node of the cluster, until SIGTERM
  # Ray opens its own folder to all users: it lies in one that is closed, under a short name for the sake of its sockets
  folder=$1 ray='' told=''
  local num_cpus=$2 num_gpus=$3 peer=$4 ip code
  shift 4
  trap 'rm -rf "$folder"' EXIT
  trap 'told=1; [ -z "$ray" ] || kill -TERM "$ray" 2>/dev/null' TERM
  ip=$("${python[@]}" -m shoal.launchers.slurm.cluster address "$peer") || return
  [ -z "$told" ] || return 143
  "${python[@]}" -m ray.scripts.scripts start --block --node-ip-address "$ip" --num-cpus "$num_cpus" --num-gpus "$num_gpus" \
    --temp-dir "$folder/r" --dashboard-agent-listen-port 0 --disable-usage-stats "$@" >"$folder/start.log" 2>&1 &
  ray=$!
  while kill -0 "$ray" 2>/dev/null; do wait "$ray"; done
  wait "$ray"
  code=$?
  if [ -z "$told" ]; then echo "shoal: Ray on $SLURMD_NODENAME ended with code $code:" >&2; tail -n 20 "$folder/start.log" >&2; fi
  if [ -z "$told" ] || [ -e "$records/keep-logs" ]; then cp -r "$folder/r/session_latest/logs/." "$records/ray-$SLURMD_NODENAME" 2>/dev/null; fi
  return $((told ? 143 : code))
}

start_head() {                                  # ports: Ray asks the kernel for its own, we for the one it would fix
  local last address port
  last=$(scontrol show hostnames "${SLURM_JOB_NODELIST_HET_GROUP_1:-$SLURM_JOB_NODELIST}" | tail -n 1)
  address=$(scontrol show node --oneliner "$last" | sed 's/.* NodeAddr=\([^ ]*\).*/\1/')
  port=$("${python[@]}" -m shoal.launchers.slurm.cluster port) || fail "this job's Python cannot import shoal: ${python[*]}"
  ray_node "$head" "${cpus[0]}" "${gpus[0]}" "$address" --head --port 0 --include-dashboard false --ray-client-server-port "$port" &
  ray_nodes+=($!)
}

wait_for_head() {
  local deadline=$((SECONDS + patience))
  until [ -s "$head/r/ray_current_cluster" ]; do
    [ -z "$reason" ] || exit 130
    alive "${ray_nodes[0]}" || fail "the Ray head did not start: the lines above say why"
    ((SECONDS < deadline)) || fail "the Ray head was not ready after $patience s: see $records for its logs"
    pause 0.2
  done
  address=$(<"$head/r/ray_current_cluster")
}

start_workers() {                               # PART FIRST COUNT: Ray on COUNT nodes of a part of the job
  local part=$1 first=$2 count=$3 group=()
  ((count > 0)) || return 0
  ((${#nodes[@]} == 1)) || group=(--het-group="$part")
  srun "${group[@]}" --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --relative="$first" --cpus-per-task="${cpus[part]}" \
    --gpus-per-node="${gpus[part]}" --export=ALL --kill-on-bad-exit=0 --wait=0 bash -c "
      $(declare -p python records); $(declare -f ray_node)
      ray_node \"\$(mktemp -d /tmp/shoal-$SLURM_JOB_ID.XXXXXX)\" ${cpus[part]} ${gpus[part]} ${address%:*} --address $address" 2>>"$head/workers.log" &
  ray_nodes+=($!)
}

# ---------------------------------------------------------------- the training

run() {                                         # COMMAND...: it gets our signals, and it ends when Ray does
  [ -z "$reason" ] || exit 130
  "$@" &
  child=$!
  while alive "$child"; do
    [ -n "$reason" ] || alive "${ray_nodes[@]}" || lost_ray
    # Ray goes at the same moment, and the training waits for it: what it has to say, it said in a few seconds
    ((SECONDS < patience_ends)) || kill -KILL "$child" 2>/dev/null
    pause 0.5
  done
  wait "$child"
  local code=$?
  child=
  return "$code"
}

lost_ray() {                                    # Slurm's grace before a preemption goes to the steps alone: Ray ends with 143
  local pid code
  for pid in "${ray_nodes[@]}"; do
    alive "$pid" && continue
    wait "$pid"
    code=$?
    if [ "$code" = 143 ]; then stop "Slurm takes nodes away" requeue; else stop "Ray ended with code $code" ""; fi
  done
}

resume=()
if compgen -G "$run/checkpoints/*/manifest.json" >/dev/null; then
  resume=(--resume)
elif [ -e "$run" ] && [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  mv "$run" "$run-without-checkpoint-$SLURM_RESTART_COUNT"   # stopped before its first: nothing to go on from
fi

[ -d "$head" ] || fail "no folder for Ray can be made in /tmp of $SLURMD_NODENAME: is it full?"
rm -rf "$job"
mkdir -m 700 "$job" || fail "$job cannot be made: submit from a folder that all nodes share"
(umask 077 && head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")

start_head
wait_for_head
start_workers 0 1 $((nodes[0] - 1))
((${#nodes[@]} == 1)) || start_workers 1 0 "${nodes[1]}"
run "${python[@]}" -m shoal.launchers.slurm.cluster wait "$address" "$((nodes[0] + ${nodes[1]:-0}))" "$patience" || exit
