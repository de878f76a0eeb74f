"""Prepares a Python kernel for the daemon. Runs once in a fresh kernel, as a module of its own that nothing of the user's sees.

The daemon puts into it before: SOURCES, the modules of agent_skills by name.
"""

import asyncio
import collections
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import signal
import sys
import threading
import time

SOURCES = globals().get("SOURCES", {})

SKILLS = "openhands.runtime.plugins.agent_skills"
# Every package on the way to the skills, which are here in memory only.
PARENTS = ["openhands", "openhands.runtime", "openhands.runtime.plugins", SKILLS]

# Announces changed variables to the daemon, which gives them to a successor of this kernel.
ENVIRONMENT_MIME = "application/x-actiond-environment+json"
STATE_MIME = "application/x-actiond-state+json"
# More than this is not carried over.
MAX_ENVIRONMENT_CHARS = 1_000_000

_seen = {}


class SkillsFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what no other finder has: an installed package of the same name comes first."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in PARENTS:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        prefix, _, name = fullname.rpartition(".")
        if prefix == SKILLS and name in SOURCES:
            return importlib.machinery.ModuleSpec(fullname, self, origin=f"<agent_skills/{name}.py>")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__.rpartition(".")[2]
        if module.__name__ in PARENTS or name not in SOURCES:
            return
        origin = f"<agent_skills/{name}.py>"
        source = SOURCES[name]
        # For tracebacks.
        linecache.cache[origin] = (len(source), None, source.splitlines(True), origin)
        exec(compile(source, origin, "exec"), module.__dict__)


class State:
    """What the daemon is answered; a value of its own kind, so that it needs no quoting."""

    def __init__(self, **values):
        self.values = values

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {STATE_MIME: self.values}


def load_skills(namespace, hidden):
    import importlib

    skills = importlib.import_module(f"{SKILLS}.agentskills")
    names = {name: getattr(skills, name) for name in skills.__all__}
    namespace.update(names)
    hidden.update(names)


def set_up(with_skills):
    shell = sys.modules["IPython"].get_ipython()
    sys.meta_path.append(SkillsFinder())
    try:
        shell.run_line_magic("colors", "nocolor")
    except Exception:
        pass
    own_directory = os.path.dirname(sys.executable)
    if own_directory not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [own_directory, os.environ.get("PATH")]))
    keep_all_messages(sys.stdout)
    turns = Turns()
    for stream in (sys.stdout, sys.stderr):
        improve(stream, turns)
    keep_streams(shell)
    keep_no_outputs(shell)
    interrupt_awaiting_cells(shell.kernel)
    shell.events.register("pre_run_cell", turns.begin_cell)
    keep_output_of_exit()
    keep_output_of_threads(shell)
    _seen.update(os.environ)
    shell.events.register("post_run_cell", announce_environment)
    problem = ""
    if with_skills:
        try:
            load_skills(shell.user_ns, shell.user_ns_hidden)
        except Exception as error:
            problem = f"agent_skills: {error!r}"
    return State(executable=sys.executable, pid=os.getpid(), problem=problem)


def enter(directory, changes):
    """Follows the shell. directory: None to stay. changes: variables by name, None to remove."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = with_own_directory(value) if name == "PATH" else value
        if name in os.environ:
            _seen[name] = os.environ[name]
        else:
            _seen.pop(name, None)
    problem = ""
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            problem = error.strerror or str(error)
    if "TZ" in changes:
        time.tzset()
    return State(cwd=current_directory(), problem=problem)


def current_directory():
    try:
        return os.getcwd()
    except OSError:
        return ""


def with_own_directory(path):
    """`!pip` and `!python` mean this kernel's own, whatever the shell's PATH is."""
    own = os.path.dirname(sys.executable)
    return path if own in path.split(os.pathsep) else os.pathsep.join([own, path])


def announce_environment(result=None):
    now = dict(os.environ)
    if now == _seen:
        return
    changes = {name: now.get(name) for name in now.keys() | _seen.keys() if now.get(name) != _seen.get(name)}
    _seen.clear()
    _seen.update(now)
    # Values that cannot be text of the protocol stay with this kernel.
    changes = {name: value for name, value in changes.items() if is_text(name) and is_text(value)}
    if sum(len(value or "") for value in changes.values()) > MAX_ENVIRONMENT_CHARS:
        return
    shell = sys.modules["IPython"].get_ipython()
    shell.display_pub.publish({ENVIRONMENT_MIME: changes})


def is_text(value):
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        return False
    return True


def keep_all_messages(stream):
    """A kernel that is faster than its readers waits for them; by default it would drop what it cannot send."""
    import zmq

    thread = stream.pub_thread
    # The socket belongs to that thread.
    thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))


# One message of the protocol holds at most this much text.
PIECE_CHARS = 1024 * 1024
# A line is sent at once when none was for so long, and the first one of each cell; the stream's own interval is 0.2 s.
FLUSH_SECONDS = 0.03
SEND_SECONDS = 0.001


# Changes between stdout and stderr that keep their order, a second; each costs a third of a millisecond.
TURNS_PER_SECOND = 300


class Turns:
    """The stream that was written to last, shared by stdout and stderr."""

    def __init__(self):
        self.stream = None
        self.left = TURNS_PER_SECOND
        self.since = 0.0
        self.flushed = 0.0

    def begin_cell(self, info=None):
        self.flushed = 0.0

    def take(self, stream, now):
        """The other stream, when what is in it has to go first."""
        before, self.stream = self.stream, stream
        if before is None or before is stream:
            return None
        if now - self.since > 1:
            self.since, self.left = now, TURNS_PER_SECOND
        self.left -= 1
        return before if self.left >= 0 else None


def improve(stream, turns):
    """Text is shown sooner and in its order, in messages of bounded size, and whatever it consists of."""
    write = stream.write

    def write_pieces(text):
        if not isinstance(text, str):
            return write(text)
        now = time.monotonic()
        other = turns.take(stream, now)
        if other is not None:
            other.flush()
        plain = text if text.isascii() else encodable(text)
        if len(plain) > PIECE_CHARS:
            for at in range(0, len(plain), PIECE_CHARS):
                write(plain[at : at + PIECE_CHARS])
                stream.flush()
            return len(text)
        write(plain)
        # print() writes the end of the line by itself.
        if now - turns.flushed > FLUSH_SECONDS and plain.endswith("\n"):
            stream.flush()
            turns.flushed = time.monotonic()
            # The sender's thread gets on: what was printed is told even if the next line ends the process.
            time.sleep(SEND_SECONDS)
        return len(text)

    stream.write = write_pieces


class Forgetful(collections.defaultdict):
    """Lists by number, each of which is new and kept by nobody."""

    def __missing__(self, key):
        return []


def keep_no_outputs(shell):
    """The shell collects all that is shown, for an export of the session; without a history that is one entry, which only grows."""
    manager = shell.history_manager
    if hasattr(manager, "outputs"):
        manager.outputs = Forgetful(list)


STREAMS = ("stdout", "stderr")


def keep_streams(shell):
    """Without a stream that can be written to, the kernel fails before and behind the code of a cell, and never replies."""
    own = {name: getattr(sys, name) for name in STREAMS}
    for stream in own.values():
        # Nobody could open it again.
        stream.close = stream.flush

    def restore(told):
        gone = [name for name in STREAMS if not is_writable(getattr(sys, name, None))]
        for name in gone:
            setattr(sys, name, own[name])
        if gone and told:
            names = " and ".join(f"sys.{name}" for name in gone)
            print(f"[{names} could not be written to: it is the kernel's own again.]", file=own["stderr"])

    shell.events.register("post_execute", lambda: restore(True))
    # A thread may do so between two cells.
    before = shell.kernel.pre_handler_hook

    def pre_handler_hook():
        restore(False)
        # The kernel tells only the streams that are in place which cell runs.
        for stream in own.values():
            stream.set_parent(shell.get_parent())
        before()

    shell.kernel.pre_handler_hook = pre_handler_hook


def is_writable(stream):
    try:
        return callable(stream.write) and callable(stream.flush) and not getattr(stream, "closed", False)
    except Exception:
        return False


def interrupt_awaiting_cells(kernel):
    """A cell that awaits is cancelled at once; the kernel's own way waits until something else wakes its loop."""
    if hasattr(kernel, "_cancel_on_sigint"):
        kernel._cancel_on_sigint = cancelled_by_interrupt


@contextlib.contextmanager
def cancelled_by_interrupt(cell):
    """cell: the task that runs it."""
    loop = asyncio.get_running_loop()
    is_again = False

    def on_interrupt(number, frame):
        nonlocal is_again
        running = asyncio.current_task(loop)
        if running is cell and runs_code_of_cell(frame):
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(cell.cancel)
        # Another task of the user's that keeps the loop from coming to it.
        if is_again and running is not None and running is not cell:
            raise asyncio.CancelledError
        is_again = True

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def runs_code_of_cell(frame):
    """Whether it is the shell's own function for that which an exception reaches first, and not the kernel's loop."""
    while frame is not None:
        if frame.f_code.co_name == "run_code":
            return True
        frame = frame.f_back
    return False


def encodable(text):
    """Halves of surrogate pairs as escapes: a message with one would be lost as a whole."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()


def keep_output_of_threads(shell):
    """What a thread prints belongs to the cell that has started it, not to the one that runs by then."""
    if not hasattr(shell, "set_thread_parent"):
        return
    start = threading.Thread.start

    def start_for_cell(thread):
        parent = shell.get_parent()
        run = thread.run

        def run_for_cell():
            thread.__dict__.pop("run", None)
            shell.set_thread_parent(parent)
            run()

        thread.run = run_for_cell
        return start(thread)

    threading.Thread.start = start_for_cell


def keep_output_of_exit():
    """os._exit skips what is still buffered; a cell that ends so has printed it nevertheless."""
    leave = os._exit
    own = os.getpid()

    def _exit(status):
        if os.getpid() == own:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            # The messages are with the sender's thread now, which nobody can wait for.
            time.sleep(0.05)
        leave(status)

    os._exit = _exit
