#!/bin/sh
# A jar may have anything before it.
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -jar "$0" "$@"
