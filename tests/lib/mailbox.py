"""A mail server of a few lines: takes mails apart, and answers as a test says."""
import email
import email.policy

from .listener import Listener


class Mailbox:
    """refuse(command, argument) may give a reply such as "550 5.1.1 no such mailbox", else None.

    tls is an ssl.SSLContext: it takes STARTTLS then, or with implicit nothing but TLS. login: it knows AUTH PLAIN.
    """

    def __init__(self, refuse=None, tls=None, implicit=False, login=False):
        self.refuse = refuse or (lambda command, argument: None)
        self.mails = []  # (sender, recipients, message)
        self.lines = []  # (was it sealed, what the client said)
        self._tls, self._implicit, self._login = tls, implicit, login
        self._listener = Listener(self._serve)

    @property
    def url(self):
        return self.url_as()

    def url_as(self, user=None):
        host = "localhost" if self._tls else "127.0.0.1"
        return f"smtp{'s' if self._implicit else ''}://{user + '@' if user else ''}{host}:{self._listener.port}"

    def __enter__(self):
        self._listener.__enter__()
        return self

    def __exit__(self, *_):
        self._listener.__exit__()

    def _serve(self, connection):
        if self._implicit:
            connection = self._tls.wrap_socket(connection, server_side=True)
        connection.sendall(b"220 here\r\n")
        with connection:
            if self._talk(connection, sealed=self._implicit):
                connection.sendall(b"220 go on\r\n")
                with self._tls.wrap_socket(connection, server_side=True) as inside:
                    self._talk(inside, sealed=True)

    def _talk(self, connection, sealed):
        """True: the client asks for TLS."""
        stream = connection.makefile("rb")

        def say(text):
            connection.sendall(text.encode() + b"\r\n")

        def hear():
            line = stream.readline()
            self.lines.append((sealed, line.decode().strip()))
            return line

        sender, recipients = None, []
        while line := hear():
            command, _, argument = line.decode().strip().partition(" ")
            command = command.upper()
            refusal = self.refuse(command, argument)
            if refusal:
                say(refusal)
            elif command == "EHLO":
                offers = ["STARTTLS"] * bool(self._tls and not sealed) + ["AUTH PLAIN"] * self._login
                say("\r\n".join(f"250-{offer}" for offer in offers) + "\r\n" * bool(offers) + "250 here")
            elif command == "HELO":
                say("250 here")
            elif command == "STARTTLS":
                return True
            elif command == "AUTH":
                say("334 ")
                hear()
                say("235 welcome")
            elif command == "MAIL":
                sender, recipients = address(argument), []
                say("250 go on")
            elif command == "RCPT":
                recipients.append(address(argument))
                say("250 go on")
            elif command == "DATA":
                say("354 go on")
                data = b"".join(iter(stream.readline, b".\r\n"))
                refusal = self.refuse("BODY", data)
                if not refusal:
                    self.mails.append((sender, recipients,
                                       email.message_from_bytes(data, policy=email.policy.default)))
                say(refusal or "250 taken")
            elif command == "QUIT":
                say("221 bye")
                return False
            else:
                say("250 fine")
        return False


def address(argument):
    return argument[argument.index("<") + 1:argument.index(">")]
