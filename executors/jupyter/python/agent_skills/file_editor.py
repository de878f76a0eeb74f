"""The editor as a function (V0 §6.5, §7.5). It has the kernel's permissions and an undo history of its own."""

import codecs
import json
import os
import stat
import tempfile
import uuid

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_SNIPPET_CHARS = 16_000
CONTEXT_LINES = 4
MAX_HISTORY = 10
# A file is binary when these first bytes hold a NUL, as version control systems see it.
SNIFF_BYTES = 8192

TEXT_NOTICE = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to find "
    "the line numbers of what you are looking for.</NOTE>"
)
DIRECTORY_NOTICE = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. "
    "You should use `ls -la` instead to view large directories incrementally.</NOTE>"
)
REVIEW_REPLACED = (
    "Review the changes and make sure they are as expected. Edit the file again if necessary."
)
REVIEW_INSERTED = (
    "Review the changes and make sure they are as expected (correct indentation, no duplicate lines, etc). "
    "Edit the file again if necessary."
)
COMMANDS = ["view", "create", "str_replace", "insert", "undo_edit"]

_history = {}


class EditorError(Exception):
    """What the caller did wrong."""


def file_editor(
    command,
    path,
    file_text=None,
    view_range=None,
    old_str=None,
    new_str=None,
    insert_line=None,
    enable_linting=False,
):
    """Views, creates and edits a file.

    command: one of view, create, str_replace, insert, undo_edit. path: absolute.
    file_text: content, for create. view_range: first and last line, for view. old_str, new_str: for str_replace.
    insert_line: line after which new_str is inserted, for insert. enable_linting: accepted, without effect.
    Returns a marked JSON object; its formatted_output_and_error is the text for people.
    """
    path = str(path)
    try:
        result = _run(command, path, file_text, view_range, old_str, new_str, insert_line)
        fields = {
            "output": result["output"],
            "error": None,
            "path": path,
            "prev_exist": result.get("prev_exist", True),
            "old_content": result.get("old_content"),
            "new_content": result.get("new_content"),
            "formatted_output_and_error": result["output"],
        }
    except EditorError as error:
        fields = {"output": None, "error": str(error), "formatted_output_and_error": f"ERROR:\n{error}"}
    marker = f"oh_aci_output_{uuid.uuid4().hex}"
    return f"<{marker}>\n{json.dumps(fields, indent=2)}\n</{marker}>"


def _run(command, path, file_text, view_range, old_str, new_str, insert_line):
    _check_path(command, path)
    if command == "view":
        return {"output": _view(path, view_range)}
    if command == "create":
        return _create(path, _required("file_text", file_text, command))
    if command == "str_replace":
        old = _required("old_str", old_str, command)
        if old == new_str:
            raise _invalid(
                "new_str", new_str, "No replacement was performed. `new_str` and `old_str` must be different."
            )
        return _change(path, lambda text: _replace(path, text, old, new_str or ""))
    if command == "insert":
        line = _required("insert_line", insert_line, command)
        new = _required("new_str", new_str, command)
        return _change(path, lambda text: _insert(path, text, line, new))
    if command == "undo_edit":
        return _undo(path)
    raise EditorError(
        f"Unrecognized command {command}. The allowed commands for the oh_editor tool are: {', '.join(COMMANDS)}"
    )


def _invalid(name, value, hint):
    return EditorError(f"Invalid `{name}` parameter: {value}. {hint}")


def _required(name, value, command):
    if value is None:
        raise EditorError(f"Parameter `{name}` is required for command: {command}.")
    return value


def _check_path(command, path):
    if not os.path.isabs(path):
        raise _invalid("path", path, "The path should be an absolute path, starting with `/`.")
    try:
        os.stat(path)
        exists = True
    except (FileNotFoundError, NotADirectoryError):
        exists = False
    except OSError as error:
        raise EditorError(f"Ran into {error} while trying to {_purpose(command)} {path}") from error
    if command == "create":
        if exists:
            raise _invalid(
                "path", path, f"File already exists at: {path}. Cannot overwrite files using command `create`."
            )
        return
    if not exists:
        raise _invalid("path", path, f"The path {path} does not exist. Please provide a valid path.")
    if command != "view" and os.path.isdir(path):
        raise _invalid(
            "path", path, f"The path {path} is a directory and only the `view` command can be used on directories."
        )


def _purpose(command):
    return "read" if command == "view" else "write to"


def _read_bytes(path):
    try:
        size = os.stat(path).st_size
        if size > MAX_FILE_BYTES:
            raise EditorError(
                f"File validation failed for {path}: File is too large ({size / 1024 / 1024:.1f}MB). "
                f"Maximum allowed size is {MAX_FILE_BYTES // 1024 // 1024}MB."
            )
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise EditorError(f"Ran into {error} while trying to read {path}") from error
    if b"\0" in data[:SNIFF_BYTES]:
        raise EditorError(
            f"File validation failed for {path}: File appears to be binary and this file type cannot be read "
            "or edited by this tool."
        )
    return data


def _encoding(data):
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    try:
        data.decode()
        return "utf-8"
    except UnicodeDecodeError:
        pass
    try:
        from charset_normalizer import from_bytes

        best = from_bytes(data).best()
        if best is not None:
            return best.encoding
    except ImportError:
        pass
    return "latin-1"


def _read(path):
    """Text with its own line ends, and the encoding."""
    data = _read_bytes(path)
    encoding = _encoding(data)
    return data.decode(encoding), encoding


def _write(path, text, encoding="utf-8"):
    """By replacement where the directory allows it, so that a full disk does not cost the file."""
    try:
        data = text.encode(encoding)
        target = os.path.realpath(path)
        if os.path.exists(target) and (os.stat(target).st_nlink > 1 or not _replace_whole(target, data)):
            with open(target, "wb") as file:
                file.write(data)
        elif not os.path.exists(target):
            with open(target, "xb") as file:
                file.write(data)
    except (OSError, UnicodeEncodeError) as error:
        raise EditorError(f"Ran into {error} while trying to write to {path}") from error


def _replace_whole(target, data):
    """False when that cannot keep the owner, or the directory takes no files."""
    info = os.stat(target)
    if info.st_uid != os.geteuid() or not os.access(target, os.W_OK):
        return False
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".edit-")
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chown(temporary, -1, info.st_gid)
        os.chmod(temporary, stat.S_IMODE(info.st_mode))
        os.replace(temporary, target)
        return True
    except OSError:
        os.unlink(temporary)
        return False


def _plain(text):
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clip(text, notice):
    return text if len(text) <= MAX_SNIPPET_CHARS else text[:MAX_SNIPPET_CHARS] + notice


def _numbered(snippet, what, first=1):
    lines = _clip(snippet, TEXT_NOTICE).split("\n")
    body = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))
    return f"Here's the result of running `cat -n` on {what}:\n{body}\n"


def _view(path, view_range):
    if os.path.isdir(path):
        if view_range:
            raise _invalid(
                "view_range",
                view_range,
                "The `view_range` parameter is not allowed when `path` points to a directory.",
            )
        return _view_directory(path)
    text = _plain(_read(path)[0])
    if not view_range:
        return _numbered(text, path)
    if len(view_range) != 2 or not all(isinstance(line, int) for line in view_range):
        raise _invalid("view_range", view_range, "It should be a list of two integers.")
    lines = text.split("\n")
    total = len(lines) - 1 if text.endswith("\n") else len(lines)
    first, last = view_range
    if not 1 <= first <= total:
        raise _invalid(
            "view_range",
            view_range,
            f"Its first element `{first}` should be within the range of lines of the file: {[1, total]}.",
        )
    note = ""
    if last > total:
        note = f"NOTE: We only show up to {total} since there're only {total} lines in this file.\n"
    last = total if last == -1 or last > total else last
    if last < first:
        raise _invalid(
            "view_range",
            view_range,
            f"Its second element `{last}` should be greater than or equal to the first element `{first}`.",
        )
    return note + _numbered("\n".join(lines[first - 1 : last]), path, first)


def _view_directory(path):
    try:
        names = os.listdir(path)
    except OSError as error:
        raise EditorError(f"Ran into {error} while trying to read {path}") from error
    entries = [_entry(path)]
    for name in names:
        if name.startswith("."):
            continue
        below = os.path.join(path, name)
        entries.append(_entry(below))
        if os.path.isdir(below):
            try:
                entries += [_entry(os.path.join(below, n)) for n in os.listdir(below) if not n.startswith(".")]
            except OSError:
                pass
    listing = _clip("\n".join(sorted(entries)), DIRECTORY_NOTICE)
    text = f"Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{listing}"
    hidden = sum(name.startswith(".") for name in names)
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return text


def _entry(path):
    return path.rstrip("/") + "/" if os.path.isdir(path) else path


def _create(path, text):
    _write(path, text)
    _remember(path, text, "utf-8")
    return {"output": f"File created successfully at: {path}", "prev_exist": False, "new_content": text}


def _change(path, change):
    text, encoding = _read(path)
    changed, output = change(text)
    _write(path, changed, encoding)
    _remember(path, text, encoding)
    return {"output": output, "old_content": text, "new_content": changed}


def _remember(path, text, encoding):
    states = _history.setdefault(os.path.realpath(path), [])
    states.append((text, encoding))
    del states[:-MAX_HISTORY]


def _undo(path):
    states = _history.get(os.path.realpath(path))
    if not states:
        raise EditorError(f"No edit history found for {path}.")
    current, _ = _read(path)
    text, encoding = states[-1]
    _write(path, text, encoding)
    states.pop()
    output = f"Last edit to {path} undone successfully. {_numbered(_plain(text), path)}"
    return {"output": output, "old_content": current, "new_content": text}


def _with_plain_ends(text):
    """A text that has CR LF throughout is edited with LF; one with mixed ends as it is. Returns the text and its line end."""
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return text.replace("\r\n", "\n"), "\r\n"
    return text, "\n"


def _positions(text, part):
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + max(1, len(part))) if at < len(text) else -1


def _replace(path, text, old, new):
    plain, end = _with_plain_ends(text)
    if end != "\n":
        old, new = _plain(old), _plain(new)
    places = list(_positions(plain, old))
    if not places:
        old, new = old.strip(), new.strip()
        places = list(_positions(plain, old))
    if not places:
        raise EditorError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        lines = sorted({plain.count("\n", 0, place) + 1 for place in places})
        raise EditorError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines {lines}. "
            "Please ensure it is unique."
        )
    place = places[0]
    changed = plain[:place] + new + plain[place + len(old) :]
    line = plain.count("\n", 0, place) + 1
    first = max(0, line - CONTEXT_LINES) + 1
    last = line + CONTEXT_LINES + new.count("\n")
    snippet = "\n".join(_plain(changed).split("\n")[first - 1 : last])
    output = f"The file {path} has been edited. {_numbered(snippet, f'a snippet of {path}', first)}{REVIEW_REPLACED}"
    return changed if end == "\n" else changed.replace("\n", end), output


def _insert(path, text, line, new):
    try:
        line = int(line)
    except (TypeError, ValueError):
        raise EditorError(f"Invalid insert_line value: '{line}'. Expected an integer.") from None
    plain, end = _with_plain_ends(text)
    lines = plain.split("\n")
    # What follows the last line end is no line.
    total = len(lines) - 1 if lines[-1] == "" else len(lines)
    if not 0 <= line <= total:
        raise _invalid("insert_line", line, f"It should be within the range of allowed values: {[0, total]}")
    added = (new if end == "\n" else _plain(new)).split("\n")
    rest = lines[line:] if line < len(lines) else [""]
    changed = "\n".join([*lines[:line], *added, *rest])
    first = max(0, line - CONTEXT_LINES) + 1
    last = min(total + len(added), line + CONTEXT_LINES + len(added))
    snippet = "\n".join(_plain(changed).split("\n")[first - 1 : last])
    output = (
        f"The file {path} has been edited. {_numbered(snippet, 'a snippet of the edited file', first)}{REVIEW_INSERTED}"
    )
    return changed if end == "\n" else changed.replace("\n", end), output
