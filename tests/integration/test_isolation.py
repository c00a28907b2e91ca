"""What a script can't see, reach or keep, at every isolation level that promises it."""

import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.sandbox import LEVELS, PATIENCE, Bench, Output, open_bench, open_folder, reachable_python
from workers.isolation import (
    FIRST_UID,
    MORE_UIDS,
    Isolation,
    Level,
    confine,
    detect,
    give_cache,
    give_folder,
    is_root,
    probe,
    uid_for_owner,
)
from workers.process import base_python

ROOT = Path(__file__).parents[2]
TRY = """
def attempt(action):
    try: return action()
    except OSError as error: return type(error).__name__
"""
needs_root = pytest.mark.skipif(not is_root(), reason="only root can give scripts another uid")
OWN_UID = [level for level in LEVELS if level.values[0] is not Level.ENVIRONMENT]


@pytest.fixture(params=LEVELS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with open_bench(request.param) as bench:
        yield bench


@pytest.fixture(params=OWN_UID)
def apart(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bench at a level that keeps the service from the script by more than good manners."""
    with open_bench(request.param) as bench:
        yield bench


@pytest.fixture
def space() -> Iterator[Bench]:
    with open_bench(Level.NAMESPACE) as bench:
        yield bench


@pytest.fixture
def foreign_group() -> Iterator[None]:
    before = os.getgroups()
    if is_root():
        os.setgroups([*before, 4])
    yield
    if is_root():
        os.setgroups(before)


def test_a_script_gets_no_descriptor_but_stdin_stdout_and_stderr(bench: Bench) -> None:
    ours = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(ours, True)
    try:
        text = bench.run("print(os.readlink('/proc/self/fd/0'), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    finally:
        os.close(ours)
    assert text == "/dev/null [0, 1, 2]"


def test_a_script_gets_the_environment_it_was_given_and_nothing_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERAIL_SECRET_KEY", "s3cret")
    assert (
        json.loads(bench.run("import json; os.environ.pop('LC_CTYPE', None); print(json.dumps(dict(os.environ)))"))
        == {}
    )


def test_a_script_leads_a_session_dumps_no_core_and_gains_no_privileges(bench: Bench) -> None:
    text = bench.run(
        """
import resource
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(os.getsid(0) == os.getpid(), resource.getrlimit(resource.RLIMIT_CORE), oct(os.umask(0)), status["NoNewPrivs"])
"""
    )
    assert text == "True (0, 0) 0o22 1"


def test_a_script_has_no_capability_and_no_foreign_group(apart: Bench, foreign_group: None) -> None:
    text = apart.run(
        """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print([status[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")], os.getgroups())
"""
    )
    groups = [] if is_root() else os.getgroups()
    assert text == f"{['0' * 16] * 4} {groups}"


@needs_root
def test_a_script_has_the_uid_and_gid_of_its_owner_for_good(apart: Bench) -> None:
    text = apart.run(TRY + "print(os.getresuid(), os.getresgid(), attempt(lambda: os.setuid(0)))")
    uid = uid_for_owner(apart.owner_id)
    assert text == f"{(uid,) * 3} {(uid,) * 3} PermissionError"


def test_a_script_cannot_read_the_environment_or_memory_of_the_service_nor_signal_it(apart: Bench) -> None:
    text = apart.run(
        TRY
        + """
pid = sys.argv[1]
print([attempt(lambda: open(f"/proc/{pid}/{name}", "rb").read(1)) for name in ("environ", "mem", "maps")],
      attempt(lambda: os.listdir(f"/proc/{pid}/fd")), attempt(lambda: os.kill(int(pid), 0)))
""",
        str(os.getpid()),
    )
    refusal, lookup = (
        ("FileNotFoundError", "ProcessLookupError")
        if apart.level is Level.NAMESPACE
        else ("PermissionError", "PermissionError")
    )
    assert text == f"{[refusal] * 3} {refusal} {lookup}"


def test_a_script_cannot_read_the_memory_or_environment_of_its_watchers(apart: Bench) -> None:
    text = apart.run(
        TRY
        + """
print([attempt(lambda: open(f"/proc/{os.getppid()}/{name}", "rb").read(1)) for name in ("environ", "mem", "maps")])
"""
    )
    assert text == "['PermissionError', 'PermissionError', 'PermissionError']"


def test_in_a_namespace_a_script_sees_only_its_own_processes(space: Bench) -> None:
    text = space.run("daemon(); print(len([entry for entry in os.listdir('/proc') if entry.isdigit()]), os.getppid())")
    assert text == "3 1"


def test_in_a_namespace_a_script_shares_no_process_mount_or_ipc_namespace_with_the_service(space: Bench) -> None:
    kinds = ("pid", "mnt", "ipc")
    text = space.run("print(*[os.readlink(f'/proc/self/ns/{kind}') for kind in sys.argv[1:]])", *kinds)
    assert not set(text.split()) & {os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}


def test_in_a_namespace_scratch_folders_are_empty_writable_and_forgotten(space: Bench) -> None:
    text = space.run(
        """
for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    print(os.listdir(folder) in ([], [os.path.basename(sys.argv[1])]), oct(os.stat(folder).st_mode))
    open(folder + "/rerail-test-left", "w").close()
""",
        str(space.root),
    )
    assert text.splitlines() == ["True 0o41777"] * 3
    assert not any(Path(folder, "rerail-test-left").exists() for folder in ("/tmp", "/dev/shm", "/var/tmp"))


def test_in_a_namespace_hidden_folders_files_and_sockets_are_out_of_reach(space: Bench) -> None:
    data, key = space.root / "data", space.root / "secret-key"
    data.mkdir()
    (data / "password").write_text("s3cret")
    key.write_text("s3cret")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(data / "postgres"))
    listener.listen()
    space.hidden = [data, key, space.root / "missing"]
    text = space.run(
        TRY
        + """
import socket
data, key = sys.argv[1:]
print(os.listdir(data), repr(attempt(lambda: open(key).read())),
      attempt(lambda: socket.socket(socket.AF_UNIX).connect(data + "/postgres")),
      attempt(lambda: open(data + "/mine", "w")))
""",
        str(data),
        str(key),
    )
    listener.close()
    assert text == "[] '' FileNotFoundError OSError"


def test_in_a_namespace_the_home_of_the_service_shows_nothing_but_what_the_interpreter_needs(space: Bench) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    text = space.run("print(os.path.exists(sys.executable), os.listdir(sys.argv[1]))", str(home))
    relative = base_python().is_relative_to(home) and [base_python().relative_to(home).parts[0]]
    assert text == f"True {relative or []}"


def test_paths_may_lie_in_each_other_and_the_deepest_counts(space: Bench) -> None:
    outer = space.root / "outer"
    for path in ("seen/hidden/written/seen", "other"):
        (outer / path).mkdir(parents=True)
        (outer / path / "file").touch()
    (outer / "seen" / "file").touch()
    inner = outer / "seen" / "hidden" / "written"
    space.hidden = [outer, outer / "seen" / "hidden"]
    space.readonly += [outer / "seen", inner / "seen"]
    space.writable = [inner]
    give_folder(inner, confine(space.level, space.owner_id))
    if is_root():
        (outer / "seen").chmod(0o777)
    text = space.run(
        TRY
        + """
outer = sys.argv[1]
for path in ("", "/seen", "/seen/hidden", "/seen/hidden/written", "/seen/hidden/written/seen"):
    print(sorted(os.listdir(outer + path)), attempt(lambda: open(outer + path + "/new", "w").close()))
""",
        str(outer),
    )
    assert text.splitlines() == [
        "['seen'] OSError",
        "['file', 'hidden'] OSError",
        "['written'] OSError",
        "['seen'] None",
        "['file'] OSError",
    ]


def test_a_single_file_can_be_bound_back_into_a_hidden_folder(space: Bench) -> None:
    tools = space.root / "tools"
    tools.mkdir()
    for name in ("uv", "secret"):
        (tools / name).write_text(name)
    space.hidden = [tools]
    space.readonly += [tools / "uv"]
    assert space.run("print(os.listdir(sys.argv[1]), open(sys.argv[1] + '/uv').read())", str(tools)) == "['uv'] uv"


@needs_root
def test_in_a_namespace_a_folder_that_the_uid_may_not_pass_is_passed_by_covering_it(space: Bench) -> None:
    locked = space.root / "locked"
    (locked / "sdk").mkdir(parents=True)
    (locked / "sdk" / "rerail.py").write_text("x = 1")
    locked.chmod(0o700)
    space.readonly += [locked / "sdk"]
    assert space.run("print(os.listdir(sys.argv[1]), os.listdir(sys.argv[1] + '/sdk'))", str(locked)) == (
        "['sdk'] ['rerail.py']"
    )


@needs_root
def test_a_script_cannot_uncover_what_is_hidden_from_a_user_namespace_of_its_own(space: Bench) -> None:
    data = space.root / "data"
    data.mkdir()
    (data / "password").write_text("s3cret")
    space.hidden = [data]
    text = space.run(
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000 | 0x20000), libc.umount2(sys.argv[1].encode(), 2), os.listdir(sys.argv[1]))
""",
        str(data),
    )
    assert text == "0 -1 []"


@needs_root
def test_owners_cannot_reach_each_others_folders_and_caches(apart: Bench) -> None:
    theirs, mine = apart.root / "cache" / "8", apart.root / "cache" / "7"
    theirs.parent.mkdir(mode=0o711)
    for owner, cache in ((8, theirs), (7, mine)):
        give_cache(cache, confine(apart.level, owner))
    (theirs / "wheel").write_text("theirs")
    apart.writable = [mine]
    text = apart.run(
        TRY
        + """
theirs, mine = sys.argv[1:]
print(attempt(lambda: os.listdir(theirs)), attempt(lambda: open(theirs + "/wheel").read()),
      attempt(lambda: open(theirs + "/poison", "w")), attempt(lambda: open(mine + "/wheel", "w").close()))
""",
        str(theirs),
        str(mine),
    )
    assert text == "PermissionError PermissionError PermissionError None"


def test_no_two_owners_share_a_uid_nor_has_one_that_of_nobody() -> None:
    uids = [uid_for_owner(owner) for owner in range(4000)]
    assert len(set(uids)) == 4000
    assert uids[:2] == [FIRST_UID, FIRST_UID + 1]
    assert uids[1500] == MORE_UIDS + 1500
    assert 65534 not in uids
    assert 65535 not in uids


@needs_root
def test_the_uids_beyond_the_first_range_work_too(apart: Bench) -> None:
    apart.owner_id = 1501
    assert apart.run("print(os.getuid(), os.stat('.').st_uid)") == f"{MORE_UIDS + 1501} {MORE_UIDS + 1501}"


@needs_root
def test_giving_a_folder_follows_no_link_and_closes_it_to_others() -> None:
    with open_folder() as root:
        (root / "outside").touch()
        (root / "given").mkdir(mode=0o777)
        (root / "given" / "link").symlink_to(root / "outside")
        give_folder(root / "given", confine(Level.UID, 3))
        assert (root / "outside").stat().st_uid == 0
        assert (root / "given" / "link").lstat().st_uid == uid_for_owner(3)
        assert stat.S_IMODE((root / "given").stat().st_mode) == 0o700


@needs_root
def test_a_cache_is_kept_for_its_uid_and_begun_anew_for_another() -> None:
    with open_folder() as root:
        for owner, kept in ((3, False), (3, True), (4, False)):
            give_cache(root / "cache", confine(Level.UID, owner))
            assert (root / "cache" / "wheel").exists() == kept
            assert (root / "cache").stat().st_uid == uid_for_owner(owner)
            (root / "cache" / "wheel").touch()


def test_the_best_level_in_force_is_found_by_trying_and_needs_no_excuse() -> None:
    detected = detect()
    if is_root():
        assert detected == Isolation(Level.NAMESPACE, "")
    assert probe(detected.level) is None


@needs_root
def test_a_level_is_passed_over_with_a_sentence_when_its_uid_cannot_reach_the_folder() -> None:
    with open_folder() as root:
        locked = root / "locked"
        (locked / "executions").mkdir(parents=True)
        locked.chmod(0o700)
        problem = probe(Level.UID, locked / "executions")
    assert problem is not None
    assert problem.startswith("Cannot ")
    assert problem.endswith(": Permission denied.")


def test_where_better_levels_fail_the_next_is_taken_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    detect_again = detect.__globals__["_detect"].__wrapped__
    refusals = {Level.NAMESPACE: "Namespaces are refused here: Operation not permitted.", Level.UID: "No such uid."}
    monkeypatch.setattr("workers.isolation.probe", lambda level, folder: refusals[level])
    detected = detect_again(None)
    assert detected.level is Level.ENVIRONMENT
    assert "Namespaces are refused here: Operation not permitted." in detected.why


# --- as an ordinary user ---------------------------------------------------------------------------------------------

ORDINARY = """
import json, os, subprocess, sys
from pathlib import Path
from workers.hardening import make_undumpable
from workers.isolation import confine, detect
from workers.process import Script, ScriptSpec, base_python

make_undumpable()
root = Path(sys.argv[1])
level = detect().level
(root / "execution").mkdir()
code = '''
import json, os, sys
def attempt(action):
    try: return action()
    except OSError as error: return type(error).__name__
root, parent = sys.argv[1:]
status = dict(line.split(":\\\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": status["CapPrm"] + status["CapEff"],
    "home": attempt(lambda: os.listdir(root + "/home")),
    "data": attempt(lambda: os.listdir(root + "/data")),
    "service": attempt(lambda: open(root + "/workers/process.py", "a")),
    "elsewhere": attempt(lambda: open(root + "/new", "w")),
    "folder": attempt(lambda: open("mine", "w").close()),
    "scratch": attempt(lambda: open("/tmp/mine", "w").close()),
    "parent": attempt(lambda: open(f"/proc/{parent}/environ").read()),
    "init": attempt(lambda: open("/proc/1/environ").read()),
    "processes": len([entry for entry in os.listdir("/proc") if entry.isdigit()]),
}), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time
        time.sleep(3600)
    os._exit(0)
os.wait()
sys.exit(11)
'''
confinement = confine(level, 7, hidden=[root / "data"], writable=[root / "execution"])
spec = ScriptSpec(argv=[str(base_python()), "-c", code, str(root), str(os.getpid())], env={},
                  folder=root / "execution", stdout=1, stderr=2, confinement=confinement)
with Script.spawn(spec) as script:
    end = script.wait(20)
print(json.dumps({"level": level, "code": end.code}))
"""


@pytest.fixture
def as_ordinary_user() -> Iterator[Path]:
    """A service's folder that belongs to an ordinary user: its home with a key, its data, its code."""
    # Not in a scratch folder, which is covered: all of the file system must be read-only, not what was bound so.
    with open_folder("/srv" if is_root() else str(Path.home())) as root:
        for name, file in (("home", ".ssh/key"), ("data", "password")):
            (root / name / file).parent.mkdir(parents=True)
            (root / name / file).write_text("s3cret")
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / "workers", root / "workers", ignore=ignored)
        shutil.copytree(Path(psutil.__file__).parent, root / "psutil", ignore=ignored)
        if is_root():
            for path in (root, *root.rglob("*")):
                os.chown(path, 1500, 1500)
        yield root


def test_an_ordinary_users_script_is_kept_from_its_users_home_code_and_processes(as_ordinary_user: Path) -> None:
    root = as_ordinary_user
    user = {"user": 1500, "group": 1500, "extra_groups": [1500]} if is_root() else {}
    done = subprocess.run(
        [str(reachable_python()), "-c", ORDINARY, str(root)],
        env={"HOME": str(root / "home"), "PATH": "/usr/bin:/bin"},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        **user,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    seen, service = map(json.loads, done.stdout.splitlines())
    assert service == {"level": "namespace", "code": 11}
    assert seen == {
        "uid": 1500 if is_root() else os.getuid(),
        "capabilities": "0" * 32,
        "home": [],
        "data": [],
        "service": "OSError",
        "elsewhere": "OSError",
        "folder": None,
        "scratch": None,
        "parent": "FileNotFoundError",
        "init": "PermissionError",
        "processes": 2,
    }


BY_MANNERS = """
import os, sys
from pathlib import Path
from workers.hardening import make_undumpable
from workers.isolation import Level, confine
from workers.process import Script, ScriptSpec, base_python

make_undumpable()
code = '''
import os, sys
def attempt(action):
    try: return action()
    except OSError as error: return type(error).__name__
parent = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]
print([attempt(lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
       for pid in (os.getppid(), parent, sys.argv[1]) for name in ("environ", "mem")])
'''
spec = ScriptSpec(argv=[str(base_python()), "-c", code, str(os.getpid())], env={}, folder=Path("/"),
                  stdout=1, stderr=2, confinement=confine(Level.ENVIRONMENT, 7))
with Script.spawn(spec) as script:
    script.wait(20)
"""


def test_at_the_last_level_too_service_launcher_and_init_cannot_be_read_by_their_own_uid(
    as_ordinary_user: Path,
) -> None:
    user = {"user": 1500, "group": 1500, "extra_groups": []} if is_root() else {}
    done = subprocess.run(
        [str(reachable_python()), "-c", BY_MANNERS],
        env={},
        cwd=as_ordinary_user,
        capture_output=True,
        text=True,
        **user,  # type: ignore[call-overload]
    )
    assert done.stdout.strip() == str(["PermissionError"] * 6), done.stderr


def test_an_undumpable_process_keeps_its_environment_from_others_of_its_uid(as_ordinary_user: Path) -> None:
    code = """
import subprocess, sys, os
from workers.hardening import make_undumpable
look = [sys.executable, "-c", "import os; open(f'/proc/{os.getppid()}/environ').read(1)"]
print(subprocess.run(look).returncode)
make_undumpable()
print(subprocess.run(look, stderr=subprocess.DEVNULL).returncode)
"""
    user = {"user": 1500, "group": 1500, "extra_groups": []} if is_root() else {}
    done = subprocess.run(
        [str(reachable_python()), "-c", code],
        env={},
        cwd=as_ordinary_user,
        capture_output=True,
        text=True,
        **user,  # type: ignore[call-overload]
    )
    assert done.stdout == "0\n1\n", done.stderr


def test_a_child_that_dies_with_its_parent_does_so_even_if_that_died_first() -> None:
    code = """
import os, signal, sys, time
from workers.hardening import die_with_parent
parent = os.getpid()
if os.fork() == 0:
    if sys.argv[1] == "before": die_with_parent(signal.SIGKILL, parent)
    print("ready", flush=True)
    while sys.argv[1] == "after" and os.getppid() == parent: time.sleep(0.001)
    if sys.argv[1] == "after": die_with_parent(signal.SIGKILL, parent)
    time.sleep(30)
sys.stdin.readline()
"""
    for when in ("before", "after"):
        output = Output()
        owner = subprocess.Popen(
            [sys.executable, "-c", code, when], cwd=ROOT, stdin=subprocess.PIPE, stdout=output.writer
        )
        assert output.line() == "ready"
        owner.kill()
        assert output.rest() == "", "end of file: the child is gone"
        owner.communicate()
        output.close()


def test_the_interpreter_of_scripts_is_not_that_of_the_service() -> None:
    assert sys.prefix not in str(base_python())
