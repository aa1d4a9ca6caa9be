#!/usr/bin/env bash
# Builds the documentation site of docs/ in target/site, with tools in target/site-venv (15 s, once); 3 s. Broken links and anchors, pages that
# the navigation lacks, and what scripts/site_hooks.py finds are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --python
needed=scripts/site-requirements.txt
venv=target/site-venv
if ! cmp -s "$needed" "$venv/installed.txt"; then
    mkdir -p target
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$needed"
    cp "$needed" "$venv/installed.txt"
fi
# What Material for MkDocs says about its end of life at each build is in mkdocs.yml.
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict
echo "The site is in target/site. To read it: python3 -m http.server --directory target/site" >&2
