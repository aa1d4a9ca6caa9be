"""Plans as pictures."""

from __future__ import annotations

import os


class Plan:
    """What a query does, as a picture: sources above, what follows from them below. Made by :meth:`Relation.plan`."""

    def __init__(self, svg: str, text: str) -> None:
        #: The picture: SVG that stands by itself.
        self.svg = svg
        self._text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def _repr_html_(self) -> str:
        # A wide plan is scrolled, not shrunk.
        return f'<div style="overflow-x:auto">{self.svg}</div>'

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self._text
