"""Two network namespaces and a link between them, for scripts that measure; needs root."""

import os
import subprocess


def pair(addresses):
    """Makes them. Returns their names; each has an address of these two on its device ow0."""
    run = lambda *args: subprocess.run(args, check=True)
    near, far = f"ow-near-{os.getpid()}", f"ow-far-{os.getpid()}"
    for name in (near, far):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    run("ip", "link", "add", "ow0", "netns", near, "type", "veth", "peer", "name", "ow0", "netns", far)
    for name, address in zip((near, far), addresses):
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "ow0")
        run("ip", "-n", name, "link", "set", "ow0", "up")
    return near, far
