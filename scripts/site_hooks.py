"""What MkDocs does not check of the pages, and one thing that it shows otherwise than GitHub: a hook of mkdocs.yml. Each warning fails the build,
which is strict."""

import logging
import re
from typing import Any

log = logging.getLogger("mkdocs.hooks.site_hooks")

CODE = re.compile(r"^ *```.*?^ *```$|<pre.*?</pre>", re.MULTILINE | re.DOTALL)
# Python-Markdown takes what has less than four spaces for a part of the list outside, or for no part of it at all.
SHALLOW = re.compile(r"^ {1,3}(?:[-*]|\d+\.) |\n\n {1,3}(?=\S)", re.MULTILINE)
# A list or a table that was not recognised: it follows a line of a paragraph, or the like.
PLAIN = re.compile(r"^(?:[-*]|\d+\.|\|) .*$", re.MULTILINE)
CELL = re.compile(r"<td.*?</td>", re.DOTALL)
ELSEWHERE = re.compile(r"<(?:script|link|img|iframe|source|video)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\s\"'>]*", re.IGNORECASE)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> None:
    """Lists are indented so that both GitHub and Python-Markdown understand them."""
    for found in SHALLOW.finditer(CODE.sub("", markdown)):
        log.warning("'%s': what belongs to an item of a list is indented by four spaces: %r", page.file.src_uri, found[0])


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """No markup is left, and a bar in the code of a table, which is written with a backslash, is shown without."""
    for found in PLAIN.finditer(CODE.sub("", html)):
        log.warning("'%s': a list or table that is none, for it has no empty line before: %r", page.file.src_uri, found[0])
    return CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def on_post_page(output: str, *, page: Any, **_: Any) -> None:
    """Readers' browsers fetch nothing from other servers."""
    for found in ELSEWHERE.finditer(output):
        log.warning("'%s': loads something from another server: %s", page.file.src_uri, found[0])
