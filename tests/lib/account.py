"""The unprivileged account under which the private servers run.

PostgreSQL refuses to run as root and a test has no reason to: started by root the servers run as an existing
account without privileges, started by anybody else they run as that user.
"""
import os
import pwd

CANDIDATES = ("postgres", "nobody")


class Account:
    def __init__(self):
        self.switch = os.geteuid() == 0
        entry = _unprivileged() if self.switch else pwd.getpwuid(os.geteuid())
        self.name, self.uid, self.gid = entry.pw_name, entry.pw_uid, entry.pw_gid

    def own(self, path):
        """Hand a file or folder over to the account."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def prefix(self, die_with_parent=False):
        """The words in front of a command that make it run as the account."""
        words = ["setpriv"]
        if self.switch:
            words += [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        if die_with_parent:
            words += ["--pdeathsig=KILL"]
        return words if len(words) > 1 else []


def _unprivileged():
    for name in CANDIDATES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(f"no unprivileged account found, looked for {', '.join(CANDIDATES)}: "
                       "create one of them or run the tests as an ordinary user")
