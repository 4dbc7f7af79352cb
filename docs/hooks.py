"""What MkDocs needs for a search on pages that are read from the file system: our own stand-in for a
worker, `worker.js`, where its theme would load one from the network."""

import os
from typing import Any

_SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output: str, page: Any, config: Any) -> str:
    return output.replace(_SHIM, os.path.relpath("worker.js", os.path.dirname(page.url) or "."))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    return output_content.replace(_SHIM, "worker.js")
