#!/usr/bin/env python3
"""Servers with a fault that the reader finds (docs/mystery.md).

  usage: OUT=build tests/mystery/mystery.py build N          (make mystery N=; COMPILE, LINK and LIBRARIES as make has them)
         OUT=build tests/mystery/mystery.py test N CLIENT    (make test-mystery N= CLIENT=)
         OUT=build tests/mystery/mystery.py check [N...]     (make test-mystery)
         tests/mystery/mystery.py applies                    (make test-all: each can still be made of the sources)
         tests/mystery/mystery.py reveal N                   (make reveal N=)
         tests/mystery/mystery.py unpack N FOLDER, pack FOLDER N

A fault is kept in tests/mystery/N.fault, encoded, so that nobody reads it by accident or finds it with a search.
Unpacked it is a folder: fault.json, with

  stage     whose server it is
  symptom   what a user says
  options   what to start it with; {dir} is a folder with the files, {target} the address of a right stage 2
  files     {path: text}, or {path: [line, count]} for many, with their numbers in place of %d; a path that ends in / is a folder
  edits     [[file, old, new]]: old stands in the file once
  page      where the course teaches it
  how       how one could have found it

and client.py, a client that tells the server with the fault from the right one, in the way in which the reader's has to. The
changed sources exist only while the compiler reads them, in a temporary folder.

test plays CLIENT against both servers, ten times each, in pairs whose order chance makes, until one is wrong: it is called with
HOST and PORT, and its exit status 0 says that the server is right, any other that it is not. check shows that each fault is hidden, and that its own client,
and no client that always says the same, passes this test. Both print "N passed, N failed" at the end.
"""
import base64
import concurrent.futures
import contextlib
import difflib
import glob
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("OUT", "build")
FOLDER = os.environ.get("FOLDER", f"{OUT}/mystery")
TIMES = 10
AT_ONCE = 20   # runs of a client of the course's own, which mostly wait
DEADLINE = 60  # s for a client to make up its mind


# ---- faults -------------------------------------------------------------------------------------------

def numbers():
    return sorted(int(os.path.basename(path)[:-len(".fault")]) for path in glob.glob(os.path.join(HERE, "*.fault")))


def load(number):
    path = os.path.join(HERE, f"{number}.fault")
    if not os.path.exists(path):
        raise SystemExit(f"mystery: N={number}: there is none; there are: {' '.join(map(str, numbers()))}")
    with open(path, "rb") as file:
        return json.loads(zlib.decompress(base64.b64decode(file.read())))


def pack(folder, number):
    with open(os.path.join(folder, "fault.json"), encoding="utf-8") as file:
        fault = json.load(file)
    with open(os.path.join(folder, "client.py"), encoding="utf-8") as file:
        fault["client"] = file.read()
    with open(os.path.join(HERE, f"{number}.fault"), "wb") as file:
        file.write(base64.encodebytes(zlib.compress(json.dumps(fault).encode(), 9)))


def unpack(number, folder):
    fault = load(number)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "client.py"), "w", encoding="utf-8") as file:
        file.write(fault.pop("client"))
    with open(os.path.join(folder, "fault.json"), "w", encoding="utf-8") as file:
        json.dump(fault, file, indent=2)


def changed(fault):
    """(file, text, changed text) of each source."""
    texts = {}
    for path, old, new in fault["edits"]:
        if path not in texts:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            texts[path] = text, text
        before, text = texts[path]
        if text.count(old) != 1:
            raise SystemExit("mystery: the sources have changed, so this fault cannot be made any more; "
                             "the course has to mend it (tests/mystery/mystery.py, unpack and pack)")
        texts[path] = before, text.replace(old, new)
    return [(path, before, text) for path, (before, text) in texts.items()]


def stage_of(fault):
    return os.path.basename(glob.glob(f"stage{fault['stage']}-*")[0])


# ---- building -----------------------------------------------------------------------------------------

def compile_and_link(fault, program):
    stage = stage_of(fault)
    with tempfile.TemporaryDirectory(prefix="mystery.") as folder:
        objects = []
        for path, _, text in changed(fault):
            source = os.path.join(folder, path)
            os.makedirs(os.path.dirname(source), exist_ok=True)
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            objects.append(source[:-1] + "o")
            subprocess.run([*shlex.split(os.environ["COMPILE"]), f"-ffile-prefix-map={folder}/=", "-iquote",
                            os.path.dirname(path), "-c", "-o", objects[-1], source],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.unlink(source)
        replaced = {path[:-1] + "o" for path, _, _ in changed(fault)}
        others = [path for path in sorted(glob.glob(f"{OUT}/obj/{stage}/*.o")) if path[len(OUT) + 5:] not in replaced]
        subprocess.run([*shlex.split(os.environ["LINK"]), "-o", program, *objects, *others, f"{OUT}/libcommon.a",
                        *shlex.split(os.environ["LIBRARIES"])], check=True)


def lay_out(fault, folder):
    """The files that the server serves."""
    for path, text in fault["files"].items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not path.endswith("/"):
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text if isinstance(text, str) else "".join(text[0] % n for n in range(text[1])))


def program_of(number):
    return f"{FOLDER}/{number}"


def build(number):
    fault, program = load(number), program_of(number)
    os.makedirs(os.path.dirname(program), exist_ok=True)
    try:
        compile_and_link(fault, program)
    except subprocess.CalledProcessError:
        raise SystemExit("mystery: the compiler refuses it; the course has to mend this fault") from None
    shutil.rmtree(program + ".files", ignore_errors=True)
    os.makedirs(program + ".files")
    lay_out(fault, program + ".files")
    print(f"mystery {number}, stage {fault['stage']}. A user says:\n\n    \"{fault['symptom']}\"\n")
    if "{target}" in fault["options"]:
        print(f"Start two servers:\n\n    {OUT}/stage2-single-reactor &")
    else:
        print("Start it:\n")
    print(f"    {program} {fault['options'].format(dir=program + '.files', target='127.0.0.1:7002')}".rstrip() + "\n")
    print(f"{OUT}/{stage_of(fault)} with the same options is right. When your client can tell the two apart:\n"
          f"make test-mystery N={number} CLIENT=path/to/your/client")


# ---- grading ------------------------------------------------------------------------------------------

@contextlib.contextmanager
def running(*command):
    """The port of a server."""
    with subprocess.Popen([*command, "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline()
            if not line:
                raise SystemExit(f"mystery: {command[0]} does not start")
            yield int(line.rsplit(":", 1)[1])
        finally:
            server.kill()


def verdict(fault, program, client):
    """What the client says of one server: True, or what it has said instead, with the end of what it printed."""
    with tempfile.TemporaryDirectory(prefix="mystery.") as folder, contextlib.ExitStack() as servers:
        lay_out(fault, folder)
        target = servers.enter_context(running(f"{OUT}/stage2-single-reactor")) if "{target}" in fault["options"] else 0
        options = fault["options"].format(dir=folder, target=f"127.0.0.1:{target}")
        port = servers.enter_context(running(program, *shlex.split(options)))
        try:
            process = subprocess.Popen([client, "127.0.0.1", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise SystemExit(f"mystery: the system cannot start {client}: {error.strerror}") from None
        with process:
            try:
                printed = process.communicate(timeout=DEADLINE)[0].decode(errors="replace").strip().splitlines()[-1:]
            except subprocess.TimeoutExpired:
                return f"it says nothing within {DEADLINE} s"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode == 0:
            return True
        return f"exit status {process.returncode}, wrong" + "".join(f"; it printed: {line:.200}" for line in printed)


def grade(number, client, times=TIMES, at_once=1, runs_before=0):
    """What is wrong with a client: lines."""
    fault, wrong = load(number), []
    servers = [(True, f"{OUT}/{stage_of(fault)}"), (False, program_of(number))] * times
    random.shuffle(servers)
    with concurrent.futures.ThreadPoolExecutor(at_once) as runs:
        verdicts = list(runs.map(lambda server: verdict(fault, server[1], client), servers))
    for run, ((is_right, _), said) in enumerate(zip(servers, verdicts), runs_before + 1):
        late = said is not True and said.startswith("it says nothing")
        if late or (said is True) is not is_right:
            server = "the right server" if is_right else "the server with the fault"
            wrong.append(f"run {run}, {server}: " + ("the client says: right" if said is True else
                                                     said if late else f"the client says: {said}"))
    return wrong


def test(number, client):
    """Ends with the first pair of runs of which one is wrong: a client that does not find the fault mostly waits
    for what does not come, and its author need not do that twenty times."""
    if not os.path.exists(program_of(number)):
        raise SystemExit(f"mystery: first, make mystery N={number}")
    runs, wrong = 0, []
    while runs < 2 * TIMES and not wrong:
        wrong = grade(number, os.path.abspath(client), times=1, runs_before=runs)
        runs += 2
    for line in wrong:
        print(f"mystery: FAILED: {line}")
    print(f"{runs - len(wrong)} passed, {len(wrong)} failed")
    return not wrong


# ---- what it was --------------------------------------------------------------------------------------

def reveal(number):
    fault = load(number)
    for path, before, text in changed(fault):
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), text.splitlines(True), path,
                                                   f"{path}, mystery {number}", n=3))
    print(f"\n{fault['how']}\n\nThe course teaches it in {fault['page']}.")


# ---- the faults themselves ----------------------------------------------------------------------------

def new_lines(fault):
    """Lines that the right sources have not, not even with other spaces in front."""
    found = []
    for _, before, text in changed(fault):
        known = {line.strip() for line in before.splitlines()}
        found += [line.strip() for line in text.splitlines() if line.strip() not in known]
    return found


def found(command, words):
    """Whether a search finds any of the words."""
    def finds(some):
        patterns = [argument for word in some for argument in ("-e", word)]
        return subprocess.run([*command, "-F", *patterns], stdout=subprocess.DEVNULL, check=False).returncode == 0
    return next(word for word in words if finds([word])) if finds(words) else None


def is_hidden(number):
    fault = load(number)
    shutil.rmtree(FOLDER, ignore_errors=True)
    said = subprocess.run([sys.executable, __file__, "build", str(number)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True).stdout
    names = [os.path.basename(path) for path, _, _ in changed(fault)]
    secrets = new_lines(fault) + [fault["how"][:40]]
    if any(word in said for word in names + secrets):
        return f"the build says where it is:\n{said}"
    search = ["git", "grep", "-q", "--untracked"] if os.path.exists(".git") else ["grep", "-rq", "--exclude-dir=build", "."]
    if (word := found(search, secrets)):
        return f"a search finds {word}"
    expected = {program_of(number)} | {os.path.normpath(f"{program_of(number)}.files/{path}") for path in fault["files"]
                                       if not path.endswith("/")}
    there = {path for path in glob.glob(f"{FOLDER}/**", recursive=True) if os.path.isfile(path)}
    if there != expected:
        return f"below {FOLDER} there is {there ^ expected}"
    if (word := found(["grep", "-rqa", OUT], secrets)):
        return f"below {OUT} a search finds {word}"
    return None


def passes(number):
    with tempfile.TemporaryDirectory(prefix="mystery.") as folder:
        client = os.path.join(folder, "client.py")
        with open(client, "w", encoding="utf-8") as file:
            file.write(load(number)["client"])
        os.chmod(client, 0o755)
        return "\n".join(grade(number, client, at_once=AT_ONCE)) or None


def is_refused(number, client):
    try:
        grade(number, client, 1)
        return False
    except SystemExit as refusal:
        return str(refusal).startswith("mystery: the system cannot start")


def applies():
    failed = 0
    for number in numbers():
        try:
            if new_lines(load(number)) and os.path.exists(load(number)["page"]):
                continue
            print(f"mystery: FAILED: {number}: it changes nothing, or there is no {load(number)['page']}")
        except (SystemExit, OSError) as error:
            print(f"mystery: FAILED: {number}: {error}")
        failed += 1
    print(f"{len(numbers()) - failed} passed, {failed} failed")
    return not failed


def check(chosen):
    wrong = {}
    print("mystery: without CLIENT= this tests the faults, with the course's own clients, and not yours")
    for number in chosen or numbers():
        wrong[f"{number}, hidden"] = is_hidden(number)
        wrong[f"{number}, its client"] = passes(number)
        if not os.path.exists(load(number)["page"].split("#")[0]):
            wrong[f"{number}, its page"] = f"there is no {load(number)['page']}"
    for number in (chosen or numbers())[-1:]:  # which is still built
        for client in "true", "false":
            wrong[f"{number}, {client}"] = (None if len(grade(number, shutil.which(client), 2)) == 2 else
                                            "a client that always says the same passes")
        wrong[f"{number}, no client"] = None if is_refused(number, __file__.replace("mystery.py", "1.fault")) else "it is played"
    shutil.rmtree(FOLDER, ignore_errors=True)
    failed = [name for name in wrong if wrong[name]]
    for name in failed:
        print(f"mystery: FAILED: {name}: {wrong[name]}")
    print(f"{len(wrong) - len(failed)} passed, {len(failed)} failed")
    return not failed


def main():
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "test":
        sys.exit(not test(int(arguments[0]), arguments[1]))
    if verb == "check":
        sys.exit(not check([int(number) for number in arguments]))
    if verb == "applies":
        sys.exit(not applies())
    if verb == "pack":
        pack(arguments[0], int(arguments[1]))
    elif verb == "unpack":
        unpack(int(arguments[0]), arguments[1])
    else:
        {"build": build, "reveal": reveal}[verb](int(arguments[0]))


if __name__ == "__main__":
    main()
