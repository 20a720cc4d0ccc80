#!/usr/bin/env python3
"""What scripts/soak.sh runs in a network namespace: see there.

Two pairs of ends carry the same mix. Nothing is ever done to the processes of "steady", so its memory, descriptors and threads must stay
flat; those of "rough" are killed, restarted and upgraded, drain in the background, and keep their caches on disk. Both open HTTPS. A
task may fail only if a disturbance that ends connections overlaps with it, and what it has received until then must be right. A restart
may only refuse connections, until the successor listens.
"""

import csv
import ctypes
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from soak_origins import GIT, HTTP, HTTPS, RSYNC, SSH, Origins

CLIENT, SERVER = "10.77.0.1", "10.77.0.2"
ENDS = ("serve", "connect")
# <linux/prctl.h>
PR_SET_CHILD_SUBREAPER = 36


def seconds(text):
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1])
    return int(text[:-1]) * unit if unit else int(text)


def call(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def until(what, ready, limit=90):
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > limit:
            raise RuntimeError(f"waited {limit} s in vain until {what}")
        time.sleep(0.1)


class Soak:
    def __init__(self, dir, programs):
        self.dir, self.programs = dir, programs
        self.begin = time.monotonic()
        self.stop = threading.Event()
        self.lock = threading.Lock()
        # (begin, end, pair or None for both, what, whether connections may end)
        self.disturbances = []
        self.tasks = []
        self.children = []
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        until("there is a second namespace", lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own)
        call("ip", "link", "add", "soak0", "type", "veth", "peer", "name", "soak1", "netns", str(self.holder.pid))
        for prefix, link, address in ((), "soak0", CLIENT), (self.there(), "soak1", SERVER):
            call(*prefix, "ip", "link", "set", "lo", "up")
            call(*prefix, "ip", "address", "add", f"{address}/24", "dev", link)
            call(*prefix, "ip", "link", "set", link, "up")

    def there(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def now(self):
        return time.monotonic() - self.begin

    def spawn(self, command, log, there=False):
        environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        with open(self.path(log), "ab") as file:
            command = (self.there() if there else []) + command
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
        with self.lock:
            self.children.append(child)
        return child

    def disturb(self, pair, what, ends, act):
        entry = [self.now(), float("inf"), pair, what, ends]
        with self.lock:
            self.disturbances.append(entry)
        try:
            act()
        finally:
            entry[1] = self.now()

    def end(self):
        self.stop.set()
        for child in self.children + [self.holder]:
            if child.poll() is None:
                child.terminate()
        for child in self.children + [self.holder]:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
        # Processes that still finish connections for a successor.
        with open(f"/proc/self/task/{threading.main_thread().native_id}/children") as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)


class Pair:
    def __init__(self, soak, origins, name, number):
        self.soak, self.origins, self.name = soak, origins, name
        self.rng = random.Random(number)
        self.ports = {origin: 10000 * (number + 1) + at for at, origin in enumerate((HTTP, GIT, RSYNC, SSH))}
        self.proxy = 10000 * (number + 1) + 99
        self.listen = 7001 + number
        self.program = {end: soak.programs[0] for end in ENDS}
        self.child, self.life = {}, {end: 0 for end in ENDS}
        self.extra = 0
        public = {end: call(soak.programs[0], "keygen", self.file(f"{end}.key")).split()[0] for end in ENDS}
        self.peers = {"serve": public["connect"], "connect": public["serve"]}
        rules = ", ".join(f'"127.0.0.1:{port}"' for port in self.ports)
        call(soak.programs[0], "ca", self.file("ca.key"), self.file("ca.crt"), "--only", "localhost")
        forward = ", ".join(f'"127.0.0.1:{way}:127.0.0.1:{port}"' for port, way in self.ports.items())
        special = {
            "serve": f'listen = ["{SERVER}:{self.listen}"]\nallow = [{rules}, "localhost:{HTTPS}"]\n'
            f'origin_ca = "{soak.path("origin.crt")}"\n',
            "connect": f'server = "{SERVER}:{self.listen}"\nforward = [{forward}]\nproxy = ["{self.proxy}"]\n'
            f'terminate = ["localhost:{HTTPS}"]\nca = "{self.file("ca.key")}"\n',
        }
        for end in ENDS:
            self.write_peers(end)
            with open(self.file(f"{end}.toml"), "w") as file:
                file.write(
                    f'key = "{self.file(end)}.key"\nauthorized_peers = "{self.file(end)}.peers"\nstatus = "{self.file(end)}.sock"\n'
                    f'history = "{self.file(end)}.history"\nmemory = "128M"\nadmin = "{8600 + self.listen}"\n'
                    'keep_alive = "4s"\ndead_after = "12s"\n' + special[end]
                    + (f'store = "{self.file(end)}.store"\nstore_size = "1G"\n' if name == "rough" else "")
                )
            self.start(end)
        self.established()

    def file(self, name):
        return self.soak.path(f"{self.name}-{name}")

    def write_peers(self, end):
        """With the key of a peer that never comes, each time another one."""
        self.extra += 1
        key = self.file("extra.key")
        if os.path.exists(key):
            os.remove(key)
        other = call(self.soak.programs[0], "keygen", key).split()[0]
        with open(self.file(f"{end}.peers"), "w") as file:
            file.write(f"{self.peers[end]} peer\n{other} absent-{self.extra}\n")

    def start(self, end):
        self.life[end] += 1
        command = [self.program[end], end, "--config", f"{self.file(end)}.toml"]
        command += ["--drain", "8m", "--drain-in-background"] if self.name == "rough" else ["--drain", "2s"]
        self.child[end] = self.soak.spawn(command, f"{self.name}-{end}.log", end == "serve")

    def status(self, end):
        try:
            return json.loads(call(self.soak.programs[0], "status", "--json", "--socket", f"{self.file(end)}.sock"))[0]
        except (subprocess.CalledProcessError, ValueError, IndexError):
            return None

    def is_established(self):
        status = self.status("connect")
        return bool(status) and any(one["phase"] == "established" and one["lanes_up"] for one in status["sessions"])

    def established(self):
        until(f"{self.name} has a session", self.is_established)

    def again(self, end, how):
        """Ends a process in this way and starts its successor."""
        child = self.child[end]
        child.send_signal(how)
        child.wait(30)
        self.start(end)
        self.established()

    def upgrade(self, end):
        old, new = self.soak.programs
        self.program[end] = new if self.program[end] == old else old
        self.again(end, signal.SIGTERM)

    def reload(self):
        for end in ENDS:
            self.write_peers(end)
            self.child[end].send_signal(signal.SIGHUP)

    def sample(self, end):
        pid = self.child[end].pid
        try:
            with open(f"/proc/{pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            with open(f"/proc/{pid}/stat") as file:
                stat = file.read().rsplit(")", 1)[1].split()
            cpu = (int(stat[11]) + int(stat[12])) * 1000 // os.sysconf("SC_CLK_TCK")
            return int(fields["VmRSS"].split()[0]), int(fields["Threads"]), len(os.listdir(f"/proc/{pid}/fd")), cpu
        except (OSError, KeyError, IndexError):
            return None

    def quiet(self):
        """Descriptors of both ends once no connection is open."""

        def flows(end):
            status = self.status(end)
            return sum(one["here"]["flows"] for one in status["sessions"]) if status else 1

        until(f"{self.name} has no connections", lambda: not any(map(flows, ENDS)))
        # Sockets are closed a moment after their connections.
        time.sleep(2)
        return {end: self.sample(end)[1:3] for end in ENDS}


class Worker(threading.Thread):
    """A program that is run again and again through a pair. Methods named `do_...` raise `Wrong` for wrong bytes."""

    def __init__(self, pair, kind, pause):
        super().__init__(daemon=True)
        self.pair, self.soak, self.kind, self.pause = pair, pair.soak, kind, pause
        self.origins = pair.origins
        self.rng = random.Random(f"{pair.name}{kind}")
        self.dir = self.soak.path(f"{pair.name}-{kind}")
        os.makedirs(self.dir)
        self.count = 0

    def run(self):
        while not self.soak.stop.is_set():
            self.once()
            self.soak.stop.wait(self.pause * self.rng.uniform(0.5, 1.5))

    def once(self):
        begin, self.bytes, self.count = self.soak.now(), 0, self.count + 1
        try:
            getattr(self, f"do_{self.kind}")()
            how = "ok"
        except Wrong as error:
            how = f"WRONG {error}"
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            text = getattr(error, "stderr", "") or ""
            how = f"failed {error.cmd[0]} {getattr(error, 'returncode', 'timeout')}: {str(text).strip()[-160:]}"
        with self.soak.lock:
            self.soak.tasks.append((begin, self.soak.now(), self.pair.name, self.kind, self.bytes, how))

    def same(self, got, wanted):
        """Counts what has been compared."""
        if not filecmp.cmp(got, wanted, shallow=False):
            raise Wrong(f"{got} is not {wanted}")
        self.bytes += os.path.getsize(wanted)

    def curl(self, url, wanted, *options):
        got = os.path.join(self.dir, "got")
        if os.path.exists(got):
            os.remove(got)
        try:
            call("curl", "-sS", "--fail", "--noproxy", "*", "-m", "150", "-o", got, *options, url)
        finally:
            self.prefix(got, wanted)
        self.same(got, wanted)

    def prefix(self, got, wanted):
        if os.path.exists(got):
            with open(got, "rb") as one, open(wanted, "rb") as two:
                content = one.read()
                if not two.read().startswith(content):
                    raise Wrong(f"{got} does not begin as {wanted}")

    def do_curl(self):
        name = self.rng.choice(self.origins.files)
        wanted, origin = os.path.join(self.origins.www, name), self.pair.ports[HTTP]
        how = self.rng.randrange(4)
        if how == 0:
            self.curl(f"http://127.0.0.1:{HTTP}/{name}", wanted, "--noproxy", "", "--socks5-hostname", f"127.0.0.1:{self.pair.proxy}")
        elif how == 1:
            target = f"{self.pair.name}-{self.count}"
            kept = os.path.join(self.origins.www, "up", target)
            call("curl", "-sS", "--fail", "--noproxy", "*", "-m", "150", "-T", wanted, f"http://127.0.0.1:{origin}/up/{target}")
            self.same(kept, wanted)
            os.remove(kept)
        else:
            self.curl(f"http://127.0.0.1:{origin}/{name}", wanted)

    def do_https(self):
        name, version = self.rng.choice(self.origins.files), self.rng.choice(("--http1.1", "--http2"))
        proxy = ("--noproxy", "", "--proxy", f"http://127.0.0.1:{self.pair.proxy}", "--cacert", self.pair.file("ca.crt"))
        self.curl(f"https://localhost:{HTTPS}/{name}", os.path.join(self.origins.www, name), version, *proxy)

    def do_slow(self):
        """Is open for half a minute or so, so that cuts meet it."""
        name = self.rng.choice(self.origins.files)
        wanted = os.path.join(self.origins.www, name)
        self.curl(f"http://127.0.0.1:{self.pair.ports[HTTP]}/{name}", wanted, "--limit-rate", "40k", "-m", "400")

    def git(self, *command, at="clone"):
        environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", GIT_TERMINAL_PROMPT="0")
        names = ["-c", "user.name=soak", "-c", "user.email=soak@example.invalid", "-c", "gc.auto=0", "-c", "safe.directory=*"]
        return call("git", *names, *command, cwd=os.path.join(self.dir, at), env=environment, timeout=200)

    def do_git(self):
        name = f"{self.pair.name}.git"
        bare, source, clone = self.soak.path("git", name), os.path.join(self.dir, "source"), os.path.join(self.dir, "clone")
        url = f"git://127.0.0.1:{self.pair.ports[GIT]}/{name}"
        if not os.path.exists(source):
            self.git("init", "-q", "--bare", bare, at=".")
            self.git("init", "-q", "-b", "main", source, at=".")
        with open(os.path.join(source, f"{self.rng.randrange(20)}.txt"), "w") as file:
            file.writelines(self.rng.sample(self.origins.text, 2000))
        self.git("add", "-A", at="source")
        self.git("commit", "-q", "-m", f"{self.count}", at="source")
        self.git("push", "-q", bare, "HEAD:refs/heads/main", at="source")
        if self.count % 5 == 1 and os.path.exists(clone):
            shutil.rmtree(clone)
        if not os.path.exists(os.path.join(clone, ".git")):
            shutil.rmtree(clone, ignore_errors=True)
            self.git("clone", "-q", "-b", "main", url, clone, at=".")
        self.git("fetch", "-q", "origin")
        self.git("reset", "-q", "--hard", "origin/main")
        self.git("fsck", "--full")
        if self.git("rev-parse", "HEAD") != self.git("rev-parse", "HEAD", at="source"):
            raise Wrong("git has another commit")
        for file in os.listdir(source):
            if file != ".git":
                self.same(os.path.join(clone, file), os.path.join(source, file))
        self.git("push", "-q", url, f"HEAD:refs/heads/back-{self.count % 7}", "--force")

    def do_rsync(self):
        tree, copy = self.soak.path("tree"), os.path.join(self.dir, "copy")
        own = os.path.join(self.dir, "own")
        if not os.path.exists(own):
            shutil.copytree(tree, own)
        for _ in range(5):
            with open(os.path.join(own, f"{self.rng.randrange(60)}.txt"), "a") as file:
                file.writelines(self.rng.sample(self.origins.text, 20))
        url, up = f"rsync://127.0.0.1:{self.pair.ports[RSYNC]}", f"up/{self.pair.name}"
        call("rsync", "-a", "--checksum", "--delete", "--timeout=200", f"{own}/", f"{url}/{up}/")
        self.trees(own, self.soak.path("rsynced", self.pair.name))
        if self.count % 6 == 0:
            shutil.rmtree(copy, ignore_errors=True)
        call("rsync", "-a", "--checksum", "--delete", "--timeout=200", f"{url}/{up}/", f"{copy}/")
        self.trees(own, copy)

    def trees(self, one, two):
        names = sorted(os.listdir(one))
        if names != sorted(os.listdir(two)):
            raise Wrong(f"{one} and {two} have other files")
        for name in names:
            self.same(os.path.join(two, name), os.path.join(one, name))

    def do_ssh(self):
        wanted = os.path.join(self.origins.www, self.rng.choice(self.origins.files))
        options = ["-F", "none", "-i", self.soak.path("user"), "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"]
        options += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"]
        got, port = os.path.join(self.dir, "got"), str(self.pair.ports[SSH])
        call("scp", "-q", "-P", port, *options, f"root@127.0.0.1:{wanted}", got, timeout=200)
        self.same(got, wanted)
        shell = " ".join(["ssh", "-p", port, *options])
        call("rsync", "-a", "--timeout=200", "-e", shell, got, f"root@127.0.0.1:{self.dir}/back")
        self.same(os.path.join(self.dir, "back"), wanted)

    def do_pip(self):
        number = self.rng.choice(list(self.origins.wheels)[-10:])
        wheel, target = self.origins.wheels[number], os.path.join(self.dir, "wheels")
        shutil.rmtree(target, ignore_errors=True)
        index = f"http://127.0.0.1:{self.pair.ports[HTTP]}/simple/"
        environment = dict(os.environ, PIP_CONFIG_FILE="/dev/null", no_proxy="*")
        options = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--timeout", "100", "--index-url", index, "-d", target]
        call(sys.executable, "-m", "pip", "download", "-q", *options, f"soaked==1.{number}", env=environment)
        self.same(os.path.join(target, wheel), os.path.join(self.origins.www, "simple/soaked", wheel))


class Wrong(Exception):
    """Bytes that are not those of the origin."""


def disturbances(soak, pairs, rng):
    """Endless: one after the other, in random order."""
    steady, rough = pairs

    def link(state):
        call(*soak.there(), "ip", "link", "set", "soak1", state)

    def cut(time_cut):
        link("down")
        soak.stop.wait(time_cut)
        link("up")
        for pair in pairs:
            pair.established()

    def reset():
        for pair in pairs:
            call("ss", "-K", "dst", SERVER, "dport", "=", f":{pair.listen}")
        for pair in pairs:
            pair.established()

    # Pair, name, whether connections may end, what to do.
    each = [
        (None, "cut 5 s", False, lambda: cut(5)),
        (None, "cut 25 s", "new", lambda: cut(25)),
        (None, "reset", False, reset),
        (steady, "reload", False, steady.reload),
        (rough, "reload", False, rough.reload),
    ]
    for end in ENDS:
        each += [
            (rough, f"kill -9 {end}", True, lambda end=end: rough.again(end, signal.SIGKILL)),
            (rough, f"restart {end}", "new", lambda end=end: rough.again(end, signal.SIGTERM)),
            (rough, f"upgrade {end}", "new", lambda end=end: rough.upgrade(end)),
        ]
    while True:
        yield from rng.sample(each, len(each))


def excused(soak, task):
    """The disturbance that may have ended the task, if there is one. A cut or a restart may only refuse what begins within it."""
    begin, end, pair, kind, _, how = task
    for start, over, whom, what, ends in soak.disturbances:
        if whom not in (None, pair) or not ends or end < start or begin > over + 2:
            continue
        # A download with curl is one connection; the other programs open several. Its status 7: there never was one.
        if ends is True or begin >= start or how.startswith("failed curl 7:") or kind not in ("curl", "https", "slow"):
            return what
    return None


def flat(samples, pair, end):
    """Maxima of the second and of the last quarter of the time: memory, threads, descriptors."""
    rows = [row for row in samples if row[1:3] == [pair, end]]
    quarter = len(rows) // 4
    parts = rows[quarter : 2 * quarter], rows[-quarter:]
    return [[max(row[column] for row in part) for part in parts] for column in (4, 5, 6)]


def verdict(soak, pairs, samples, before, after, length):
    problems = []
    count = {}
    for task in soak.tasks:
        pair, kind, size, how = task[2:]
        entry = count.setdefault(pair, {}).setdefault(kind, {"done": 0, "ended by a disturbance": 0, "failed": 0, "bytes": 0})
        entry["bytes"] += size
        if how == "ok":
            entry["done"] += 1
        elif how.startswith("failed") and excused(soak, task):
            entry["ended by a disturbance"] += 1
        else:
            entry["failed"] += 1
            problems.append(f"{pair} {kind} from {task[0]:.1f} to {task[1]:.1f} s: {how}")
    disturbed = {}
    for _, _, pair, what, _ in soak.disturbances:
        name = f"{pair or 'both'}: {what}"
        disturbed[name] = disturbed.get(name, 0) + 1
    record = {"seconds": round(length), "tasks": count, "disturbances": disturbed, "ends": {}}
    for pair in pairs:
        for end in ENDS:
            status = pair.status(end)
            sessions = status["sessions"]
            entry = {"lives": pair.life[end], "failed_frames": sum(one["here"]["failures"] for one in sessions)}
            entry["rss_max_kb"] = max(row[4] for row in samples if row[1:3] == [pair.name, end])
            entry["threads_descriptors_quiet"] = [before[pair.name][end], after[pair.name][end]]
            for name in ("application_sent_bytes", "application_received_bytes", "transport_sent_bytes", "transport_received_bytes"):
                entry[name] = status.get(name)
            if entry["failed_frames"]:
                problems.append(f"{pair.name} {end}: {entry['failed_frames']} frames failed to decode")
            if pair.name == "steady":
                memory, threads, descriptors = flat(samples, pair.name, end)
                entry["second_and_last_quarter"] = {"rss_kb": memory, "threads": threads, "descriptors": descriptors}
                entry["cpu_ms"] = [row for row in samples if row[1:3] == [pair.name, end]][-1][7]
                if memory[1] > memory[0] * 1.1 + 4096:
                    problems.append(f"steady {end}: memory grows from {memory[0]} to {memory[1]} kB")
                # Threads for files and names come and go.
                if threads[1] > threads[0] + 2:
                    problems.append(f"steady {end}: threads grow from {threads[0]} to {threads[1]}")
                (threads, opened), (threads_after, opened_after) = before["steady"][end], after["steady"][end]
                if threads_after > threads + 2 or opened_after != opened:
                    problems.append(f"steady {end}: threads and descriptors at rest were {before['steady'][end]}, are {after['steady'][end]}")
            record["ends"][f"{pair.name} {end}"] = entry
    record["problems"] = problems
    return record


def write(out, name, head, rows):
    with open(os.path.join(out, name), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def main():
    # Processes that end connections in the background become children of this one.
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
        sys.exit("soak.py: cannot adopt processes")
    length, given = seconds(sys.argv[1]), [os.path.realpath(name) for name in sys.argv[2:4]]
    if length < 60:
        sys.exit("soak.py: at least a minute, so that there are samples to compare")
    out = os.environ.get("OUT")
    dir = tempfile.mkdtemp(prefix="oncewire-soak-")
    programs = [shutil.copy2(name, os.path.join(dir, f"oncewire-{which}")) for which, name in zip(("old", "new"), given)]
    soak = Soak(dir, programs * 2 if len(programs) == 1 else programs)
    try:
        origins = Origins(soak)
        pairs = [Pair(soak, origins, name, number) for number, name in enumerate(("steady", "rough"))]
        kinds = {"curl": 1.5, "https": 2, "slow": 2, "git": 6, "rsync": 4, "ssh": 4, "pip": 8}
        workers = [Worker(pair, kind, pause) for pair in pairs for kind, pause in kinds.items()]
        # What opens descriptors for good does it now.
        for worker in workers:
            if worker.kind != "slow":
                worker.once()
        first = [task for task in soak.tasks if task[5] != "ok"]
        if first:
            raise RuntimeError(f"does not even work undisturbed: {first}")
        before = {pair.name: pair.quiet() for pair in pairs}
        samples, begin = [], soak.now()
        for worker in workers:
            worker.start()
        actions, rng = disturbances(soak, pairs, random.Random(3)), random.Random(4)
        acting, next_action, next_sample, next_release = None, begin + 15, begin, begin + 60
        while soak.now() - begin < length:
            now = soak.now()
            if now >= next_sample:
                next_sample = now + 10
                for pair in pairs:
                    for end in ENDS:
                        values = pair.sample(end)
                        if values:
                            samples.append([round(now, 1), pair.name, end, pair.life[end], *values])
                port = 8600 + pairs[0].listen
                call("curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/metrics")
            if now >= next_release:
                next_release = now + 60
                origins.release()
            if now >= next_action and (acting is None or not acting.is_alive()):
                pair, what, ends, act = next(actions)
                print(f"{now:7.1f} s  {pair.name if pair else 'both'}: {what}", flush=True)
                arguments = (pair.name if pair else None, what, ends, act)
                acting = threading.Thread(target=soak.disturb, args=arguments, daemon=True)
                acting.start()
                next_action = now + rng.uniform(15, 35)
            soak.stop.wait(0.5)
        if acting:
            acting.join()
        soak.stop.set()
        for worker in workers:
            worker.join(420)
        after = {pair.name: pair.quiet() for pair in pairs}
        record = verdict(soak, pairs, samples, before, after, length)
        for pair in pairs:
            for end in ENDS:
                report = call(programs[0], "report", "--history", f"{pair.file(end)}.history", "--since", "12h", "--json")
                record["ends"][f"{pair.name} {end}"]["history"] = json.loads(report).get("carried")
        print(json.dumps(record, indent=1))
        if out:
            os.makedirs(out, exist_ok=True)
            write(out, "samples.csv", "second pair end life rss_kb threads descriptors cpu_ms".split(), samples)
            write(out, "tasks.csv", "begin end pair program bytes how".split(), soak.tasks)
            write(out, "disturbances.csv", "begin end pair what may_end".split(), soak.disturbances)
            with open(os.path.join(out, "record.json"), "w") as file:
                json.dump(record, file, indent=1)
        print("soak:", "FAILED" if record["problems"] else "passed")
        return 1 if record["problems"] else 0
    finally:
        soak.end()
        if out:
            os.makedirs(out, exist_ok=True)
            for name in os.listdir(dir):
                if name.endswith(".log"):
                    shutil.copy(os.path.join(dir, name), out)
        shutil.rmtree(dir, ignore_errors=True)


sys.exit(main())
