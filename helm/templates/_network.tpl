{{/* Ports of a rule, from values, else from addresses (with or without scheme): dict given, addresses, default. */}}
{{- define "postern.portsOf" -}}
{{- $ports := .given | default list -}}
{{- if not $ports -}}
{{- range .addresses | splitList "," | compact -}}
{{- $scheme := regexFind "^[A-Za-z]+://" . | trimSuffix "://" | lower -}}
{{- $authority := regexReplaceAll "[/?#].*$" (regexReplaceAll "^([A-Za-z]+://)?([^/]*@)?" . "") "" -}}
{{- $usual := get (dict "http" 80 "https" 443 "postgres" 5432 "postgresql" 5432) $scheme | default $.default -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $authority | trimPrefix ":" | default $usual | int) -}}
{{- end -}}
{{- end -}}
{{- if not $ports }}{{ $ports = list .default }}{{ end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* One rule: dict direction ("to" or "from"), peers, ports, protocols. Without peers it allows every peer. */}}
{{- define "postern.networkRule" -}}
- ports:
  {{- range $port := .ports }}
  {{- range $.protocols | default (list "TCP") }}
    - { port: {{ $port }}, protocol: {{ . }} }
  {{- end }}
  {{- end }}
  {{- with .peers }}
  {{ $.direction }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* An egress rule for a known address: dict values, addresses, default. */}}
{{- define "postern.egress" -}}
{{- $ports := include "postern.portsOf" (dict "given" .values.ports "addresses" .addresses "default" .default) | fromJsonArray -}}
{{- include "postern.networkRule" (dict "direction" "to" "peers" .values.to "ports" $ports) -}}
{{- end -}}

{{/* All addresses in a section of the settings, separated by commas. Every list item counts as an address: dict node. */}}
{{- define "postern.addresses" -}}
{{- $found := list -}}
{{- if kindIs "map" .node -}}
{{- range .node }}{{ $found = append $found (include "postern.addresses" (dict "node" .)) }}{{ end -}}
{{- else if kindIs "slice" .node -}}
{{- range .node }}{{ $found = append $found (toString .) }}{{ end -}}
{{- else if and (kindIs "string" .node) (contains "://" (toString .node)) -}}
{{- $found = append $found .node -}}
{{- end -}}
{{- $found | compact | join "," -}}
{{- end -}}

{{/* The NetworkPolicy of a plane. If a Secret holds an address, its port is unknown: then the default port. */}}
{{- define "postern.networkPolicy" -}}
{{- $root := .root -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $settings := include "postern.settingsFile" . | fromYaml -}}
{{- $http := include "postern.port" (merge (dict "listener" .plane) .) | int -}}
{{- $ops := include "postern.port" (merge (dict "listener" "ops") .) | int -}}
{{- $test := list (dict "podSelector" (dict "matchLabels" (include "postern.selector" (dict "root" .root "plane" "test") | fromYaml))) -}}
{{- $gateways := list (dict "podSelector" (dict "matchLabels" (include "postern.selector" (dict "root" .root "plane" "gateway") | fromYaml))) -}}
{{- $console := list (dict "podSelector" (dict "matchLabels" (include "postern.selector" (dict "root" .root "plane" "console") | fromYaml))) -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .)) .) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "postern.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- $from := eq .plane "gateway" | ternary $policy.gatewayFrom $policy.consoleFrom }}
    {{- include "postern.networkRule" (dict "direction" "from" "peers" $from "ports" (list $http)) | nindent 4 }}
    {{- $check := eq .plane "gateway" | ternary (include "postern.checkPort" $root) "" }}
    {{- if and $check $policy.checkFrom }}
    {{- include "postern.networkRule" (dict "direction" "from" "peers" $policy.checkFrom "ports" (list $check)) | nindent 4 }}
    {{- end }}
    {{- if eq .plane "console" }}
    {{- $internal := include "postern.port" (merge (dict "listener" "console.internal") .) | int }}
    {{- with concat ($root.Values.gateway.enabled | ternary $gateways list) $policy.internalFrom }}
    {{- include "postern.networkRule" (dict "direction" "from" "peers" . "ports" (list $internal)) | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- include "postern.networkRule" (dict "direction" "from" "peers" $policy.opsFrom "ports" (list $ops)) | nindent 4 }}
    {{- if $root.Values.tests.enabled }}
    {{- include "postern.networkRule" (dict "direction" "from" "peers" $test "ports" (list $http $ops)) | nindent 4 }}
    {{- end }}
    {{- with $policy.extraIngress }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
  egress:
    {{- include "postern.networkRule" (dict "direction" "to" "peers" $policy.dns.to "ports" $policy.dns.ports "protocols" (list "UDP" "TCP")) | nindent 4 }}
    {{- if include "postern.usesRedis" . }}
    {{- $sentinels := ($settings.redis.sentinel | default dict).urls }}
    {{- include "postern.egress" (dict "values" $policy.redis "addresses" (include "postern.addresses" (dict "node" (omit $settings.redis "sentinel"))) "default" 6379) | nindent 4 }}
    {{- if and $sentinels (not $policy.redis.ports) }}
    {{- include "postern.egress" (dict "values" $policy.redis "addresses" ($sentinels | join ",") "default" 26379) | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with $settings.regions }}
    {{- include "postern.regionsEgress" (dict "root" $root "regions" .) | nindent 4 }}
    {{- end }}
    {{- with include "postern.addresses" (dict "node" $settings.tracing) }}
    {{- include "postern.egress" (dict "values" $policy.tracing "addresses" . "default" 4318) | nindent 4 }}
    {{- end }}
    {{- if eq .plane "gateway" }}
    {{- with include "postern.at" (dict "tree" $settings "path" "usage.export.url") }}
    {{- include "postern.egress" (dict "values" $policy.usageExport "addresses" . "default" 80) | nindent 4 }}
    {{- end }}
    {{- $upstream := $settings.upstream.addresses | default (list (include "postern.at" (dict "tree" $settings "path" "upstream.url"))) }}
    {{- include "postern.egress" (dict "values" $policy.upstream "addresses" ($upstream | join ",") "default" 80) | nindent 4 }}
    {{- if include "postern.at" (dict "tree" (include "postern.given" . | fromYaml) "path" "keyService.url") }}
    {{- include "postern.egress" (dict "values" $policy.keyService "addresses" (include "postern.at" (dict "tree" $settings "path" "keyService.url")) "default" 80) | nindent 4 }}
    {{- else if $root.Values.console.enabled }}
    {{- $port := include "postern.port" (dict "root" $root "plane" "console" "listener" "console.internal") | int }}
    {{- include "postern.networkRule" (dict "direction" "to" "peers" $console "ports" (list $port)) | nindent 4 }}
    {{- end }}
    {{- else }}
    {{- if eq (include "postern.database" $root) "postgres" }}
    {{- include "postern.egress" (dict "values" $policy.database "addresses" (include "postern.at" (dict "tree" $settings "path" "database.url")) "default" 5432) | nindent 4 }}
    {{- end }}
    {{- with include "postern.at" (dict "tree" $settings "path" "console.webhook.url") }}
    {{- include "postern.egress" (dict "values" $policy.webhook "addresses" . "default" 443) | nindent 4 }}
    {{- end }}
    {{- $issuer := include "postern.at" (dict "tree" $settings "path" "console.oidc.issuer") }}
    {{- if or $issuer $policy.identityProvider.ports }}
    {{- include "postern.egress" (dict "values" $policy.identityProvider "addresses" $issuer "default" 443) | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with $policy.extraEgress }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The NetworkPolicy of the test pod: the listeners that the test asks, and DNS. */}}
{{- define "postern.testNetworkPolicy" -}}
{{- $root := .root -}}
{{- $dns := .root.Values.networkPolicy.dns -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .)) .) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "postern.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress:
    {{- include "postern.networkRule" (dict "direction" "to" "peers" $dns.to "ports" $dns.ports "protocols" (list "UDP" "TCP")) | nindent 4 }}
    {{- range $plane := include "postern.planes" .root | splitList " " | compact }}
    {{- $place := dict "root" $root "plane" $plane }}
    {{- $peers := list (dict "podSelector" (dict "matchLabels" (include "postern.selector" $place | fromYaml))) }}
    {{- $ports := list (include "postern.port" (merge (dict "listener" $plane) $place) | int) (include "postern.port" (merge (dict "listener" "ops") $place) | int) }}
    {{- include "postern.networkRule" (dict "direction" "to" "peers" $peers "ports" $ports) | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The NetworkPolicy of the backup pod: the database, and DNS. */}}
{{- define "postern.backupNetworkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .)) .) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "postern.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress:
    {{- include "postern.networkRule" (dict "direction" "to" "peers" $policy.dns.to "ports" $policy.dns.ports "protocols" (list "UDP" "TCP")) | nindent 4 }}
    {{- if eq (include "postern.database" .root) "postgres" }}
    {{- $settings := include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml }}
    {{- include "postern.egress" (dict "values" $policy.database "addresses" (include "postern.at" (dict "tree" $settings "path" "database.url")) "default" 5432) | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Whether a plane uses Redis: an address of it is set, directly or by reference. */}}
{{- define "postern.usesRedis" -}}
{{- $redis := (include "postern.settingsFile" . | fromYaml).redis | default dict -}}
{{- if include "postern.addresses" (dict "node" $redis) }}yes{{ end -}}
{{- if regexMatch "[uU]rls?File" (toJson $redis) }}yes{{ end -}}
{{- end -}}
