"""The content of scripts/soak.py, and the servers that have it."""

import os
import random
import shutil
import subprocess
import zipfile

HTTP, GIT, RSYNC, SSH, HTTPS = 8080, 9418, 8730, 2222, 8443
WORDS = "the of link cache byte packet to a in is that for branch hub store frame token lane peer flow".split()


class Origins:
    """Content, and the servers that have it."""

    def __init__(self, soak):
        self.soak, self.rng = soak, random.Random(1)
        self.www = soak.path("www")
        for name in ("www/up", "www/simple/soaked", "tree"):
            os.makedirs(soak.path(name))
        self.files, self.wheels = [], {}
        self.text = [self.line() for _ in range(20000)]
        for _ in range(4):
            self.release()
        for number in range(60):
            with open(soak.path("tree", f"{number}.txt"), "w") as file:
                file.writelines(self.text[number * 200 : number * 200 + 400])
        os.chmod(self.www + "/up", 0o777)
        os.chmod(soak.dir, 0o755)
        self.serve()

    def line(self):
        return " ".join(self.rng.choices(WORDS, k=9)) + f" {self.rng.getrandbits(40):x}\n"

    def release(self):
        """The next version of everything that is downloaded. Files do not change once they have a name."""
        for _ in range(200):
            self.text[self.rng.randrange(len(self.text))] = self.line()
        number = len(self.wheels)
        text, noise = "".join(self.text).encode(), self.rng.randbytes(400_000)
        new = [f"text-{number}", f"noise-{number}", f"packed-{number}.gz"]
        for name, content in zip(new[:2], (text, noise)):
            with open(os.path.join(self.www, name), "wb") as file:
                file.write(content)
        with open(os.path.join(self.www, new[2]), "wb") as file:
            subprocess.run(["gzip", "-6nc"], input=text, stdout=file, check=True)
        self.files = self.files[-30:] + new
        name = f"soaked-1.{number}-py3-none-any.whl"
        info = f"soaked-1.{number}.dist-info"
        with zipfile.ZipFile(os.path.join(self.www, "simple/soaked", name), "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("soaked/data.txt", text)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: soaked\nVersion: 1.{number}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        self.wheels[number] = name
        with open(os.path.join(self.www, "simple/soaked/index.html"), "w") as file:
            file.writelines(f'<a href="{wheel}">{wheel}</a>\n' for wheel in self.wheels.values())

    def serve(self):
        dir = self.soak.dir
        temporary = "".join(f"{name}_temp_path {dir}/{name};" for name in "client_body proxy fastcgi uwsgi scgi".split())
        own = ["-nodes", "-keyout", self.soak.path("origin.key"), "-out", self.soak.path("origin.crt"), "-days", "2", "-subj", "/CN=origin"]
        own += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *own]
        subprocess.run(make, check=True, capture_output=True)
        with open(self.soak.path("nginx.conf"), "w") as file:
            file.write(
                f"user root; daemon off; master_process off; pid {dir}/nginx.pid; events {{ worker_connections 512; }}"
                f"http {{ access_log off; client_max_body_size 100m; types {{ text/html html; }} default_type application/octet-stream;"
                f" {temporary} server {{ listen 127.0.0.1:{HTTP}; root {dir}/www; index index.html;"
                f" location /up/ {{ dav_methods PUT DELETE; }} }}"
                f" server {{ listen 127.0.0.1:{HTTPS} ssl http2; ssl_certificate {dir}/origin.crt; ssl_certificate_key {dir}/origin.key;"
                f" root {dir}/www; }} }}\n"
            )
        with open(self.soak.path("rsyncd.conf"), "w") as file:
            file.write(
                f"use chroot = no\nport = {RSYNC}\naddress = 127.0.0.1\nuid = root\ngid = root\n"
                f"[tree]\npath = {dir}/tree\nread only = yes\n[up]\npath = {dir}/rsynced\nread only = no\n"
            )
        os.makedirs(self.soak.path("rsynced"))
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.soak.path(name)], check=True)
        os.makedirs("/run/sshd", exist_ok=True)
        with open(self.soak.path("sshd.conf"), "w") as file:
            file.write(
                f"ListenAddress 127.0.0.1:{SSH}\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/user.pub\nPidFile none\nStrictModes no\n"
                "UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
                "MaxStartups 100\n"
            )
        os.makedirs(self.soak.path("git"))
        start = self.soak.spawn
        start([shutil.which("nginx"), "-e", self.soak.path("nginx.log"), "-c", self.soak.path("nginx.conf")], "nginx.log", True)
        start(["rsync", "--daemon", "--no-detach", f"--config={self.soak.path('rsyncd.conf')}"], "rsync.log", True)
        start([shutil.which("sshd"), "-D", "-e", "-f", self.soak.path("sshd.conf")], "sshd.log", True)
        git = ["git", "daemon", f"--base-path={dir}/git", "--export-all", "--reuseaddr", "--listen=127.0.0.1", f"--port={GIT}"]
        start(git + ["--enable=receive-pack"], "git.log", True)
