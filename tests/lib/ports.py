"""Loopback ports for the private servers.

They are taken below the kernel's ephemeral range, so that no outgoing connection can sit on a server's port while
the server is stopped and started again.
"""
import random
import socket

LOWEST, HIGHEST = 15000, 32000


def free_ports(count):
    """count different loopback ports that nobody listens on."""
    found = []
    while len(found) < count:
        port = random.randint(LOWEST, HIGHEST)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
