"""A mail server of a few lines: takes mails apart, and answers as a test says."""
import email
import email.policy
import socketserver
import threading


class Mailbox:
    """refuse(command, argument) may give a reply such as "550 5.1.1 no such mailbox", else None."""

    def __init__(self, refuse=None):
        self.refuse = refuse or (lambda command, argument: None)
        self.mails = []  # (sender, recipients, message)
        self._server = None

    @property
    def url(self):
        return f"smtp://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                mailbox.serve(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def serve(self, stream, out):
        def say(text):
            out.write(text.encode() + b"\r\n")
            out.flush()

        say("220 here")
        sender, recipients = None, []
        while line := stream.readline():
            command, _, argument = line.decode().strip().partition(" ")
            command = command.upper()
            refusal = self.refuse(command, argument)
            if refusal:
                say(refusal)
            elif command in ("EHLO", "HELO"):
                say("250 here")
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
                return
            else:
                say("250 fine")


def address(argument):
    return argument[argument.index("<") + 1:argument.index(">")]
