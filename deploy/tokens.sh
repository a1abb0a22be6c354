#!/bin/sh
# Make two tokens, unless they are there: a writer for the Collector, a reader for those who ask and for Prometheus.
#
# deploy/secrets/tokens is for ledto and has only their hashes; .env has them in plain, for `docker compose`.
# HAZARD: ledto in a container runs as another user, and files of `secrets` keep their mode: so the hashes are readable.
set -eu
cd "$(dirname "$0")/.."
[ -e .env ] && [ -e deploy/secrets/tokens ] && exit 0
umask 077
mkdir -p deploy/secrets
chmod 755 deploy/secrets
token() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
digest() { printf '%s' "$1" | { sha256sum 2> /dev/null || shasum -a 256; } | cut -d ' ' -f 1; }
writer=$(token)
reader=$(token)
printf 'LEDTO_WRITER_TOKEN=%s\nLEDTO_READER_TOKEN=%s\n' "$writer" "$reader" > .env
printf 'writer collector sha256:%s\nreader operator sha256:%s\n' "$(digest "$writer")" "$(digest "$reader")" > deploy/secrets/tokens
chmod 644 deploy/secrets/tokens
