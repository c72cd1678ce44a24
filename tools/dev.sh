#!/usr/bin/env bash
# Builds the extension with a CMake preset (dev unless named) and leaves it, with oneDNN, in
# python/megengine of this checkout, to be used with PYTHONPATH=python.
#
#   PYTHON=.venv/bin/python tools/dev.sh [preset] [ninja arguments]
#
# JOBS limits how many files are compiled at once (one for each CPU without it).
# $PYTHON (python3 without it) is the interpreter that it is built for; nanobind and oneDNN are taken
# from its environment. ccache is used where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-dev}"
shift || true

python="$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')"
PATH="$(dirname "$python"):$PATH"
tag="$("$python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')"
build="build/$preset-$tag"

options=("-DPython_EXECUTABLE=$python")
if command -v ccache >/dev/null; then
  # Paths relative to the checkout, so that several checkouts share their objects.
  export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
  options+=("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
fi
cmake --preset "$preset" -B "$build" "${options[@]}" --log-level=WARNING
nice cmake --build "$build" -j "${JOBS:-$(nproc)}" -- "$@"
cmake --install "$build" --prefix python >/dev/null
