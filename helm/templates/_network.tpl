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

{{/* One rule: dict direction ("to" or "from"), peers, ports (numbers, or ranges such as "1024-65535"), protocols. Without peers it allows every peer. */}}
{{- define "postern.networkRule" -}}
- ports:
  {{- range $port := .ports }}
  {{- $ends := toString $port | splitList "-" }}
  {{- range $.protocols | default (list "TCP") }}
    - { port: {{ first $ends }}{{ range rest $ends }}, endPort: {{ . }}{{ end }}, protocol: {{ . }} }
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

{{/* Egress to the DNS servers: those of the cluster, and those that the pod names itself: dict root, plane. */}}
{{- define "postern.dnsEgress" -}}
{{- $dns := .root.Values.networkPolicy.dns -}}
{{- include "postern.networkRule" (dict "direction" "to" "peers" $dns.to "ports" $dns.ports "protocols" (list "UDP" "TCP")) -}}
{{- $own := list -}}
{{- range ((include "postern.podSettings" . | fromJson).dnsConfig | default dict).nameservers -}}
{{- $own = append $own (dict "ipBlock" (dict "cidr" (printf "%s/%s" . (contains ":" . | ternary "128" "32")))) -}}
{{- end -}}
{{- if and $own $dns.to }}
{{ include "postern.networkRule" (dict "direction" "to" "peers" $own "ports" (list 53) "protocols" (list "UDP" "TCP")) }}
{{- end -}}
{{- end -}}

{{/* The public Internet as peers, without the networks that the console refuses for webhooks: dict root, denied, allowed. */}}
{{- define "postern.publicPeers" -}}
{{- $peers := list -}}
{{- $denied := .denied | default list -}}
{{- range (include "postern.known" .root | fromJson).publicNetworks -}}
{{- $except := .except -}}
{{- /* Kubernetes takes only an exception that is smaller than the network. */}}
{{- $inside := contains ":" .cidr | ternary "^[23][0-9a-fA-F]{3}:" "^[0-9.]+(/[1-9][0-9]?)?$" -}}
{{- range $denied }}{{ if regexMatch $inside . }}{{ $except = append $except (include "postern.cidr" .) }}{{ end }}{{ end -}}
{{- if not (or (has .cidr $denied) (and (contains ":" .cidr) (has "::/0" $denied))) -}}
{{- $peers = append $peers (dict "ipBlock" (dict "cidr" .cidr "except" ($except | uniq))) -}}
{{- end -}}
{{- end -}}
{{- range .allowed }}{{ $peers = append $peers (dict "ipBlock" (dict "cidr" (include "postern.cidr" .))) }}{{ end -}}
{{- toYaml $peers -}}
{{- end -}}

{{/* An address or CIDR as a CIDR. */}}
{{- define "postern.cidr" -}}
{{- contains "/" . | ternary . (printf "%s/%s" . (contains ":" . | ternary "128" "32")) -}}
{{- end -}}

{{/*
The proxies that settings and environment of a plane name, and what they leave out, as YAML: dict root, plane. A Secret may hold an
address (`secret`), and what is left out (then `unknown` is true).
*/}}
{{- define "postern.proxies" -}}
{{- $outgoing := (include "postern.settingsFile" . | fromYaml).outgoing | default dict -}}
{{- $found := dict "https" list "http" list "without" (regexSplit "[, ]+" (include "postern.at" (dict "tree" $outgoing "path" "noProxy")) -1 | compact) "unknown" false -}}
{{- range $scheme := list "https" "http" -}}
{{- $name := printf "%sProxy" $scheme -}}
{{- $given := list (get $outgoing $name) (get $outgoing (printf "%sFile" $name) | empty | ternary "" "secret") | compact -}}
{{- $_ := set $found $scheme $given -}}
{{- end -}}
{{- range tpl (toYaml ((include "postern.podSettings" . | fromJson).extraEnv | default list)) .root | fromYamlArray -}}
{{- $name := lower .name -}}
{{- $value := hasKey . "valueFrom" | ternary "secret" (toString (.value | default "")) -}}
{{- if and $value (has $name (list "https_proxy" "http_proxy")) -}}
{{- $scheme := trimSuffix "_proxy" $name -}}
{{- $_ := set $found $scheme (append (get $found $scheme) $value) -}}
{{- else if eq $name "no_proxy" -}}
{{- $_ := set $found "without" (concat $found.without (regexSplit "[, ]+" $value -1 | compact)) -}}
{{- if hasKey . "valueFrom" }}{{ $_ := set $found "unknown" true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/*
Non-empty if a call to an address passes a proxy of its plane, as src/domain/proxy.ts decides: dict proxies, address. An entry with a
port counts for all ports, and any network for all addresses: then the call may be a direct one.
*/}}
{{- define "postern.isProxied" -}}
{{- $scheme := hasPrefix "http://" (lower .address) | ternary "http" "https" -}}
{{- $host := regexReplaceAll "[/?#].*$" (regexReplaceAll "^([A-Za-z]+://)?([^/]*@)?" .address "") "" | lower -}}
{{- $host = regexReplaceAll ":[0-9]+$" $host "" | trimSuffix "." -}}
{{- $direct := .proxies.unknown -}}
{{- range .proxies.without -}}
{{- $name := regexReplaceAll "^[*]?[.]" (regexReplaceAll ":[0-9]+$" (lower .) "" | trimSuffix ".") "" -}}
{{- $isAddress := regexMatch "^[0-9.]+(/[0-9]+)?$|:" $name -}}
{{- if or (eq . "*") (eq $host $name) (hasSuffix (printf ".%s" $name) $host) }}{{ $direct = true }}{{ end -}}
{{- if and $isAddress (regexMatch "^[0-9.]+$|:" $host) }}{{ $direct = true }}{{ end -}}
{{- end -}}
{{- if and (get .proxies $scheme) (not $direct) }}yes{{ end -}}
{{- end -}}

{{/* An egress rule for what is called through the proxy, if there is one, and then for named peers alone: dict proxies, values, address, default. */}}
{{- define "postern.outgoingEgress" -}}
{{- $isProxied := and .address (include "postern.isProxied" (dict "proxies" .proxies "address" .address)) -}}
{{- if or .values.to (not $isProxied) -}}
{{- include "postern.egress" (dict "values" .values "addresses" .address "default" .default) -}}
{{- end -}}
{{- end -}}

{{/* Egress of a plane to its proxies. If a Secret holds an address, its port is the default: dict root, proxies. */}}
{{- define "postern.proxyEgress" -}}
{{- $policy := .root.Values.networkPolicy.egressProxy -}}
{{- $proxies := concat .proxies.https .proxies.http -}}
{{- if or $proxies $policy.ports -}}
{{- include "postern.egress" (dict "values" $policy "addresses" ($proxies | join ",") "default" 3128) -}}
{{- end -}}
{{- end -}}

{{/*
Egress of the console to the receivers of workspaces' webhooks, as far as the console itself lets them go. Beside a proxy, those
that the settings allow of the private ones, which it may leave out.
*/}}
{{- define "postern.workspaceWebhooksEgress" -}}
{{- $policy := .root.Values.networkPolicy.workspaceWebhooks -}}
{{- $settings := .settings -}}
{{- $denied := $settings.deniedCidrs -}}
{{- $isProxied := include "postern.isProxied" (dict "proxies" .proxies "address" "https://public") -}}
{{- if and $isProxied (or (not $settings.allowHttp) .proxies.http) }}{{ $denied = list "0.0.0.0/0" "::/0" }}{{ end -}}
{{- $peers := $policy.to | default (include "postern.publicPeers" (dict "root" .root "denied" $denied "allowed" $settings.allowedCidrs) | fromYamlArray) -}}
{{- $ports := $policy.ports | default (empty $settings.allowHttp | ternary (list 443 "1024-65535") (list 80 443 "1024-65535")) -}}
{{- /* Without peers, a rule would allow every peer: the settings deny all. */}}
{{- if $peers }}{{ include "postern.networkRule" (dict "direction" "to" "peers" $peers "ports" $ports) }}{{ end -}}
{{- end -}}

{{/* Egress of the console to GitHub's public keys, in the public Internet unless another address is set: dict root, plane, proxies. */}}
{{- define "postern.leakKeysEgress" -}}
{{- $policy := .root.Values.networkPolicy.leakKeys -}}
{{- $usual := include "postern.at" (dict "tree" (include "postern.known" .root | fromJson).defaults "path" "leaks.github.keysUrl") -}}
{{- $url := include "postern.at" (dict "tree" (include "postern.effective" . | fromJson) "path" "leaks.github.keysUrl") -}}
{{- $peers := $policy.to | default (eq $url $usual | ternary (include "postern.publicPeers" (dict "root" .root) | fromYamlArray) list) -}}
{{- if or $policy.to (not (include "postern.isProxied" (dict "proxies" .proxies "address" $url))) -}}
{{- include "postern.egress" (dict "values" (dict "to" $peers "ports" $policy.ports) "addresses" $url "default" 443) -}}
{{- end -}}
{{- end -}}

{{/* The address of the API if the console forwards requests to it that people try: the settings of the console. */}}
{{- define "postern.triedApi" -}}
{{- $console := .console | default dict -}}
{{- if ne (get $console "triedRequestsPerMinute" | toString) "0" }}{{ get $console "gatewayUrl" }}{{ end -}}
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
    {{- include "postern.dnsEgress" . | nindent 4 }}
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
    {{- $proxies := include "postern.proxies" . | fromYaml }}
    {{- with include "postern.proxyEgress" (dict "root" $root "proxies" $proxies) }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if eq .plane "gateway" }}
    {{- with include "postern.addresses" (dict "node" $settings.tracing) }}
    {{- with include "postern.outgoingEgress" (dict "proxies" $proxies "values" $policy.tracing "address" . "default" 4318) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- with include "postern.at" (dict "tree" $settings "path" "usage.export.url") }}
    {{- with include "postern.outgoingEgress" (dict "proxies" $proxies "values" $policy.usageExport "address" . "default" 80) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- $upstream := $settings.upstream.addresses | default (list (include "postern.at" (dict "tree" $settings "path" "upstream.url"))) }}
    {{- include "postern.egress" (dict "values" $policy.upstream "addresses" ($upstream | join ",") "default" 80) | nindent 4 }}
    {{- if include "postern.at" (dict "tree" (include "postern.given" . | fromJson) "path" "keyService.url") }}
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
    {{- with include "postern.outgoingEgress" (dict "proxies" $proxies "values" $policy.webhook "address" . "default" 443) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- $ofWorkspaces := ($settings.webhooks | default dict).workspaces | default dict }}
    {{- if $ofWorkspaces.enabled }}
    {{- with include "postern.workspaceWebhooksEgress" (dict "root" $root "settings" $ofWorkspaces "proxies" $proxies) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- if and ($settings.leaks | default dict).enabled (not (include "postern.hasFile" (merge (dict "path" "leaks.github.keysFile") .))) }}
    {{- with include "postern.leakKeysEgress" (merge (dict "proxies" $proxies) .) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- with include "postern.triedApi" $settings }}
    {{- with include "postern.outgoingEgress" (dict "proxies" $proxies "values" $policy.triedRequests "address" . "default" 443) }}{{ . | nindent 4 }}{{ end }}
    {{- end }}
    {{- $issuer := include "postern.at" (dict "tree" $settings "path" "console.oidc.issuer") }}
    {{- if or $issuer $policy.identityProvider.ports }}
    {{- with include "postern.outgoingEgress" (dict "proxies" $proxies "values" $policy.identityProvider "address" $issuer "default" 443) }}{{ . | nindent 4 }}{{ end }}
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

{{/* The NetworkPolicy of the backup pod: the database, DNS, and the further rules, which its init containers and sidecars may need. */}}
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
    {{- include "postern.dnsEgress" (dict "root" .root "plane" "console") | nindent 4 }}
    {{- if eq (include "postern.database" .root) "postgres" }}
    {{- $settings := include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml }}
    {{- include "postern.egress" (dict "values" $policy.database "addresses" (include "postern.at" (dict "tree" $settings "path" "database.url")) "default" 5432) | nindent 4 }}
    {{- end }}
    {{- with $policy.extraEgress }}
    {{- tpl (toYaml .) $.root | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Whether a plane uses Redis: an address of it is set, directly or by reference. */}}
{{- define "postern.usesRedis" -}}
{{- $redis := (include "postern.settingsFile" . | fromYaml).redis | default dict -}}
{{- if include "postern.addresses" (dict "node" $redis) }}yes{{ end -}}
{{- if regexMatch "[uU]rls?File" (toJson $redis) }}yes{{ end -}}
{{- end -}}
