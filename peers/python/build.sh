#!/bin/sh
# Builds the folder build/wirelab-peer-python: the program `start`, and `lib` beside it with
# all that it imports. The folder may be moved as a whole.
set -e
cd "$(dirname "$0")"
proto=proto # in a copy that wirelab builds
[ -d "$proto" ] || proto=../proto
out=build/wirelab-peer-python
rm -rf build
install_into() {
	python3 -m pip install --disable-pip-version-check --root-user-action=ignore \
		--require-hashes --no-deps --only-binary=:all: --target "$1" --requirement "$2"
}
install_into "$out/lib" requirements.txt
install_into build/tools requirements-build.txt
PYTHONPATH=build/tools python3 -m grpc_tools.protoc --proto_path="$proto" \
	--python_out="$out/lib" --grpc_python_out="$out/lib" echo.proto ping.proto chat.proto
PYTHONPATH="$out/lib" python3 c_core.py >build/c_core.py
mv build/c_core.py "$out/lib"
cp start.py "$out/start"
chmod +x "$out/start"
