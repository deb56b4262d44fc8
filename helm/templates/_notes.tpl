{{/* In a template of its own, so that a test can read it without a cluster. */}}
{{- define "postern.notes" -}}
Postern {{ .Chart.AppVersion }} is installed as {{ .Release.Name }}.
{{- $gateway := include "postern.planeName" (dict "root" . "plane" "gateway") }}
{{- $console := include "postern.planeName" (dict "root" . "plane" "console") }}
{{- $generated := list }}
{{- range $plane := include "postern.planes" . | splitList " " | compact }}
{{- $generated = concat $generated (include "postern.wanting" (dict "root" $ "plane" $plane) | splitList " " | compact) }}
{{- end }}
{{- if .Values.gateway.enabled }}

The public API, inside the cluster:  http://{{ $gateway }}.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}/api/v1
{{- end }}
{{- if .Values.console.enabled }}

The first key, made in the console's own pod, whose mounted admin token it uses:

  kubectl -n {{ .Release.Namespace }} exec {{ eq (include "postern.database" .) "sqlite" | ternary "statefulset" "deployment" }}/{{ $console }} -- \
    /nodejs/bin/node /app/dist/main.js keys issue --name first --workspace ws_1 --scope workspace:read --scope files:read \
    --url http://127.0.0.1:{{ include "postern.port" (dict "root" . "plane" "console" "listener" "console") }} \
    --token-file {{ include "postern.secretsDirectory" . }}/console.adminToken
{{- end }}
{{- with include "postern.publicUrl" . }}

People sign in at {{ . }}; the provider must know the redirect URI {{ . }}/sign-in/callback
{{- end }}
{{- if .Values.tests.enabled }}

Whether it works:  helm -n {{ .Release.Namespace }} test {{ .Release.Name }}
{{- end }}
{{- with include "postern.warnings" (dict "root" . "generated" $generated) | fromYamlArray }}

To be considered:
{{- range . }}
  - {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where people sign in; empty where they cannot. */}}
{{- define "postern.publicUrl" -}}
{{- if .Values.console.enabled -}}
{{- $settings := include "postern.settingsFile" (dict "root" . "plane" "console") | fromYaml -}}
{{- if include "postern.at" (dict "tree" $settings "path" "console.oidc.issuer") -}}
{{- include "postern.at" (dict "tree" $settings "path" "console.publicUrl") | trimSuffix "/" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Sentences that follow from the values, as a YAML list. */}}
{{- define "postern.warnings" -}}
{{- $values := .root.Values -}}
{{- $say := list -}}
{{- if .generated -}}
{{- $say = append $say (printf "The Secret %s was made by the chart (%s). Keep a copy: without the signing secret no key is good." (include "postern.generatedName" .root) (.generated | uniq | join ", ")) -}}
{{- end -}}
{{- if $values.gateway.enabled -}}
{{- $place := dict "root" .root "plane" "gateway" -}}
{{- $settings := include "postern.settingsFile" $place | fromYaml -}}
{{- $pods := $values.gateway.autoscaling.enabled | ternary $values.gateway.autoscaling.minReplicas $values.gateway.replicas | int -}}
{{- if lt $pods 2 }}{{ $say = append $say "One gateway alone: requests are lost whenever it is replaced. Set gateway.replicas to 2 or more." }}{{ end -}}
{{- if and (gt $pods 1) (not $values.gateway.podDisruptionBudget.enabled) }}{{ $say = append $say "No disruption budget: all gateways may go at once when nodes are emptied. Set gateway.podDisruptionBudget.enabled." }}{{ end -}}
{{- if not (include "postern.usesRedis" $place) }}{{ $say = append $say "No Redis: gateways receive no invalidations and ask for each record again every second. Set secrets.redis.url.existingSecret." }}{{ end -}}
{{- if not (or $values.console.enabled (include "postern.at" (dict "tree" $settings "path" "keyService.url"))) }}{{ $say = append $say "This release issues no keys: set console.enabled, or config.keyService.url to a key service of your own." }}{{ end -}}
{{- if not (or $values.gateway.httpRoute.enabled $values.gateway.ingress.enabled (ne $values.gateway.service.type "ClusterIP")) }}{{ $say = append $say "The public API is not reachable from outside the cluster: set gateway.httpRoute or gateway.ingress." }}{{ end -}}
{{- if and (or $values.gateway.httpRoute.enabled $values.gateway.ingress.enabled) (not (include "postern.at" (dict "tree" $settings "path" "gateway.trustedProxies"))) }}{{ $say = append $say "The proxy in front is not believed about its clients' addresses: set config.gateway.trustedProxies to its CIDRs." }}{{ end -}}
{{- if not (($values.gateway.resources.limits | default dict).memory) }}{{ $say = append $say "No memory limit: Node sizes its heap by the node's memory. Set gateway.resources.limits.memory." }}{{ end -}}
{{- end -}}
{{- if and $values.console.enabled (eq (include "postern.database" .root) "sqlite") }}{{ $say = append $say "The console keeps its keys in SQLite on one volume: back it up, or set secrets.database.url.existingSecret for PostgreSQL." }}{{ end -}}
{{- if $values.console.enabled -}}
{{- $reached := or $values.console.httpRoute.enabled $values.console.ingress.enabled -}}
{{- $settings := include "postern.settingsFile" (dict "root" .root "plane" "console") | fromYaml -}}
{{- if not (include "postern.publicUrl" .root) }}{{ $say = append $say "People have no way to sign in to the console, programs alone use it: set config.console.publicUrl and config.console.oidc." }}{{ end -}}
{{- if and $reached (not (include "postern.at" (dict "tree" $settings "path" "console.trustedProxies"))) }}{{ $say = append $say "To the console all who sign in come from its proxy's address, and share one limit: set config.console.trustedProxies to its CIDRs." }}{{ end -}}
{{- end -}}
{{- if not $values.networkPolicy.enabled }}{{ $say = append $say "Every pod of the cluster reaches these: set networkPolicy.enabled." }}{{ end -}}
{{- with $values.monitoring.prometheusRule -}}
{{- if and .enabled (not .runbookUrl) }}{{ $say = append $say "Alerts carry no link to what to do: set monitoring.prometheusRule.runbookUrl to where you keep runbooks/." }}{{ end -}}
{{- end -}}
{{- if not $values.image.digest }}{{ $say = append $say "The image is named by a tag, which may change: set image.digest." }}{{ end -}}
{{- range $switch, $kind := dict "podMonitor" "monitoring.coreos.com/v1/PodMonitor" "serviceMonitor" "monitoring.coreos.com/v1/ServiceMonitor" "prometheusRule" "monitoring.coreos.com/v1/PrometheusRule" -}}
{{- if and (index $values.monitoring $switch).enabled (not (include "postern.hasApi" (dict "root" $.root "api" $kind))) }}{{ $say = append $say (printf "monitoring.%s is on, but the cluster has no %s: nothing was made. Install the Prometheus operator, or set monitoring.trustApis." $switch $kind) }}{{ end -}}
{{- end -}}
{{- toYaml $say -}}
{{- end -}}
