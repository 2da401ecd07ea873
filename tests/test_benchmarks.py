"""Results of benchmarks name the commit that they were computed with."""

import subprocess

import pytest

from benchmarks import __main__ as command


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one file of code, and the function that runs git in it."""

    def git(*words):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    monkeypatch.setattr(command, "HERE", tmp_path / "benchmarks")
    for folder in ("src", "benchmarks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "part.py").write_text("one = 1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Begin")
    return git


def test_a_result_names_its_commit(checkout):
    head = checkout("rev-parse", "--short=12", "HEAD")
    assert f"commit {head};" in command.computed_with()


def test_a_result_of_changed_code_says_so(checkout, tmp_path):
    (tmp_path / "src" / "part.py").write_text("one = 2\n")
    head = checkout("rev-parse", "--short=12", "HEAD")
    assert f"commit {head}+;" in command.computed_with()


def test_outside_a_checkout_no_commit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "HERE", tmp_path / "benchmarks")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "outside a git checkout" in command.computed_with()


def test_a_result_is_kept_with_its_commit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "HERE", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    module = type("Module", (), {"main": staticmethod(lambda: "# Title\n\ntable\n")})
    monkeypatch.setattr(command, "names", lambda: ["quick"])
    monkeypatch.setattr(command.importlib, "import_module", lambda name: module)
    command.main(["quick"])
    kept = (tmp_path / "results" / "quick.md").read_text()
    assert kept.startswith("# Title\n\ntable\n\nComputed outside a git checkout; Python ")
    assert kept in capsys.readouterr().out
