"""Serves the Jupyter kernels API on a free port of the loopback interface, for the daemon that started it.

stdin: one JSON line {"token", "runtime_dir"}, then nothing; its end means that the daemon is gone, and everything here ends.
stdout: one JSON line {"port", "server"} when requests can be taken. stderr: the log.
Exit code 3: neither jupyter_kernel_gateway nor jupyter_server can be imported, or no kernel.
"""

import importlib.util
import json
import os
import socket
import sys
import threading

NOT_INSTALLED = 3
# Kernels listen on sockets in the private directory, not on ports that every account can reach; their names have a limit.
LONGEST_SOCKET_DIRECTORY = 50
# Cells and outputs of the daemon's own limits fit; tornado's default is 10 MiB.
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False


def give_up(text):
    print(text, file=sys.stderr)
    sys.exit(NOT_INSTALLED)


def set_nodelay():
    """Nagle's algorithm and delayed acknowledgements cost each small cell 40 ms; tornado turns it on again behind each request."""
    from tornado.iostream import IOStream

    set_one = IOStream.set_nodelay
    IOStream.set_nodelay = lambda self, value: set_one(self, True)


def settings(token, runtime_dir):
    from traitlets.config import Config

    config = Config()
    config.JupyterApp.answer_yes = True
    # The daemon watches kernels and replaces them itself.
    config.KernelManager.autorestart = False
    if len(runtime_dir) < LONGEST_SOCKET_DIRECTORY:
        config.KernelManager.transport = "ipc"
    # A limited rate is lost output.
    config.ZMQChannelsWebsocketConnection.limit_rate = False
    config.ZMQChannelsHandler.limit_rate = False
    config.KernelGatewayApp.auth_token = token
    config.KernelGatewayApp.ip = "127.0.0.1"
    config.KernelGatewayApp.log_level = "WARN"
    config.JupyterWebsocketPersonality.list_kernels = True
    config.IdentityProvider.token = token
    config.ServerApp.ip = "127.0.0.1"
    config.ServerApp.allow_root = True
    config.ServerApp.open_browser = False
    config.ServerApp.jpserver_extensions = {}
    config.ServerApp.port_retries = 50
    config.ServerApp.root_dir = "/"
    config.ServerApp.log_level = "WARN"
    config.ServerApp.tornado_settings = {"websocket_max_message_size": MAX_MESSAGE_BYTES}
    return config


def announce(port, name):
    """The line on stdout; afterwards stdout is closed for everybody: kernels inherit it and would hold it."""
    print(json.dumps({"port": port, "server": name}), flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


def serve_kernel_gateway(config, directories):
    from kernel_gateway import __version__
    from kernel_gateway.gatewayapp import KernelGatewayApp
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop
    from tornado.netutil import bind_sockets

    class Gateway(KernelGatewayApp):
        def init_http_server(self):
            self.web_app.settings["websocket_max_message_size"] = MAX_MESSAGE_BYTES
            sockets = bind_sockets(0, "127.0.0.1", family=socket.AF_INET)
            self.http_server = HTTPServer(self.web_app)
            self.http_server.add_sockets(sockets)
            self.port = sockets[0].getsockname()[1]
            IOLoop.current().add_callback(announce, self.port, f"jupyter_kernel_gateway {__version__}")

        def load_config_file(self, *args, **kwargs):
            """What the account has configured for its own servers is not for this one."""

    Gateway.launch_instance(argv=[], config=config, **directories)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_jupyter_server(config, directories):
    from jupyter_server import __version__
    from jupyter_server.serverapp import ServerApp
    from tornado.ioloop import IOLoop

    config.ServerApp.port = free_port()
    class Server(ServerApp):
        def load_config_file(self, *args, **kwargs):
            """As above."""

    app = Server.instance(config=config, **directories)
    app.initialize(argv=[], find_extensions=False)
    IOLoop.current().add_callback(lambda: announce(app.port, f"jupyter_server {__version__}"))
    app.start()


def first_line():
    """Not through sys.stdin, whose lock a thread may hold when the interpreter ends."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            sys.exit(1)
        line += piece
    return line


def end_with_daemon():
    """Kernels carry a mark by which the daemon finds them; when it is gone, the group must end without it."""
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    end_kernels()
    os._exit(0)


def end_kernels():
    import signal

    for child in children():
        # Each kernel is the leader of a session of its own, with whatever it started.
        for target in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
            try:
                target()
            except OSError:
                pass


def children():
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[1].decode() == own:
            yield int(name)


def main():
    gateway = is_installed("kernel_gateway")
    if not gateway and not is_installed("jupyter_server"):
        give_up("neither jupyter_kernel_gateway nor jupyter_server is installed")
    if not is_installed("ipykernel"):
        give_up("ipykernel is not installed")
    given = json.loads(first_line())
    threading.Thread(target=end_with_daemon, daemon=True).start()
    set_nodelay()
    # An account need not have a home directory to write to: what kernels keep there would be left among the temporary files by each
    # that is killed.
    if not os.access(os.path.expanduser("~"), os.W_OK):
        os.environ["JUPYTER_DATA_DIR"] = given["runtime_dir"]
        for variable, name in (("IPYTHONDIR", "ipython"), ("MPLCONFIGDIR", "matplotlib")):
            os.environ.setdefault(variable, os.path.join(given["runtime_dir"], name))
    config = settings(given["token"], given["runtime_dir"])
    directories = {"runtime_dir": given["runtime_dir"], "config_dir": given["runtime_dir"]}
    if gateway:
        serve_kernel_gateway(config, directories)
    else:
        serve_jupyter_server(config, directories)


if __name__ == "__main__":
    main()
