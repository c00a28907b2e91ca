"""What a script is started with, and how its packages get there: with real uv, real PyPI, under the owner's uid."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.sandbox import Bench, open_bench
from workers.environment import (
    Command,
    Plan,
    RefusedVariable,
    Request,
    inline_metadata,
    owner_cache,
    plan,
    rerail_variables,
    setup_failure,
)
from workers.isolation import confine, detect, give_cache, give_folder, uid_for_owner
from workers.process import Exit, Script, ScriptSpec, base_python

SIX = '# /// script\n# requires-python = ">=3.8"\n# dependencies = ["six==1.17.0"]\n# ///\n'
RESOLVE_SECONDS = 120.0


class Workshop:
    """Plans, prepares and runs scripts as an execution does, each in a folder of its own, for one owner or another."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.count = bench, 0
        self.sdk = bench.root / "sdk"
        self.sdk.mkdir()
        (self.sdk / "rerail.py").write_text("NAME = 'the sdk'\n")
        self.environ: Mapping[str, str] = os.environ

    def request(
        self,
        script: str,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        requirements: str | None = None,
        owner: int = 7,
    ) -> Request:
        self.count += 1
        folder = self.bench.root / f"run-{self.count}"
        folder.mkdir()
        (folder / "script.py").write_text(script)
        return Request(
            folder=folder,
            script=Path("script.py"),
            args=args,
            env=env or {},
            requirements=requirements,
            sdk=self.sdk,
            cache=owner_cache(self.bench.root / "cache", owner),
            variables=rerail_variables(
                job_id=1042,
                attempt=3,
                resumed=True,
                dataset_folder=None,
                metrics=folder / "metrics.jsonl",
                checkpoint=folder / "checkpoint",
            ),
        )

    def carry_out(self, command: Command, request: Request, planned: Plan, owner: int = 7) -> tuple[Exit, str]:
        confinement = confine(
            detect().level,
            owner,
            writable=[request.folder, *planned.writable],
            readonly=[self.bench.root, *planned.readonly],
        )
        if planned.writable:
            give_cache(request.cache, confinement)
        give_folder(request.folder, confinement)
        with open(self.bench.root / f"output-{self.count}", "w+") as output:
            spec = ScriptSpec(
                argv=command.argv,
                env=command.env,
                folder=request.folder,
                stdout=output.fileno(),
                stderr=output.fileno(),
                confinement=confinement,
            )
            output.truncate(0)
            with Script.spawn(spec) as script:
                end = script.wait(RESOLVE_SECONDS)
            output.seek(0)
            assert end is not None
            return end, output.read()

    def run(self, request: Request, owner: int = 7) -> str:
        planned = plan(request, self.environ)
        if planned.prepare is not None:
            end, text = self.carry_out(planned.prepare, request, planned, owner)
            assert end.code == 0, text
        end, text = self.carry_out(planned.run, request, planned, owner)
        assert end.code == 0, text
        return text.strip()

    def prepare(self, request: Request) -> tuple[Exit, str]:
        planned = plan(request, self.environ)
        assert planned.prepare is not None
        return self.carry_out(planned.prepare, request, planned)


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    with open_bench(detect().level) as bench:
        yield Workshop(bench)


def test_a_plain_script_runs_under_the_base_interpreter_with_its_arguments_in_its_folder(workshop: Workshop) -> None:
    request = workshop.request("import sys, os; print(sys.argv, sys.executable, os.getcwd())", args=["--epochs", "3"])
    planned = plan(request)
    assert planned.prepare is None
    assert planned.run.argv == [str(base_python()), "-u", "script.py", "--epochs", "3"]
    assert workshop.run(request) == f"['script.py', '--epochs', '3'] {base_python()} {request.folder}"


def test_a_script_sees_the_sdk_and_none_of_the_services_packages(workshop: Workshop) -> None:
    text = workshop.run(
        workshop.request(
            "import rerail, importlib.util as u; print(rerail.NAME, u.find_spec('workers'), sys.path)".replace(
                "import ", "import sys, ", 1
            )
        )
    )
    assert text.startswith("the sdk None ")
    assert sys.prefix not in text


def test_a_script_gets_only_what_is_named_of_the_services_environment(workshop: Workshop) -> None:
    passed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "OMP_NUM_THREADS": "2", "https_proxy": "http://proxy:1",
              "CUDA_VISIBLE_DEVICES": "1", "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"}  # fmt: skip
    kept_back = {"DATABASE_URL": "postgres://", "RERAIL_SECRET_KEY": "s", "AWS_SECRET_ACCESS_KEY": "s",
                 "UV_INDEX_URL": "https://user:secret@index", "PYTHONPATH": "/service", "VIRTUAL_ENV": "/service",
                 "LD_PRELOAD": "x", "HOME": "/root", "CUDA_SECRET": "s"}  # fmt: skip
    workshop.environ = {**passed, **kept_back, "PATH": f"{sys.prefix}/bin:/usr/bin"}
    request = workshop.request("import json, os; print(json.dumps(dict(os.environ)))")
    own = request.folder / ".rerail"
    assert json.loads(workshop.run(request)) == {
        **passed,
        "PATH": f"{base_python().parent}:/usr/bin",
        "HOME": str(own / "home"),
        "TMPDIR": str(own / "tmp"),
        "USER": "rerail",
        "LOGNAME": "rerail",
        "PYTHONPATH": str(workshop.sdk),
        "RERAIL_JOB_ID": "1042",
        "RERAIL_EXECUTION": "1042.3",
        "RERAIL_ATTEMPT": "3",
        "RERAIL_RESUMED": "1",
        "RERAIL_METRICS": str(request.folder / "metrics.jsonl"),
        "RERAIL_CHECKPOINT": str(request.folder / "checkpoint"),
    }


def test_home_and_temporary_folder_are_writable(workshop: Workshop) -> None:
    code = "import tempfile, pathlib; (pathlib.Path.home() / 'x').touch(); print(tempfile.mkstemp()[1])"
    request = workshop.request(code)
    assert workshop.run(request).startswith(str(request.folder / ".rerail" / "tmp"))


def test_a_jobs_own_variables_count_but_the_sdk_stays_importable(workshop: Workshop) -> None:
    code = "import os, rerail; print(os.environ['MODE'], os.environ['OMP_NUM_THREADS'], rerail.NAME)"
    request = workshop.request(code, env={"MODE": "fast", "OMP_NUM_THREADS": "8", "PYTHONPATH": "src"})
    assert workshop.run(request) == "fast 8 the sdk"


@pytest.mark.parametrize("name", ["RERAIL_JOB_ID", "RERAIL_ANYTHING", "A=B", ""])
def test_a_job_may_not_set_our_variables_or_impossible_ones(workshop: Workshop, name: str) -> None:
    with pytest.raises(RefusedVariable, match="env may not set"):
        plan(workshop.request("pass", env={name: "1"}))


def test_the_dataset_folder_is_named_only_when_there_is_one() -> None:
    facts = rerail_variables(
        job_id=1,
        attempt=1,
        resumed=False,
        dataset_folder=Path("/data/7"),
        metrics=Path("m"),
        checkpoint=Path("c"),
    )
    assert facts["RERAIL_DATASET_DIR"] == "/data/7"
    assert facts["RERAIL_RESUMED"] == "0"


@pytest.mark.parametrize(
    ("script", "metadata"),
    [
        ("print()", None),
        ("# /// script\n# dependencies = []\n# ///\n", "dependencies = []"),
        ("#!/usr/bin/env python\r\n# /// script\r\n# a = 1\r\n#\r\n# b = 2\r\n# ///\r\n", "a = 1\n\nb = 2"),
        ("# /// script\n# a = 1\nprint()\n# ///\n", None),
        ("# /// other\n# a = 1\n# ///\n", None),
    ],
)
def test_inline_metadata_is_found_as_pep_723_says(script: str, metadata: str | None) -> None:
    assert inline_metadata(script) == metadata


def test_inline_dependencies_are_installed_under_the_owners_uid_and_a_signal_stays_a_signal(workshop: Workshop) -> None:
    request = workshop.request(SIX + "import six, os; print(six.__version__, os.getuid(), six.__file__, flush=True)")
    version, uid, file = workshop.run(request).split()
    assert (version, int(uid)) == ("1.17.0", uid_for_owner(7) if os.geteuid() == 0 else os.getuid())
    assert Path(file).is_relative_to(request.cache / "environments")
    dying = workshop.request(SIX + "import os; os.kill(os.getpid(), 9)")
    planned = plan(dying)
    assert workshop.carry_out(planned.run, dying, planned)[0] == Exit(None, 9)


def test_the_same_dependencies_are_ready_at_once_and_offline_the_second_time(workshop: Workshop) -> None:
    workshop.run(workshop.request(SIX + "import six"))
    workshop.environ = {"PATH": "/usr/bin:/bin", "UV_OFFLINE": "1", "https_proxy": "http://127.0.0.1:9"}
    again = workshop.request(SIX + "print('another script'); import six")
    planned = plan(again, workshop.environ)
    assert planned.prepare is not None
    started = time.monotonic()
    end, text = workshop.carry_out(planned.prepare, again, planned)
    assert (end.code, text) == (0, "")
    assert time.monotonic() - started < 1
    assert workshop.run(again) == "another script"


def test_a_requirements_text_is_installed_alone_and_on_top_of_inline_metadata(workshop: Workshop) -> None:
    code = "import six; print(six.__version__)"
    assert workshop.run(workshop.request(code, requirements="six == 1.16.0  # old\n")) == "1.16.0"
    both = workshop.request(SIX + "import six, idna; print(six.__version__)", requirements="idna")
    assert workshop.run(both) == "1.17.0"


def test_a_failed_resolution_gives_the_resolvers_last_lines_and_is_tried_again_next_time(workshop: Workshop) -> None:
    for _ in range(2):
        end, text = workshop.prepare(workshop.request("pass", requirements="six==99.0"))
        assert end.code == 1
        message = setup_failure(text)
        assert "six==99.0" in message
        assert len(message.splitlines()) <= 6


def test_a_script_for_another_python_fails_in_preparing(workshop: Workshop) -> None:
    end, text = workshop.prepare(workshop.request('# /// script\n# requires-python = ">=3.99"\n# ///\n'))
    assert end.code == 1
    assert ">=3.99" in setup_failure(text)


def test_index_settings_go_to_the_prepare_step_alone(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(
        '[[index]]\nurl = "http://user:secret@127.0.0.1:9/simple"\ndefault = true\n'
    )
    workshop.environ = {"UV_HTTP_RETRIES": "0", "UV_INDEX_PRIVATE_PASSWORD": "secret", "XDG_CONFIG_HOME": str(tmp_path)}
    request = workshop.request("pass", requirements="six")
    planned = plan(request, workshop.environ)
    assert planned.prepare is not None
    assert planned.prepare.env["UV_INDEX_PRIVATE_PASSWORD"] == "secret"
    assert "secret" not in str(planned.run)
    end, text = workshop.carry_out(planned.prepare, request, planned)
    assert end.code == 1
    assert "127.0.0.1:9" in text, "the service's uv.toml was obeyed"
    found = [path for path in (*request.folder.rglob("*"), *request.cache.rglob("*")) if path.is_file()]
    assert not any(b"secret" in path.read_bytes() for path in found)


def test_settings_in_folders_around_the_executions_are_not_obeyed(workshop: Workshop) -> None:
    (workshop.bench.root / "uv.toml").write_text("offline = true\nnonsense = 1\n")
    workshop.bench.root.chmod(0o755)
    assert workshop.run(workshop.request(SIX + "import six; print('fine')")) == "fine"


def test_building_a_package_happens_in_the_sandbox(workshop: Workshop) -> None:
    request = workshop.request("import evil", requirements="./evil\n")
    package = request.folder / "evil"
    package.mkdir()
    (package / "setup.py").write_text("import os, sys\nsys.exit(f'BUILT BY {os.getuid()}')\n")
    end, text = workshop.prepare(request)
    assert end.code == 1
    assert f"BUILT BY {uid_for_owner(7) if os.geteuid() == 0 else os.getuid()}" in text


def test_dependencies_on_files_of_the_job_are_not_shared_between_executions(workshop: Workshop) -> None:
    first = workshop.request("from local import NAME; print(NAME)", requirements="./local\n")
    second = workshop.request("from local import NAME; print(NAME)", requirements="./local\n")
    for request, name in ((first, "first"), (second, "second")):
        package = request.folder / "local"
        package.mkdir()
        (package / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"\n'
            '[project]\nname = "local"\nversion = "1"\ndescription = "x"\n'
        )
        (package / "local.py").write_text(f"NAME = {name!r}\n")
        assert workshop.run(request) == name


def test_owners_do_not_share_environments(workshop: Workshop) -> None:
    code = SIX + "import six; print(six.__file__)"
    mine = workshop.run(workshop.request(code))
    theirs = workshop.run(workshop.request(code, owner=8), owner=8)
    assert mine != theirs
    assert Path(mine).stat().st_ino != Path(theirs).stat().st_ino
