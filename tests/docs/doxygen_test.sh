#!/usr/bin/env bash
# Builds the API reference; any warning is a failure. Exit code 77 (skipped) without doxygen.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v doxygen >/dev/null || { echo "doxygen is not installed"; exit 77; }
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
{ cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $output"; } | doxygen -
for class in Model Session Trainer GenerateOptions; do
  grep -rqs "pmnet::v0::$class\|pmnet::$class" "$output/html" || { echo "the reference does not describe $class"; exit 1; }
done
