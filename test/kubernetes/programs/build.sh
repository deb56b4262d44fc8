#!/usr/bin/env bash
# Builds the control plane and chart-testing once per machine, and prints their folder. One go build, so that each package is compiled once.
# go.mod is that of k8s.io/kubernetes, with the published libraries of its release; go.sum pins every byte.
set -euo pipefail
cd "$(dirname "$0")"
kubernetes="$(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
programs=(
  k8s.io/kubernetes/cmd/kube-apiserver
  k8s.io/kubernetes/cmd/kube-controller-manager
  k8s.io/kubernetes/cmd/kube-scheduler
  k8s.io/kubernetes/cmd/kubectl
  sigs.k8s.io/kwok/cmd/kwok
  go.etcd.io/etcd/server/v3
  github.com/helm/chart-testing/v3/ct
)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/postern-control-plane/$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)"
mkdir -p "$folder"

# A second run waits for the first, such as a test for the build that .ci/run started.
exec 9>"$folder/lock"
flock 9
if [ ! -e "$folder/complete" ]; then
  version=''
  for library in component-base client-go/pkg; do version+=" -X k8s.io/$library/version.gitVersion=$kubernetes"; done
  # Without inlining (-l) the build takes less processor time, and the programs are as fast as tests need.
  CGO_ENABLED=0 go build -mod=readonly -gcflags=all=-l -ldflags "-s -w$version" -o "$folder/" "${programs[@]}" >&2
  # Go names a program after the last part of its path that is no version.
  mv "$folder/server" "$folder/etcd"
  # The stages that kwok's pods and nodes pass, and the schema of Chart.yaml.
  cp -rT "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage" "$folder/stage"
  cp "$(go list -m -f '{{.Dir}}' github.com/helm/chart-testing/v3)/etc/chart_schema.yaml" "$folder/"
  chmod -R u+w "$folder"
  touch "$folder/complete"
fi
printf '%s\n' "$folder"
