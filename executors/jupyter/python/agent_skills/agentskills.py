"""All skills under one name (V0 §6.5)."""

import os

from openhands.runtime.plugins.agent_skills.file_editor import file_editor
from openhands.runtime.plugins.agent_skills.file_ops import (
    find_file,
    goto_line,
    open_file,
    scroll_down,
    scroll_up,
    search_dir,
    search_file,
)
from openhands.runtime.plugins.agent_skills.file_reader import parse_docx, parse_latex, parse_pdf, parse_pptx

__all__ = [
    "file_editor",
    "find_file",
    "goto_line",
    "open_file",
    "parse_docx",
    "parse_latex",
    "parse_pdf",
    "parse_pptx",
    "scroll_down",
    "scroll_up",
    "search_dir",
    "search_file",
]

# What needs a model exists only where one can be asked.
if os.environ.get("OPENAI_API_KEY") or os.environ.get("SANDBOX_ENV_OPENAI_API_KEY"):
    from openhands.runtime.plugins.agent_skills.media_reader import parse_audio, parse_image, parse_video

    __all__ += ["parse_audio", "parse_image", "parse_video"]

try:
    from openhands_aci.indexing.locagent.tools import (
        explore_tree_structure,
        get_entity_contents,
        search_code_snippets,
    )

    __all__ += ["explore_tree_structure", "get_entity_contents", "search_code_snippets"]
except Exception:
    pass

DOCUMENTATION = "\n\n".join(
    f"{name}: {(globals()[name].__doc__ or '').strip()}" for name in __all__
)
