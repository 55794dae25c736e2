#!/usr/bin/env bash
# Installs what the tests need and the machine lacks, where apt-get may be used
# without a question. What cannot be had is said and is no failure here: the
# tests that miss it say so themselves.
set -euo pipefail

# podman_compose installs podman-compose into bin, where it belongs to no Python of the machine.
podman_compose() {
  local folder=bin/podman-compose
  if [ ! -x $folder/bin/podman-compose ] && ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check \
    --target $folder podman-compose==1.6.0 PyYAML==6.0.4 python-dotenv==1.2.4; then
    rm -rf $folder
    echo "setup: pip could not install podman-compose; the test that needs it will say so" >&2
  fi
}
cd "$(dirname "$0")/.."
trap podman_compose EXIT

missing=()
# The race detector links through the C compiler.
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
# fastgrpc's server is called by them: nghttp2-client has nghttp and h2load.
command -v curl >/dev/null || missing+=(curl)
command -v h2load >/dev/null || missing+=(nghttp2-client)
# wrk calls servers of HTTP/1.1, as h2load does those of HTTP/2 and gRPC.
command -v wrk >/dev/null || missing+=(wrk)
# wirelab load is compared with the logs of these servers.
PATH=$PATH:/usr/sbin command -v nginx >/dev/null || missing+=(nginx-light)
command -v caddy >/dev/null || missing+=(caddy)
command -v node >/dev/null || missing+=(nodejs)
command -v javac >/dev/null || missing+=(default-jdk-headless)
# The probes' counts are compared with theirs.
command -v strace >/dev/null || missing+=(strace)
command -v bpftrace >/dev/null || missing+=(bpftrace)
command -v perf >/dev/null || [ -z "$(apt-cache search --names-only '^linux-perf$' 2>/dev/null)" ] || missing+=(linux-perf)
/usr/bin/python3 -c 'import grpc' 2>/dev/null || missing+=(python3-grpcio)
# The container image is built with it, which needs no daemon and no registry.
command -v buildah >/dev/null || missing+=(buildah)
# The services of compose.yaml run with it, and find each other by name. Debian's podman-compose is
# too old to give a service its address.
command -v podman >/dev/null || missing+=(podman)
command -v runc >/dev/null || missing+=(runc)
[ -x /usr/lib/podman/netavark ] || missing+=(netavark)
[ -x /usr/lib/podman/aardvark-dns ] || missing+=(aardvark-dns)
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
# The peers in other languages are built with them; Rust's toolchain is not a package.
command -v cmake >/dev/null || missing+=(cmake)
command -v g++ >/dev/null || missing+=(g++)
command -v grpc_cpp_plugin >/dev/null && [ -e /usr/include/google/protobuf/message.h ] ||
  missing+=(libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc protobuf-compiler)
# The report page is opened in a real browser.
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)

if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: missing ${missing[*]}, and there is no apt-get: install them by hand" >&2
  exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "setup: missing ${missing[*]}, and not root: sudo apt-get install ${missing[*]}" >&2
    exit 0
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# The tests start their own servers. The packages would start them, too, as services on port 80.
if [ -d /run/systemd/system ]; then
  for server in nginx caddy; do
    [[ " ${missing[*]} " != *" $server"* ]] || "${as_root[@]}" systemctl mask "$server"
  done
fi
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null; then
  echo "setup: apt-get could not install ${missing[*]}; the tests that need them will say so" >&2
fi
