"""What a training script is started with: its command line and its environment, and how its packages get there.

Nothing is inherited that is not named here. A script with inline metadata (PEP 723) or a requirements text is run by
the interpreter of an environment that `prepare.py` has uv make, once for all executions of an owner that ask for the
same; then it starts as fast as any other and needs no network. Not by ``uv run``, which would stand between us and the
script: it tells a signal as exit code 128 + n.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workers.prepare import CONFIGURATION
from workers.process import base_python

PREPARE = Path(__file__).with_name("prepare.py")
PASSED_ON = {
    "LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
}  # fmt: skip
PASSED_ON_PREFIXES = ("LC_", "OPENBLAS_", "OMP_", "MKL_")
# May hold credentials: for the prepare step alone.
INDEX_VARIABLES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX",
                   "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST", "UV_HTTP_", "UV_REQUEST_TIMEOUT",
                   "UV_CONCURRENT_", "UV_EXCLUDE_NEWER", "UV_OFFLINE", "UV_TORCH_BACKEND")  # fmt: skip
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# What names files beside the script, which differ between executions that name them alike.
LOCAL = re.compile(
    r"""(^|[\s"'@=])(\.{1,2}/|file:|-e\b|--editable|-r\b|--requirement|-c\b|--constraint)|path\s*=""", re.M
)


class RefusedVariable(ValueError):
    """A job tried to set a variable that is the service's."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be run. `folder` is the execution's own; `cache` that of the owner (see `owner_cache`)."""

    folder: Path
    script: Path
    """Relative to `folder`."""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """The job's own, refused for RERAIL_* (RefusedVariable)."""
    requirements: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """The RERAIL_* ones (see `rerail_variables`)."""
    sdk: Path
    """The folder that holds `rerail.py` and nothing else."""
    cache: Path


@dataclass(frozen=True)
class Command:
    argv: list[str]
    env: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to run a script: `prepare` first if there is one (exit 0 or `setup_failed`), then `run`; both confined alike.

    `writable` and `readonly` are what both need to see besides the execution's folder and the base interpreter.
    """

    prepare: Command | None
    run: Command
    writable: list[Path]
    readonly: list[Path]


def owner_cache(cache: Path, owner_id: int) -> Path:
    """Where one owner's packages and environments lie; to be given to the owner's uid with `give_cache`."""
    return cache / "uv" / str(owner_id)


def rerail_variables(
    *,
    job_id: int,
    attempt: int,
    resumed: bool,
    dataset_folder: Path | None,
    metrics: Path,
    checkpoint: Path,
) -> dict[str, str]:
    """What a script may rely on. Without a dataset there is no RERAIL_DATASET_DIR."""
    variables = {
        "RERAIL_JOB_ID": str(job_id),
        "RERAIL_EXECUTION": f"{job_id}.{attempt}",
        "RERAIL_ATTEMPT": str(attempt),
        "RERAIL_RESUMED": str(int(resumed)),
        "RERAIL_METRICS": str(metrics),
        "RERAIL_CHECKPOINT": str(checkpoint),
    }
    if dataset_folder is not None:
        variables["RERAIL_DATASET_DIR"] = str(dataset_folder)
    return variables


def plan(request: Request, environ: Mapping[str, str] = os.environ) -> Plan:
    """Write what the script needs into the execution's folder and say how to run it.

    Call it before the folder is given to the script's uid. Raises RefusedVariable, and OSError when the script can't
    be read. `environ` is the service's environment.
    """
    refuse_reserved(request.env)
    home, scratch = _own_folders(request.folder)
    metadata = inline_metadata((request.folder / request.script).read_text("utf-8", "replace"))
    packaged = metadata is not None or bool((request.requirements or "").strip())
    environment = _environment_folder(request, metadata) if packaged else None
    python = base_python() if environment is None else environment / "bin" / "python"
    env = _script_environment(request, environ, python, home=home, scratch=scratch)
    if environment is not None:
        env["VIRTUAL_ENV"] = str(environment)
    run = Command([str(python), "-u", _script_argument(request.script), *request.args], env)
    if environment is None:
        return Plan(prepare=None, run=run, writable=[], readonly=[request.sdk])
    uv = find_uv()
    prepare = _prepare_command(request, environ, uv, environment, env, has_metadata=metadata is not None)
    return Plan(prepare=prepare, run=run, writable=[request.cache], readonly=[request.sdk, uv, PREPARE])


def refuse_reserved(env: Mapping[str, str]) -> None:
    """Raise RefusedVariable if a job's `env` holds a name of ours, or one that no environment can hold."""
    for name, value in env.items():
        if name.startswith("RERAIL_"):
            raise RefusedVariable(f"env may not set {name}: names that begin with RERAIL_ are set by Rerail.")
        if not name or "=" in name or "\0" in name + value:
            raise RefusedVariable(f"env may not set {name!r}: no environment can hold it.")


def find_uv() -> Path:
    from uv import find_uv_bin

    return Path(find_uv_bin())


def inline_metadata(script: str) -> str | None:
    """The TOML of the script's PEP 723 block, or None if it has none."""
    lines = script.splitlines()
    if "# /// script" not in lines:
        return None
    block: list[str] = []
    end = None
    for line in lines[lines.index("# /// script") + 1 :]:
        if line != "#" and not line.startswith("# "):
            break
        if line == "# ///":
            end = len(block)
        block.append(line[2:])
    return None if end is None else "\n".join(block[:end])


def setup_failure(output: str, lines: int = 6) -> str:
    """The last words of the resolver in one string, for the message of `setup_failed`."""
    kept = [line.strip() for line in output.splitlines() if line.strip()]
    return "\n".join(kept[-lines:]) or "The environment could not be made, and uv did not say why."


def _own_folders(folder: Path) -> tuple[Path, Path]:
    home, scratch = folder / ".rerail" / "home", folder / ".rerail" / "tmp"
    for path in (home, scratch):
        path.mkdir(parents=True, exist_ok=True)
    return home, scratch


def _environment_folder(request: Request, metadata: str | None) -> Path:
    """Named after all that goes into it; private to the execution when files of its own go into it."""
    requirements = request.requirements or ""
    if LOCAL.search(metadata or "") or LOCAL.search(requirements):
        return request.folder / ".rerail" / "environment"
    ingredients = "\0".join([metadata or "", requirements, str(base_python()), sys.version])
    return request.cache / "environments" / hashlib.sha256(ingredients.encode()).hexdigest()[:32]


def _script_argument(script: Path) -> str:
    text = str(script)
    return f"./{text}" if text.startswith("-") else text


def _script_environment(
    request: Request, environ: Mapping[str, str], python: Path, *, home: Path, scratch: Path
) -> dict[str, str]:
    env = _inherited(environ)
    env |= {"HOME": str(home), "TMPDIR": str(scratch), "USER": "rerail", "LOGNAME": "rerail"}
    env["PATH"] = _path(environ, python)
    env |= request.env
    env |= request.variables
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [request.env.get("PYTHONPATH"), str(request.sdk)]))
    return env


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or name.upper() in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }


def _path(environ: Mapping[str, str], python: Path) -> str:
    """The script's own interpreter first, and the service's virtual environment out."""
    service = str(Path(sys.prefix, "bin"))
    folders = [folder for folder in environ.get("PATH", DEFAULT_PATH).split(os.pathsep) if folder != service]
    return os.pathsep.join([str(python.parent), *folders])


def _prepare_command(
    request: Request,
    environ: Mapping[str, str],
    uv: Path,
    environment: Path,
    env: dict[str, str],
    *,
    has_metadata: bool,
) -> Command:
    requirements = "-"
    if (request.requirements or "").strip():
        requirements = ".rerail-requirements.txt"  # in the folder itself, as paths in it are relative to it
        (request.folder / requirements).write_text(request.requirements or "", "utf-8")
    script = _script_argument(request.script) if has_metadata else "-"
    argv = [str(base_python()), "-I", "-S", "-B", str(PREPARE), str(uv), str(environment), script, requirements]
    return Command(argv, _prepare_environment(request, environ, env))


def _prepare_environment(request: Request, environ: Mapping[str, str], env: dict[str, str]) -> dict[str, str]:
    index = {name: value for name, value in environ.items() if name.startswith(INDEX_VARIABLES)}
    configuration = _uv_configuration(environ)
    if configuration is not None:
        index[CONFIGURATION] = configuration
    return index | env | {
        "UV_CACHE_DIR": str(request.cache / "cache"),
        "UV_PYTHON": str(base_python()),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
    }  # fmt: skip


def _uv_configuration(environ: Mapping[str, str]) -> str | None:
    """The service user's uv.toml, or the machine's: in the sandbox the first can't be found."""
    config_home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/nonexistent"), ".config")
    candidates = [environ.get("UV_CONFIG_FILE"), os.path.join(config_home, "uv", "uv.toml"), "/etc/uv/uv.toml"]
    for path in filter(None, candidates):
        try:
            return Path(path).read_text("utf-8")
        except OSError:
            continue
    return None
