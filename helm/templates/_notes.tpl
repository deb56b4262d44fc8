{{/* A separate template, so that a test can render it without a cluster. */}}
{{- define "postern.notes" -}}
Postern {{ .Chart.AppVersion }} is installed as {{ .Release.Name }}.
{{- $gateway := include "postern.planeName" (dict "root" . "plane" "gateway") }}
{{- $console := include "postern.planeName" (dict "root" . "plane" "console") }}
{{- $generated := list }}
{{- range $plane := include "postern.planes" . | splitList " " | compact }}
{{- $generated = concat $generated (include "postern.wanting" (dict "root" $ "plane" $plane) | splitList " " | compact) }}
{{- end }}
{{- if .Values.gateway.enabled }}

Public API, inside the cluster: http://{{ $gateway }}.{{ include "postern.namespace" . }}.svc:{{ .Values.gateway.service.port }}/api/v1
{{- end }}
{{- if .Values.console.enabled }}

Issue the first key, inside the console's pod with its mounted admin token:

  kubectl -n {{ include "postern.namespace" . }} exec {{ eq (include "postern.database" .) "sqlite" | ternary "statefulset" "deployment" }}/{{ $console }} -- \
    postern keys issue --name first --workspace ws_1 --scope workspace:read --scope files:read \
    --url http://127.0.0.1:{{ include "postern.port" (dict "root" . "plane" "console" "listener" "console") }} \
    --token-file {{ include "postern.secretsDirectory" . }}/console.adminToken
{{- end }}
{{- with include "postern.regionNotes" . }}

{{ . }}
{{- end }}
{{- with include "postern.publicUrl" . }}

Users sign in at {{ . }}. Register at the identity provider the redirect URI {{ . }}/sign-in/callback
{{- end }}
{{- if .Values.tests.enabled }}

Test the release:  helm -n {{ .Release.Namespace }} test {{ .Release.Name }}
{{- end }}
{{- with include "postern.warnings" (dict "root" . "generated" $generated) | fromYamlArray }}

Warnings:
{{- range . }}
  - {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* URL at which users sign in; empty if sign-in is not configured. */}}
{{- define "postern.publicUrl" -}}
{{- if .Values.console.enabled -}}
{{- $settings := include "postern.settingsFile" (dict "root" . "plane" "console") | fromYaml -}}
{{- if include "postern.at" (dict "tree" $settings "path" "console.oidc.issuer") -}}
{{- include "postern.at" (dict "tree" $settings "path" "console.publicUrl") | trimSuffix "/" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Warnings about the values, as a YAML list. */}}
{{- define "postern.warnings" -}}
{{- $values := .root.Values -}}
{{- $say := list -}}
{{- if .generated -}}
{{- $say = append $say (printf "The chart generated the Secret %s (%s). Back it up: without the signing secret no key is valid." (include "postern.generatedName" .root) (.generated | uniq | join ", ")) -}}
{{- end -}}
{{- if $values.gateway.enabled -}}
{{- $place := dict "root" .root "plane" "gateway" -}}
{{- $settings := include "postern.settingsFile" $place | fromYaml -}}
{{- $own := kindIs "invalid" $values.gateway.replicas | ternary 2 $values.gateway.replicas -}}
{{- $pods := $values.gateway.autoscaling.enabled | ternary $values.gateway.autoscaling.minReplicas $own | int -}}
{{- if lt $pods 2 }}{{ $say = append $say "Only one gateway runs: requests are lost when it is replaced. Set gateway.replicas to 2 or more." }}{{ end -}}
{{- if and (gt $pods 1) (not $values.gateway.podDisruptionBudget.enabled) }}{{ $say = append $say "No disruption budget: draining nodes may stop all gateways at once. Set gateway.podDisruptionBudget.enabled." }}{{ end -}}
{{- if not (include "postern.usesRedis" $place) }}{{ $say = append $say "No Redis: gateways receive no invalidations and verify each key at the key service every second. Set secrets.redis.url.existingSecret." }}{{ end -}}
{{- if not (or $values.console.enabled (include "postern.at" (dict "tree" $settings "path" "keyService.url"))) }}{{ $say = append $say "This release cannot issue keys: set console.enabled, or config.keyService.url to a key service of your own." }}{{ end -}}
{{- if and $settings.region (not $values.console.enabled) (hasPrefix "http://" (include "postern.at" (dict "tree" $settings "path" "keyService.url"))) }}{{ $say = append $say "The gateways send the key service token to another cluster without TLS: set an https address in config.keyService.url." }}{{ end -}}
{{- if not (or $values.gateway.httpRoute.enabled $values.gateway.ingress.enabled (ne $values.gateway.service.type "ClusterIP")) }}{{ $say = append $say "The public API is not reachable from outside the cluster: set gateway.httpRoute or gateway.ingress." }}{{ end -}}
{{- if and (or $values.gateway.httpRoute.enabled $values.gateway.ingress.enabled) (not (include "postern.at" (dict "tree" $settings "path" "gateway.trustedProxies"))) }}{{ $say = append $say "The gateway does not trust the client addresses that your proxy sends: set config.gateway.trustedProxies to its CIDRs." }}{{ end -}}
{{- if not (($values.gateway.resources.limits | default dict).memory) }}{{ $say = append $say "No memory limit: Node.js sizes its heap by the memory of the node. Set gateway.resources.limits.memory." }}{{ end -}}
{{- end -}}
{{- if and $values.console.enabled (eq (include "postern.database" .root) "sqlite") }}{{ $say = append $say "The console stores keys in SQLite on one volume: back it up, or set secrets.database.url.existingSecret for PostgreSQL." }}{{ end -}}
{{- if $values.console.enabled -}}
{{- $reached := or $values.console.httpRoute.enabled $values.console.ingress.enabled -}}
{{- $settings := include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml -}}
{{- if not (include "postern.publicUrl" .root) }}{{ $say = append $say "Sign-in to the console is not configured; only the admin API can be used. Set config.console.publicUrl and config.console.oidc." }}{{ end -}}
{{- if and $reached (not (include "postern.at" (dict "tree" $settings "path" "console.trustedProxies"))) }}{{ $say = append $say "The console sees all users at the address of its proxy, so they share one sign-in limit: set config.console.trustedProxies to its CIDRs." }}{{ end -}}
{{- end -}}
{{- if and $values.console.enabled $values.networkPolicy.enabled -}}
{{- $settings := include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml -}}
{{- $wide := list -}}
{{- if and (include "postern.triedApi" $settings) (not $values.networkPolicy.triedRequests.to) }}{{ $wide = append $wide "networkPolicy.triedRequests.to" }}{{ end -}}
{{- if and (include "postern.at" (dict "tree" $settings "path" "console.oidc.issuer")) (not $values.networkPolicy.identityProvider.to) }}{{ $wide = append $wide "networkPolicy.identityProvider.to" }}{{ end -}}
{{- if and (include "postern.at" (dict "tree" $settings "path" "console.webhook.url")) (not $values.networkPolicy.webhook.to) }}{{ $wide = append $wide "networkPolicy.webhook.to" }}{{ end -}}
{{- if and $wide (eq (include "postern.at" (dict "tree" $settings "path" "webhooks.workspaces.enabled")) "true") }}{{ $say = append $say (printf "The NetworkPolicy lets the console reach private addresses on the ports of its identity provider and webhook, although webhooks of workspaces need public ones alone: set %s." (join " and " $wide)) }}{{ end -}}
{{- end -}}
{{- if $values.networkPolicy.enabled -}}
{{- $open := list -}}
{{- if and $values.gateway.enabled (or $values.gateway.httpRoute.enabled $values.gateway.ingress.enabled) (not $values.networkPolicy.gatewayFrom) }}{{ $open = append $open "networkPolicy.gatewayFrom" }}{{ end -}}
{{- if and $values.console.enabled (not $values.networkPolicy.consoleFrom) }}{{ $open = append $open "networkPolicy.consoleFrom" }}{{ end -}}
{{- if $open }}{{ $say = append $say (printf "The NetworkPolicy admits every peer where only your ingress needs to connect: name it in %s." (join " and " $open)) }}{{ end -}}
{{- end -}}
{{- if not $values.networkPolicy.enabled }}{{ $say = append $say "Every pod of the cluster can connect to these pods: set networkPolicy.enabled." }}{{ end -}}
{{- with $values.monitoring.prometheusRule -}}
{{- if and .enabled (not .runbookUrl) }}{{ $say = append $say "Alerts have no links to runbooks: set monitoring.prometheusRule.runbookUrl to your copy of runbooks/." }}{{ end -}}
{{- if and .enabled (not (or .selector $values.monitoring.podMonitor.enabled $values.monitoring.serviceMonitor.enabled)) }}{{ $say = append $say "The alert rules read the jobs of this chart's monitors, and none is enabled: enable monitoring.podMonitor, or set monitoring.prometheusRule.selector." }}{{ end -}}
{{- end -}}
{{- if not $values.image.digest }}{{ $say = append $say "The image is referenced by a tag, which may change: set image.digest." }}{{ end -}}
{{- range $switch, $kind := dict "podMonitor" "monitoring.coreos.com/v1/PodMonitor" "serviceMonitor" "monitoring.coreos.com/v1/ServiceMonitor" "prometheusRule" "monitoring.coreos.com/v1/PrometheusRule" -}}
{{- if and (index $values.monitoring $switch).enabled (not (include "postern.hasApi" (dict "root" $.root "api" $kind))) }}{{ $say = append $say (printf "monitoring.%s is enabled, but the cluster does not know %s: the chart created no such object. Install the Prometheus operator, or set monitoring.trustApis." $switch $kind) }}{{ end -}}
{{- end -}}
{{- toYaml $say -}}
{{- end -}}
