"""Whole tables as links that hold them."""

import base64
import io
import zipfile
from collections.abc import Mapping, Sequence

from dpscale.tables.row import Row
from dpscale.tables.tables import TABLES, written

_ROWS_IN_LINK = 500
_LINK_CHARACTERS = 6_000


def csv_link(name: str, rows: Sequence[Row]) -> str | None:
    """The whole table as a data URL of a ZIP file that holds `<name>.csv`, with 5 significant digits.

    None where that is too large for a page. The same table gives the same bytes: the file in it has no date.
    """
    if len(rows) > _ROWS_IN_LINK:
        return None
    kind = TABLES[name] if name in TABLES else type(rows[0])
    link = zip_link({f"{name}.csv": written(kind, rows, float_format="%.5g")})
    return link if len(link) <= _LINK_CHARACTERS else None


def zip_link(files: Mapping[str, str]) -> str:
    """Texts by the names of their files, as a data URL of a ZIP file that holds them."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED, 9)
    return f"data:application/zip;base64,{base64.b64encode(packed.getvalue()).decode()}"
