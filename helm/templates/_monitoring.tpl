{{/* Whether the cluster has a kind, or is trusted to: dict root, api. */}}
{{- define "postern.hasApi" -}}
{{- if or .root.Values.monitoring.trustApis (.root.Capabilities.APIVersions.Has .api) }}yes{{ end -}}
{{- end -}}

{{/* All groups of the rules files, as YAML `groups: […]`. Files that hold none, such as unit tests, are passed over. */}}
{{- define "postern.ruleFiles" -}}
{{- $groups := list -}}
{{- range $path, $_ := .Files.Glob "alerts/**.yaml" -}}
{{- $file := $.Files.Get $path | fromYaml -}}
{{- if kindIs "slice" $file.groups }}{{ $groups = concat $groups $file.groups }}{{ end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* An expression that compares with another number than its first: dict expr, with. A comparison with `> 0` stays. */}}
{{- define "postern.compare" -}}
{{- $first := regexReplaceAll "[^0-9.]" (regexFind "[<>]=? *[0-9.]+" .expr) "" -}}
{{- if or (empty $first) (eq $first "0") -}}
{{- .expr -}}
{{- else -}}
{{- regexReplaceAll (printf "([<>]=? *)%s([^0-9.]|$)" (replace "." "[.]" $first)) .expr (printf "${1}%s${2}" (toString .with)) -}}
{{- end -}}
{{- end -}}

{{/* dict root, plane, monitor. The rules know their targets by a job with "postern" in it, for any name of the release. */}}
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

{{/* The ops port by a name of its own, for Prometheus and for the test; no route ever leads here. */}}
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

{{/* The place of a runbook: dict url (with `{page}`, `{alert}` or `{anchor}`), link (`$runbooks#posternabsent`, or without an anchor). */}}
{{- define "postern.runbook" -}}
{{- $anchor := regexReplaceAll "^[^#]*#?" .link "" -}}
{{- if $anchor -}}
{{- .url | replace "{page}" "alerts.md" | replace "{alert}" $anchor | replace "{anchor}" $anchor -}}
{{- else -}}
{{- regexReplaceAll "[#?/]?[^/#?]*[{](anchor|alert)[}].*$" .url "" | replace "{page}" "alerts.md" -}}
{{- end -}}
{{- end -}}

{{/* Links of a dashboard or a panel that lead somewhere: dict links, urls. */}}
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

{{/* A dashboard with your addresses in place of ours, which lead nowhere: dict root, text. */}}
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
