"""What is read by an extra that is not installed names the extra, in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

CARD = (
    'kind = "{kind}"\npath = "x"\nchannels = 1\nclasses = ["x"]\nwindow = [0, 60]\npublic = true\n'
)
WITHOUT = "import sys; sys.modules[sys.argv[1]] = None; from covdp.cli import main; "


@pytest.mark.parametrize(
    ("package", "kind", "file"), [("pydicom", "dicom", "a.dcm"), ("nibabel", "nifti", "a.nii")]
)
@pytest.mark.parametrize("command", ["run --dataset card.toml --data-root .", "card x"])
def test_a_missing_extra_is_named(
    tmp_path: Path, package: str, kind: str, file: str, command: str
) -> None:
    """A card of DICOM or NIfTI, and a draft of one, where only a plain install is there."""
    (tmp_path / "x" / "x").mkdir(parents=True)
    (tmp_path / "x" / "x" / file).write_bytes(bytes(128) + b"DICM" + bytes(400))
    (tmp_path / "card.toml").write_text(CARD.format(kind=kind))
    code = f"{WITHOUT}sys.exit(main(sys.argv[2:]))"
    words = [sys.executable, "-c", code, package, *command.split()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"this needs {package}, which a plain installation does not have" in done.stderr
    assert "pip install 'covdp[hospital]'" in done.stderr


def test_tables_of_what_there_is_go_on_without(tmp_path: Path) -> None:
    """Descriptors, datasets and the help do not ask for an extra."""
    for command in ("descriptors", "datasets", "--help"):
        words = [sys.executable, "-c", f"{WITHOUT}sys.exit(main(sys.argv[2:]))", "pydicom", command]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
