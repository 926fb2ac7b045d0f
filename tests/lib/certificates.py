"""Certificates for tests, made by openssl: authorities, and what they sign."""
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# For OPENSSL_CONF: every protocol and cipher that the library still has.
PERMISSIVE = """\
openssl_conf = main
[main]
ssl_conf = ssl
[ssl]
system_default = system
[system]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
"""


def make(folder):
    """ca and stranger are authorities; ca signed localhost, expired and client. NAME.pem and NAME.key in folder."""
    make_ca(folder, "ca")
    make_ca(folder, "stranger")
    make_certificate(folder, "localhost")
    make_certificate(folder, "expired", days=-1)
    make_certificate(folder, "client")
    for file in folder.iterdir():
        file.chmod(0o644)  # the broker runs as another user
    return folder


def make_ca(folder, name):
    openssl("req", "-x509", *KEY, "-days", 2, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out",
            folder / f"{name}.pem")


def make_certificate(folder, name, days=2, ca="ca"):
    """A certificate for the DNS name localhost, whose subject is the name of the file."""
    request, extensions = folder / f"{name}.csr", folder / "extensions"
    extensions.write_text("subjectAltName = DNS:localhost\n")
    openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", folder / f"{ca}.pem", "-CAkey", folder / f"{ca}.key", "-CAcreateserial",
            "-days", days, "-extfile", extensions, "-out", folder / f"{name}.pem")


def openssl(*args, **more):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **more)
