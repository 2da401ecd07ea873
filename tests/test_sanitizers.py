"""The compiled loops touch no memory but their own, and do nothing that C++ leaves undefined."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src/regfactor/engine/native"
DRIVER = ROOT / "tests/native/sanitized.cpp"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def options():
    """Return the options of CMakeLists.txt under which the loops are built, but for the level."""
    flags = ["-std=c++17", "-O1", "-g", "-fopenmp-simd", "-fno-math-errno", *SANITIZED]
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append("-march=x86-64-v3")
    return flags


def run(*command):
    """Return how a command ended, with what it printed; leaks cannot be looked for in containers."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """A compiler whose sanitizers work here, and a processor that runs what it builds."""
    names = (os.environ.get("CXX"), "c++", "g++", "clang++")
    found = next((shutil.which(name) for name in names if name and shutil.which(name)), None)
    if found is None:
        pytest.skip("there is no C++ compiler: the compiled loops are not run under sanitizers")
    folder = tmp_path_factory.mktemp("sanitizers")
    source = folder / "empty.cpp"
    source.write_text("int main() { return 0; }\n", encoding="utf-8")
    built = run(found, *options(), source, "-o", folder / "empty")
    if built.returncode:
        pytest.skip(f"{found} has no address and undefined-behavior sanitizers: {built.stderr}")
    if run(folder / "empty").returncode:
        pytest.skip(f"what {found} builds with sanitizers does not run here")
    return found


def build(compiler, folder, source):
    program = folder / "sanitized"
    files = (source, NATIVE / "loops.cpp")
    built = run(compiler, *options(), "-I", NATIVE, *files, "-o", program)
    assert not built.returncode, built.stderr
    return program


def test_loops_pass_the_sanitizers(compiler, tmp_path):
    ended = run(build(compiler, tmp_path, DRIVER))
    assert not ended.returncode, ended.stderr
    assert "all loops agree" in ended.stdout


def test_sanitizers_see_an_array_that_is_too_short(compiler, tmp_path):
    """The test above can fail: memory of one number less is noticed."""
    short = tmp_path / "short.cpp"
    text = DRIVER.read_text(encoding="utf-8")
    shortened = text.replace(
        "memory(solve_rows_memory<T>(stride))", "memory(solve_rows_memory<T>(stride) - 1)"
    )
    assert shortened != text
    short.write_text(shortened, encoding="utf-8")
    ended = run(build(compiler, tmp_path, short))
    assert ended.returncode
    assert "heap-buffer-overflow" in ended.stderr


def test_every_loop_is_run():
    declared = re.findall(r"^(?:void|int64_t) (\w+)\(", (NATIVE / "loops.h").read_text(), re.M)
    driver = DRIVER.read_text(encoding="utf-8")
    assert len(declared) >= 6
    assert not [name for name in declared if not re.search(rf"\b{name}(<T>)?\(", driver)]
