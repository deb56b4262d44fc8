{{/*
Regions: the console of a release announces to the Redis of each; the gateways of a release belong to one. `config.regions` is a
list, as in the settings; `secrets.regions` and `networkPolicy.regions` hold the rest of each entry by its name.
*/}}

{{/* The regions of the console, as YAML `list: […]` of entries with names; empty without a console. */}}
{{- define "postern.regions" -}}
{{- $list := list -}}
{{- if .Values.console.enabled -}}
{{- $list = (include "postern.given" (dict "root" . "plane" "console") | fromJson).regions | default list -}}
{{- end -}}
{{- toYaml (dict "list" $list) -}}
{{- end -}}

{{/* Sets the file of a reference in the entry of its region: dict tree, path (`regions.eu.redis.password`), file. */}}
{{- define "postern.putInRegion" -}}
{{- $parts := splitList "." .path -}}
{{- $setting := slice $parts 2 | join "." -}}
{{- range (.tree.regions | default list) -}}
{{- if eq .name (index $parts 1) -}}
{{- include "postern.put" (dict "tree" . "path" (hasSuffix "File" $setting | ternary $setting (printf "%sFile" $setting)) "value" $.file) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardRegions" -}}
{{- $regions := (include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml).regions | default list -}}
{{- $names := list -}}
{{- range $regions -}}
{{- if has .name $names -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.regions has two entries named %s: give each region a name of its own" .name)) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if and $regions (include "postern.usesRedis" .) -}}
{{- include "postern.wrong" (dict "into" .into "say" "with config.regions the console has a Redis for each region and no other: move config.redis to gateway.config.redis and secrets.redis to gateway.secrets.redis, for the gateways of this release") -}}
{{- end -}}
{{- range $regions }}{{ include "postern.guardRegion" (dict "into" $.into "region" .) }}{{ end -}}
{{- $given := include "postern.given" . | fromJson -}}
{{- range $given.regions }}{{ include "postern.guardRegionSecrets" (merge (dict "region" .) $) }}{{ end -}}
{{- $all := mergeOverwrite (deepCopy .root.Values.secrets) (deepCopy .root.Values.console.secrets) -}}
{{- range $place, $byName := dict "secrets.regions" $all.regions "networkPolicy.regions" .root.Values.networkPolicy.regions -}}
{{- range $name, $_ := $byName -}}
{{- if not (has $name $names) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.%s belongs to no region of config.regions (%s): correct the name, or add the region" $place $name ($names | join ", " | default "which is empty"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One Redis of one kind: dict into, region (with the files of its references). */}}
{{- define "postern.guardRegion" -}}
{{- $redis := .region.redis | default dict -}}
{{- $sentinel := $redis.sentinel | default dict -}}
{{- $kinds := list -}}
{{- if or $redis.url $redis.urlFile }}{{ $kinds = append $kinds "url" }}{{ end -}}
{{- if or $sentinel.name $sentinel.urls }}{{ $kinds = append $kinds "sentinel" }}{{ end -}}
{{- if ($redis.cluster | default dict).urls }}{{ $kinds = append $kinds "cluster" }}{{ end -}}
{{- if not $kinds -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the region %s of config.regions has no Redis: set its redis.url, redis.sentinel or redis.cluster, or secrets.regions.%s.redis.url.existingSecret" .region.name .region.name)) -}}
{{- else if gt (len $kinds) 1 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the region %s of config.regions has %s, which are different kinds of Redis: set one of them" .region.name ($kinds | join " and "))) -}}
{{- else if and (has "sentinel" $kinds) (not (and $sentinel.name $sentinel.urls)) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "redis.sentinel of the region %s is incomplete: set name, the Sentinels' name of the primary, and urls, their addresses" .region.name)) -}}
{{- end -}}
{{- end -}}

{{/* No password in values, and each secret in one place: dict root, plane, into, region (as given). */}}
{{- define "postern.guardRegionSecrets" -}}
{{- $region := .region -}}
{{- $references := list -}}
{{- range (include "postern.named" . | fromJson).found }}{{ $references = append $references .path }}{{ end -}}
{{- range $secret := list "redis.url" "redis.password" "redis.sentinel.password" -}}
{{- $path := printf "regions.%s.%s" $region.name $secret -}}
{{- $value := include "postern.at" (dict "tree" $region "path" $secret) -}}
{{- $file := include "postern.at" (dict "tree" $region "path" (printf "%sFile" $secret)) -}}
{{- if or (and $value (ne $secret "redis.url")) (regexMatch "//[^,]*:[^,]*@|[?&]password=" $value) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s of the region %s contains a password, and values must not contain secrets: put it into a Secret and set secrets.%s.existingSecret" $secret $region.name $path)) -}}
{{- end -}}
{{- if and (has $path $references) (or $value $file) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "secrets.%s and %s of that region in config.regions set the same setting: remove one of them" $path $secret)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The region of the gateways agrees with the console, if the release has one: dict root, plane, into. */}}
{{- define "postern.guardRegionOfGateways" -}}
{{- $region := include "postern.at" (dict "tree" (include "postern.given" . | fromJson) "path" "region") -}}
{{- $names := list -}}
{{- range (include "postern.regions" .root | fromYaml).list }}{{ $names = append $names .name }}{{ end -}}
{{- if and $names (not $region) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the console has regions, and the gateways of this release name none: set config.region to one of %s, or gateway.enabled to false" ($names | join ", "))) -}}
{{- else if and $names (not (has $region $names)) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "config.region is %s, which config.regions does not name: set it to one of %s" $region ($names | join ", "))) -}}
{{- else if and $region .root.Values.console.enabled (not $names) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "config.region is %s, and the console of this release has no regions: set config.regions, or remove config.region" $region)) -}}
{{- end -}}
{{- $own := .root.Values.gateway -}}
{{- if and (not .root.Values.console.enabled) (or .root.Values.config.regions $own.config.regions .root.Values.secrets.regions $own.secrets.regions) -}}
{{- include "postern.wrong" (dict "into" .into "say" "regions (in config or secrets) are for the console, and this release has none: set config.region to the region of these gateways, and config.redis to its Redis") -}}
{{- end -}}
{{- if and $region (not (include "postern.usesRedis" .)) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the gateways of the region %s have no Redis, where the console announces changes: set gateway.config.redis or gateway.secrets.redis.url.existingSecret (without a console, config.redis or secrets.redis)" $region)) -}}
{{- end -}}
{{- if and $region (not .root.Values.console.enabled) (not (include "postern.at" (dict "tree" (include "postern.given" . | fromJson) "path" "keyService.url"))) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the gateways of the region %s would reject keys that its Redis does not have yet: set config.keyService.url to the internal listener of the console, such as https://keys.example.com:8082" $region)) -}}
{{- end -}}
{{- end -}}

{{/* Egress of the console to the Redis of each region. A Secret may hold an address; then the port is the default. */}}
{{- define "postern.regionsEgress" -}}
{{- $policies := .root.Values.networkPolicy.regions -}}
{{- $rules := list -}}
{{- range .regions -}}
{{- $policy := get $policies .name | default dict -}}
{{- $redis := .redis | default dict -}}
{{- $servers := include "postern.addresses" (dict "node" (omit $redis "sentinel")) -}}
{{- $rules = append $rules (include "postern.egress" (dict "values" $policy "addresses" $servers "default" 6379)) -}}
{{- $sentinels := ($redis.sentinel | default dict).urls -}}
{{- if and $sentinels (not $policy.ports) -}}
{{- $rules = append $rules (include "postern.egress" (dict "values" $policy "addresses" ($sentinels | join ",") "default" 26379)) -}}
{{- end -}}
{{- end -}}
{{- $rules | uniq | join "\n" -}}
{{- end -}}

{{/* What the notes say of regions; empty without. */}}
{{- define "postern.regionNotes" -}}
{{- $names := list -}}
{{- range (include "postern.regions" . | fromYaml).list }}{{ $names = append $names .name }}{{ end -}}
{{- with $names -}}
The console announces changes to the regions {{ . | join ", " }}. The gateways of another region are a release in its cluster, with
console.enabled: false, config.region, its own config.redis, config.keyService.url (the internal listener of this console), and the same
secrets keys.signingSecrets and keyService.token: docs/operate/regions.md
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.console.enabled) -}}
{{- $settings := include "postern.settingsFile" (dict "root" . "plane" "gateway") | fromYaml -}}
{{- with $settings.region -}}
The gateways belong to the region {{ . }}. Its console is behind {{ $settings.keyService.url }}
{{- end -}}
{{- end -}}
{{- end -}}
