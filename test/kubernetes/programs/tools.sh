#!/usr/bin/env bash
# Builds what the chart is tried with, once per machine, and prints its folder: Helm 4, beside the Helm 3 of the path, and consul-template,
# whose templates Vault's agent renders.
set -euo pipefail
cd "$(dirname "$0")"
folder="${XDG_CACHE_HOME:-$HOME/.cache}/postern-chart-tools/$(sha256sum tools.sh | cut -c1-12)"
mkdir -p "$folder"

# A second run waits for the first, such as a test for the build that .ci/run started.
exec 9>"$folder/lock"
flock 9
if [ ! -e "$folder/complete" ]; then
  for program in helm.sh/helm/v4/cmd/helm@v4.3.1 github.com/hashicorp/consul-template@v0.41.1; do
    # As in build.sh: without inlining the build takes less processor time.
    CGO_ENABLED=0 GOBIN="$folder" go install -gcflags=all=-l -ldflags '-s -w' "$program" >&2
  done
  touch "$folder/complete"
fi
printf '%s\n' "$folder"
