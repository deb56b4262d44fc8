{{/*
The settings file of a plane. `files/settings.json`, generated from the settings schema, lists the secret settings. The
templates name only settings that the chart itself sets or checks.
*/}}

{{/* Sections that a plane does not get: the gateway has no credential of the database and of other regions, the console no upstream. */}}
{{- define "postern.foreignSections" -}}
{{- if eq . "gateway" }}console database regions{{ else }}gateway upstream region{{ end -}}
{{- end -}}

{{- define "postern.known" -}}
{{- .Files.Get "files/settings.json" -}}
{{- end -}}

{{/* Removes sections that a pod does not use: dict tree, only (names of sections; none: keeps all). */}}
{{- define "postern.keepOnly" -}}
{{- if .only }}{{ range $name := keys .tree }}{{ if not (has $name $.only) }}{{ $_ := unset $.tree $name }}{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{/*
The configured settings of a plane: `config`, overridden by `gateway.config` or `console.config`, as YAML. With `only` in the
dict, the sections of that list alone, here and in all that follows from it.
*/}}
{{- define "postern.given" -}}
{{- $given := mergeOverwrite (deepCopy .root.Values.config) (deepCopy (index .root.Values .plane).config) -}}
{{- range include "postern.foreignSections" .plane | splitList " " }}{{ $_ := unset $given . }}{{ end -}}
{{- include "postern.keepOnly" (dict "tree" $given "only" .only) -}}
{{- toJson $given -}}
{{- end -}}

{{/* The same with defaults, for settings that templates read. */}}
{{- define "postern.effective" -}}
{{- $defaults := (include "postern.known" .root | fromJson).defaults -}}
{{- mergeOverwrite $defaults (include "postern.given" . | fromJson) | toJson -}}
{{- end -}}

{{/* A setting by its path; empty if it is not set: dict tree, path. */}}
{{- define "postern.at" -}}
{{- $node := .tree -}}
{{- range splitList "." .path -}}
{{- if kindIs "map" $node }}{{ $node = get $node . }}{{ else }}{{ $node = "" }}{{ end -}}
{{- end -}}
{{- if kindIs "slice" $node }}{{ $node | join "," }}{{ else if not (kindIs "invalid" $node) }}{{ $node }}{{ end -}}
{{- end -}}

{{/* Sets a setting by its path: dict tree, path, value. */}}
{{- define "postern.put" -}}
{{- $node := .tree -}}
{{- $parts := splitList "." .path -}}
{{- range initial $parts -}}
{{- if not (kindIs "map" (get $node .)) }}{{ $_ := set $node . dict }}{{ end -}}
{{- $node = get $node . -}}
{{- end -}}
{{- $_ := set $node (last $parts) .value -}}
{{- end -}}

{{/* Collects the references of a tree: dict tree, path, into (a dict with the list `found`). */}}
{{- define "postern.collect" -}}
{{- range $name, $child := .tree -}}
{{- $path := ternary $name (printf "%s.%s" $.path $name) (empty $.path) -}}
{{- if kindIs "map" $child -}}
{{- if or (hasKey $child "existingSecret") (hasKey $child "existingConfigMap") -}}
{{- $within := regexReplaceAll "^regions[.][^.]+[.]" $path "" -}}
{{- $key := $child.key | default ($within | replace "." "-" | kebabcase) -}}
{{- with $child.existingSecret -}}
{{- $_ := set $.into "found" (append $.into.found (dict "path" $path "kind" "secret" "name" . "key" $key)) -}}
{{- end -}}
{{- with $child.existingConfigMap -}}
{{- $_ := set $.into "found" (append $.into.found (dict "path" $path "kind" "configMap" "name" . "key" $key)) -}}
{{- end -}}
{{- else -}}
{{- include "postern.collect" (dict "tree" $child "path" $path "into" $.into) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The references in the values of a plane, as YAML `found: [{path, kind, name, key}]`. */}}
{{- define "postern.named" -}}
{{- $tree := mergeOverwrite (deepCopy .root.Values.secrets) (deepCopy (index .root.Values .plane).secrets) -}}
{{- range include "postern.foreignSections" .plane | splitList " " }}{{ $_ := unset $tree . }}{{ end -}}
{{- if and (eq .plane "console") $tree.keyService }}{{ $_ := set $tree "keyService" (pick $tree.keyService "token") }}{{ end -}}
{{- include "postern.keepOnly" (dict "tree" $tree "only" .only) -}}
{{- $into := dict "found" list -}}
{{- include "postern.collect" (dict "tree" $tree "path" "" "into" $into) -}}
{{- toJson $into -}}
{{- end -}}

{{/* Non-empty if a secret setting comes from a file or a reference, not the generated Secret: dict root, plane, path. */}}
{{- define "postern.has" -}}
{{- $given := include "postern.given" . | fromJson -}}
{{- if include "postern.at" (dict "tree" $given "path" (printf "%sFile" .path)) }}file{{ end -}}
{{- range (include "postern.named" . | fromJson).found }}{{ if eq .path $.path }}reference{{ end }}{{ end -}}
{{- end -}}

{{/* Paths of secrets that a plane needs and the values do not reference, separated by spaces. */}}
{{- define "postern.wanting" -}}
{{- $wanting := list -}}
{{- $format := include "postern.at" (dict "tree" (include "postern.effective" . | fromJson) "path" "keys.format") -}}
{{- if and (or (eq .plane "console") (ne $format "opaque")) (not (include "postern.has" (merge (dict "path" "keys.signingSecrets") .))) -}}
{{- $wanting = append $wanting "keys.signingSecrets" -}}
{{- end -}}
{{- if and .root.Values.console.enabled (not .only) -}}
{{- if not (include "postern.has" (merge (dict "path" "keyService.token") .)) }}{{ $wanting = append $wanting "keyService.token" }}{{ end -}}
{{- if and (eq .plane "console") (not (include "postern.has" (merge (dict "path" "console.adminToken") .))) -}}
{{- $wanting = append $wanting "console.adminToken" -}}
{{- end -}}
{{- end -}}
{{- $wanting | join " " -}}
{{- end -}}

{{/*
Non-empty if Helm talks to a cluster while it renders. Any namespace has a list of Secrets, even an empty or missing one, and
Helm itself keeps its releases there.
*/}}
{{- define "postern.hasCluster" -}}
{{- if lookup "v1" "Secret" .Release.Namespace "" }}yes{{ end -}}
{{- end -}}

{{- define "postern.generatedName" -}}
{{- printf "%s-generated" (include "postern.fullname" .) -}}
{{- end -}}

{{/*
The data of the generated Secret: existing entries of the cluster, and new values for missing ones. Stored in the values,
because the Secret and the checksum on the pods must agree within one rendering.
*/}}
{{- define "postern.generatedData" -}}
{{- if not (hasKey .Values "generatedData") -}}
{{- $existing := (lookup "v1" "Secret" (include "postern.namespace" .) (include "postern.generatedName" .)).data | default dict -}}
{{- $data := deepCopy $existing -}}
{{- if .Values.generatedSecret.enabled -}}
{{- range $plane := include "postern.planes" . | splitList " " | compact -}}
{{- range $path := include "postern.wanting" (dict "root" $ "plane" $plane) | splitList " " | compact -}}
{{- $key := $path | replace "." "-" | kebabcase -}}
{{- if not (hasKey $data $key) -}}
{{- $_ := set $data $key (ternary (randBytes 32) (randAlphaNum 48) (eq $path "keys.signingSecrets") | b64enc) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values "generatedData" $data -}}
{{- end -}}
{{- toYaml .Values.generatedData -}}
{{- end -}}

{{/* Every reference of a plane, including generated ones, as YAML `found: […]`. */}}
{{- define "postern.references" -}}
{{- $found := (include "postern.named" . | fromJson).found -}}
{{- range include "postern.wanting" . | splitList " " | compact -}}
{{- $found = append $found (dict "path" . "kind" "secret" "name" (include "postern.generatedName" $.root) "key" (. | replace "." "-" | kebabcase)) -}}
{{- end -}}
{{- toJson (dict "found" $found) -}}
{{- end -}}

{{- define "postern.secretsDirectory" -}}/etc/postern/secrets{{- end -}}
{{- define "postern.dataDirectory" -}}/var/lib/postern{{- end -}}

{{/* "sqlite" or "postgres". An address in a Secret means PostgreSQL, because SQLite needs no password. */}}
{{- define "postern.database" -}}
{{- $place := dict "root" . "plane" "console" -}}
{{- $url := include "postern.at" (dict "tree" (include "postern.given" $place | fromJson) "path" "database.url") -}}
{{- if or (include "postern.has" (merge (dict "path" "database.url") $place)) (and $url (not (hasPrefix "sqlite:" $url))) }}postgres{{ else }}sqlite{{ end -}}
{{- end -}}

{{/* The settings file. */}}
{{- define "postern.settingsFile" -}}
{{- $tree := include "postern.given" . | fromJson -}}
{{- $secret := list -}}
{{- range (include "postern.known" .root | fromJson).secrets }}{{ $secret = append $secret .path }}{{ end -}}
{{- if and (eq .plane "gateway") .root.Values.console.enabled (not (include "postern.at" (dict "tree" $tree "path" "keyService.url"))) -}}
{{- $scheme := include "postern.internalTls" .root | empty | ternary "http" "https" -}}
{{- $url := printf "%s://%s:%d" $scheme (include "postern.internalName" .root) (int .root.Values.console.internalService.port) -}}
{{- include "postern.put" (dict "tree" $tree "path" "keyService.url" "value" $url) -}}
{{- end -}}
{{- if and (eq .plane "gateway") (not (include "postern.at" (dict "tree" $tree "path" "limits.replicas"))) -}}
{{- $values := .root.Values.gateway -}}
{{- $pods := $values.autoscaling.enabled | ternary $values.autoscaling.maxReplicas ($values.replicas | default 0) | int -}}
{{- $limits := $tree.limits | default dict -}}
{{- if and (or $limits.policies $limits.plans) (gt $pods 0) -}}
{{- include "postern.put" (dict "tree" $tree "path" "limits.replicas" "value" $pods) -}}
{{- end -}}
{{- end -}}
{{- if eq .plane "console" -}}
{{- if $tree.keyService }}{{ $_ := set $tree "keyService" (pick $tree.keyService "tokenFile") }}{{ end -}}
{{- if and (eq (include "postern.database" .root) "sqlite") (not (include "postern.at" (dict "tree" $tree "path" "database.url"))) -}}
{{- include "postern.put" (dict "tree" $tree "path" "database.url" "value" (printf "sqlite:%s/postern.db" (include "postern.dataDirectory" .))) -}}
{{- end -}}
{{- end -}}
{{- range (include "postern.references" . | fromJson).found -}}
{{- $file := printf "%s/%s" (include "postern.secretsDirectory" $) .path -}}
{{- if hasPrefix "upstream.headers." .path -}}
{{- include "postern.put" (dict "tree" $tree "path" .path "value" (dict "file" $file)) -}}
{{- else if hasPrefix "regions." .path -}}
{{- include "postern.putInRegion" (dict "tree" $tree "path" .path "file" $file) -}}
{{- else -}}
{{- include "postern.put" (dict "tree" $tree "path" (ternary (printf "%sFile" .path) .path (has .path $secret)) "value" $file) -}}
{{- end -}}
{{- end -}}
{{- toYaml $tree -}}
{{- end -}}

{{/* Non-empty if the console's internal listener uses TLS. */}}
{{- define "postern.internalTls" -}}
{{- include "postern.hasFile" (dict "root" . "plane" "console" "path" "console.internal.tls.certFile") -}}
{{- end -}}

{{/* Non-empty if a file is set for a plane, in `config` or by reference: dict root, plane, path. */}}
{{- define "postern.hasFile" -}}
{{- include "postern.at" (dict "tree" (include "postern.given" . | fromJson) "path" .path) -}}
{{- include "postern.has" . -}}
{{- end -}}

{{/* Port of a listener in a plane's container: dict root, plane, listener. */}}
{{- define "postern.port" -}}
{{- include "postern.at" (dict "tree" (include "postern.effective" . | fromJson) "path" (printf "%s.port" .listener)) | int -}}
{{- end -}}

{{/* Port of the gateway's check listener; empty without one. */}}
{{- define "postern.checkPort" -}}
{{- include "postern.at" (dict "tree" (include "postern.effective" (dict "root" . "plane" "gateway") | fromJson) "path" "gateway.check.port") -}}
{{- end -}}

{{/* Minimum grace period of a pod, in seconds: a sleep before SIGTERM, drain delay, drain timeout, and 5 s to close connections. */}}
{{- define "postern.drainSeconds" -}}
{{- $drain := (include "postern.effective" . | fromJson).drain -}}
{{- $sleep := include "postern.at" (dict "tree" (include "postern.podSettings" . | fromJson) "path" "lifecycle.preStop.sleep.seconds") | int64 -}}
{{- add (div (add (int64 $drain.delayMs) (int64 $drain.timeoutMs) 999) 1000) 5 $sleep -}}
{{- end -}}
