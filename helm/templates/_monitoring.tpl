{{/* Whether the cluster knows a kind, or monitoring.trustApis is set: dict root, api. */}}
{{- define "postern.hasApi" -}}
{{- if or .root.Values.monitoring.trustApis (.root.Capabilities.APIVersions.Has .api) }}yes{{ end -}}
{{- end -}}

{{/* All groups of the rule files, as YAML `groups: […]`. Skips files without groups, such as unit tests. */}}
{{- define "postern.ruleFiles" -}}
{{- $groups := list -}}
{{- range $path, $_ := .Files.Glob "alerts/**.yaml" -}}
{{- $file := $.Files.Get $path | fromYaml -}}
{{- if kindIs "slice" $file.groups }}{{ $groups = concat $groups $file.groups }}{{ end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* Replaces the threshold of an expression, the first number it compares with, unless it is 0: dict expr, with. */}}
{{- define "postern.compare" -}}
{{- $first := regexReplaceAll "[^0-9.]" (regexFind "[<>]=? *[0-9.]+" .expr) "" -}}
{{- if or (empty $first) (eq $first "0") -}}
{{- .expr -}}
{{- else -}}
{{- regexReplaceAll (printf "([<>]=? *)%s([^0-9.]|$)" (replace "." "[.]" $first)) .expr (printf "${1}%s${2}" (toString .with)) -}}
{{- end -}}
{{- end -}}

{{/* One scrape endpoint: dict root, plane, monitor. The rules select jobs by "postern", so the job always contains it. */}}
{{- define "postern.endpoint" -}}
{{- $name := include "postern.planeName" . -}}
port: ops
path: /metrics
interval: {{ .monitor.interval }}
scrapeTimeout: {{ .monitor.scrapeTimeout }}
relabelings:
  - { targetLabel: job, replacement: {{ contains "postern" $name | ternary $name (printf "postern-%s" $name) }} }
  {{- with .monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A headless Service for the ops port, for Prometheus and the test. No route leads to it. */}}
{{- define "postern.opsService" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "postern.metadata" (merge (dict "name" (printf "%s-%s" (include "postern.planeName" .) (.suffix | default "ops"))) .) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "postern.selector" . | nindent 4 }}
  ports:
    - name: ops
      port: {{ include "postern.port" (merge (dict "listener" "ops") .) }}
      targetPort: ops
      protocol: TCP
{{- end -}}

{{/* URL of a runbook: dict url (with `{page}`, `{alert}` or `{anchor}`), link (`$runbooks#posternabsent`, or without an anchor). */}}
{{- define "postern.runbook" -}}
{{- $anchor := regexReplaceAll "^[^#]*#?" .link "" -}}
{{- if $anchor -}}
{{- .url | replace "{page}" "alerts.md" | replace "{alert}" $anchor | replace "{anchor}" $anchor -}}
{{- else -}}
{{- regexReplaceAll "[#?/]?[^/#?]*[{](anchor|alert)[}].*$" .url "" | replace "{page}" "alerts.md" -}}
{{- end -}}
{{- end -}}

{{/* The links of a dashboard or panel whose URL is known: dict links, urls. */}}
{{- define "postern.links" -}}
{{- $kept := list -}}
{{- range $link := .links -}}
{{- $place := regexFind "^[$][a-z]+" ($link.url | default "") -}}
{{- if not $place -}}
{{- $kept = append $kept $link -}}
{{- else if get $.urls $place -}}
{{- $url := ternary (include "postern.runbook" (dict "url" (get $.urls $place) "link" $link.url)) (get $.urls $place) (eq $place "$runbooks") -}}
{{- $kept = append $kept (merge (dict "url" $url) $link) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "links" $kept) -}}
{{- end -}}

{{/* A dashboard with the configured URLs in place of the placeholders: dict root, text. */}}
{{- define "postern.dashboard" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- $wanted := $monitoring.dashboards -}}
{{- $urls := dict "$runbooks" ($wanted.runbookUrl | default $monitoring.prometheusRule.runbookUrl) "$logs" $wanted.logsUrl "$traces" $wanted.tracesUrl -}}
{{- $dashboard := fromJson .text -}}
{{- $_ := set $dashboard "links" (include "postern.links" (dict "links" ($dashboard.links | default list) "urls" $urls) | fromJson).links -}}
{{- range $panel := $dashboard.panels -}}
{{- if $panel.links }}{{ $_ := set $panel "links" (include "postern.links" (dict "links" $panel.links "urls" $urls) | fromJson).links }}{{ end -}}
{{- end -}}
{{- if $dashboard.templating -}}
{{- $variables := list -}}
{{- range $variable := $dashboard.templating.list -}}
{{- if not (hasKey $urls (printf "$%s" $variable.name)) }}{{ $variables = append $variables $variable }}{{ end -}}
{{- end -}}
{{- $_ := set $dashboard "templating" (dict "list" $variables) -}}
{{- end -}}
{{- mustToRawJson $dashboard -}}
{{- end -}}
