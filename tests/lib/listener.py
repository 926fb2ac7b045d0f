"""A TCP server on a loopback port of its own, with a thread for each connection: what a test's peers stand on."""
import socketserver
import ssl
import threading


class Listener:
    """Used as a context manager. serve(connection) owns the connection; that the other side goes away is no error."""

    def __init__(self, serve):
        self._serve, self._server = serve, None

    @property
    def port(self):
        return self._server.server_address[1]

    def __enter__(self):
        serve = self._serve

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                try:
                    serve(self.request)
                except (OSError, ValueError):
                    pass

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def tls_context(folder, name="localhost", client_ca=None):
    """What a server needs that shows folder's certificate of that name; client_ca: who must have signed the client's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    if client_ca:
        context.load_verify_locations(folder / f"{client_ca}.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context
