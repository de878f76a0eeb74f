"""Looking at files through a window of lines, and searching (V0 §6.5). Everything is printed."""

import os

# Lines of a window.
WINDOW = 100
# More files than this are named as a number only.
MAX_MATCHING_FILES = 100

_file = None
_line = 1


def _error(message):
    print(f"ERROR: {message}")


def _read_lines(path):
    with open(path, errors="replace") as file:
        return [line.rstrip("\n") for line in file]


def _clamp(value, low, high):
    return max(low, min(value, high))


def _bounds(line, window, total, starts_at_line):
    """First and last line that are shown, from 1."""
    if starts_at_line:
        return _clamp(line, 1, total), min(total, line + window)
    half = max(1, window // 2)
    first = max(1, line - half)
    last = min(total, line + half)
    if first == 1:
        last = min(total, window)
    if last == total:
        first = max(1, total - window + 1)
    return first, last


def _show(line, window=WINDOW, starts_at_line=False, hint=False):
    lines = _read_lines(_file)
    total = max(1, len(lines))
    first, last = _bounds(line, window, total, starts_at_line)
    above = f"({first - 1} more lines above)" if first > 1 else "(this is the beginning of the file)"
    below = f"({total - last} more lines below)" if last < total else "(this is the end of the file)"
    numbered = [f"{number}|{lines[number - 1] if lines else ''}" for number in range(first, last + 1)]
    parts = [f"[File: {os.path.abspath(_file)} ({total} lines total)]", above, *numbered, below]
    if hint and last < total:
        parts.append(f"[Use `scroll_down` to view the next {WINDOW} lines of the file!]")
    print("\n".join(parts))


def _is_open():
    if _file is not None and os.path.isfile(_file):
        return True
    _error("No file open. Use the open_file function first.")
    return False


def _total():
    return max(1, len(_read_lines(_file)))


def open_file(path, line_number=1, context_lines=WINDOW):
    """Opens a file and shows the lines around one of them.

    path: str, line_number: int from 1, context_lines: int, at most 100
    """
    global _file, _line
    if not os.path.isfile(path):
        _error(f"File {path} not found.")
        return
    total = max(1, len(_read_lines(path)))
    if not isinstance(line_number, int) or not 1 <= line_number <= total:
        _error(f"Line number must be between 1 and {total}")
        return
    _file = os.path.abspath(path)
    _line = line_number
    window = _clamp(context_lines if context_lines is not None and context_lines >= 1 else WINDOW, 1, WINDOW)
    _show(_line, window, hint=True)


def goto_line(line_number):
    """Shows the lines around a line of the open file."""
    global _line
    if not _is_open():
        return
    total = _total()
    if not isinstance(line_number, int) or not 1 <= line_number <= total:
        _error(f"Line number must be between 1 and {total}.")
        return
    _line = line_number
    _show(_line)


def scroll_down():
    """Shows the next 100 lines of the open file."""
    _scroll(WINDOW)


def scroll_up():
    """Shows the 100 lines before in the open file."""
    _scroll(-WINDOW)


def _scroll(lines):
    global _line
    if not _is_open():
        return
    _line = _clamp(_line + lines, 1, _total())
    _show(_line, starts_at_line=True)


def _visible_files(directory):
    for root, _, names in os.walk(directory):
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.join(root, name)


def _matches_in(path, term):
    try:
        with open(path, errors="ignore") as file:
            return [(number, line.strip()) for number, line in enumerate(file, 1) if term in line]
    except OSError:
        return []


def search_dir(search_term, dir_path="./"):
    """Finds a text in all files below a directory, without hidden ones."""
    if not os.path.isdir(dir_path):
        _error(f"Directory {dir_path} not found")
        return
    found = {path: matches for path in _visible_files(dir_path) if (matches := _matches_in(path, search_term))}
    count = sum(len(matches) for matches in found.values())
    if count == 0:
        print(f'No matches found for "{search_term}" in {dir_path}')
        return
    if len(found) > MAX_MATCHING_FILES:
        print(f'More than {len(found)} files matched for "{search_term}" in {dir_path}. Please narrow your search.')
        return
    lines = [f"{path} (Line {number}): {text}" for path, matches in found.items() for number, text in matches]
    _print_matches(search_term, dir_path, lines)


def search_file(search_term, file_path=None):
    """Finds a text in a file, or in the open one."""
    path = _file if file_path is None else file_path
    if path is None:
        _error("No file specified or open. Use the open_file function first.")
        return
    if not os.path.isfile(path):
        _error(f"File {path} not found.")
        return
    lines = [f"Line {number}: {text}" for number, text in _matches_in(path, search_term)]
    _print_matches(search_term, path, lines)


def find_file(file_name, dir_path="./"):
    """Finds files by a part of their name."""
    if not os.path.isdir(dir_path):
        _error(f"Directory {dir_path} not found")
        return
    paths = [
        os.path.join(root, name) for root, _, names in os.walk(dir_path) for name in sorted(names) if file_name in name
    ]
    _print_matches(file_name, dir_path, paths)


def _print_matches(term, place, lines):
    if not lines:
        print(f'[No matches found for "{term}" in {place}]')
        return
    head = f'[Found {len(lines)} matches for "{term}" in {place}]'
    print("\n".join([head, *lines, f'[End of matches for "{term}" in {place}]']))
