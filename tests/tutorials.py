"""The tutorials: notebooks that are executed as they are and keep what they print; as a script, it renews them."""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))
_PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r(?=\n)")  # colors and cursor moves


def read(path: Path) -> NotebookNode:
    """Return a notebook as it is stored."""
    return nbformat.read(path, as_version=4)


def executed(path: Path, place: Path) -> NotebookNode:
    """Return a notebook with new outputs, executed in an empty directory.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell fails.
    """
    notebook = read(path)
    environment = os.environ | {
        "IPYTHONDIR": str(place / ".ipython"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # where `lifesafe` is
        "COLUMNS": "100",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # whatever a library has set for this process
        "TERM": "dumb",
        "TTY_COMPATIBLE": "0",  # no spinners
    }
    client = NotebookClient(
        notebook,
        timeout=900,
        iopub_timeout=120,  # a busy machine may take long to hand over a picture, which would be lost
        kernel_name="python3",
        resources={"metadata": {"path": str(place)}},
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute(env=environment)
    notebook.metadata = NotebookNode(_PYTHON)
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = NotebookNode()
        for output in cell.get("outputs", []):
            if "text" in output:
                output.text = _TERMINAL.sub("", output.text)
    return notebook


def outputs(cell: NotebookNode) -> list[str]:
    """Return what a cell has printed or returned as text, and the kind of every picture."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        pictures = [kind for kind in data if kind.startswith("image/")]
        found += pictures or [output["text"] if "text" in output else data.get("text/plain", output.output_type)]
    return found


if __name__ == "__main__":
    for tutorial in map(Path, sys.argv[1:]) if sys.argv[1:] else TUTORIALS:
        with tempfile.TemporaryDirectory() as directory:
            nbformat.write(executed(tutorial, Path(directory)), tutorial)
        print(tutorial.name)
