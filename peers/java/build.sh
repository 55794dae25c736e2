#!/bin/sh
# Builds build/wirelab-peer-java: one file, a shell script with the jar behind it.
set -e
cd "$(dirname "$0")"
mvn --batch-mode --no-transfer-progress package "$@"
mkdir -p build
cat src/main/sh/start.sh target/wirelab-peer-java-1.jar >build/wirelab-peer-java
chmod +x build/wirelab-peer-java
