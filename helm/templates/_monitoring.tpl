{{/* Whether the cluster knows a kind, or monitoring.trustApis is set: dict root, api. */}}
{{- define "postern.hasApi" -}}
{{- if or .root.Values.monitoring.trustApis (.root.Capabilities.APIVersions.Has .api) }}yes{{ end -}}
{{- end -}}

{{/* All groups of the rule files, as YAML `groups: […]`, each with its `file`. Skips files without groups, such as unit tests. */}}
{{- define "postern.ruleFiles" -}}
{{- $groups := list -}}
{{- range $path, $_ := .Files.Glob "alerts/**.yaml" -}}
{{- $file := $.Files.Get $path | fromYaml -}}
{{- if kindIs "slice" $file.groups -}}
{{- range $file.groups }}{{ $groups = append $groups (merge (dict "file" (base $path)) .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* The planes whose series a rule file reads, of those in the release: dict root, file. */}}
{{- define "postern.rulePlanes" -}}
{{- $of := dict "console.yaml" (list "console") "regions.yaml" (list "console") "backup.yaml" (list "console") "process.yaml" (list "gateway" "console") "redis.yaml" (list "gateway" "console") -}}
{{- $planes := list -}}
{{- range get $of .file | default (list "gateway") -}}
{{- if has . (include "postern.planes" $.root | splitList " ") }}{{ $planes = append $planes . }}{{ end -}}
{{- end -}}
{{- $planes | join " " -}}
{{- end -}}

{{/* The planes of the release whose jobs the selectors of a rule file match: dict root, file. Rules about keys ask whether the console explains a fault. */}}
{{- define "postern.scopePlanes" -}}
{{- eq .file "keys.yaml" | ternary (include "postern.planes" .root) (include "postern.rulePlanes" .) -}}
{{- end -}}

{{/* An expression of a rule file, for this release alone: dict root, expr, planes. Each selector of a file has one of these matchers. */}}
{{- define "postern.scoped" -}}
{{- $jobs := list -}}
{{- range .planes }}{{ $jobs = append $jobs (include "postern.job" (dict "root" $.root "plane" .)) }}{{ end -}}
{{- $operator := eq (len $jobs) 1 | ternary "=" "=~" -}}
{{- $release := printf "namespace=%q,job%s%q" (include "postern.namespace" .root) $operator (join "|" $jobs) -}}
{{- $autoscaler := printf "namespace=%q,horizontalpodautoscaler=%q" (include "postern.namespace" .root) (include "postern.planeName" (dict "root" .root "plane" "gateway")) -}}
{{- $backup := printf "namespace=%q,cronjob=%q" (include "postern.namespace" .root) (include "postern.planeName" (dict "root" .root "plane" "backup")) -}}
{{- $jobs := printf "namespace=%q,job_name=~\"%s-[0-9]+\"" (include "postern.namespace" .root) (include "postern.planeName" (dict "root" .root "plane" "backup")) -}}
{{- .expr | replace `job_name=~".*postern.*-backup-[0-9]+"` $jobs | replace `cronjob=~".*postern.*-backup"` $backup | replace `job=~".+"` (.root.Values.monitoring.prometheusRule.selector | default $release) | replace `horizontalpodautoscaler=~".+-gateway"` $autoscaler -}}
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

{{/* The job under which a plane is scraped, which always contains "postern": dict root, plane. */}}
{{- define "postern.job" -}}
{{- $name := include "postern.planeName" . -}}
{{- contains "postern" $name | ternary $name (printf "postern-%s" $name) -}}
{{- end -}}

{{/* One scrape endpoint: dict root, plane, monitor. */}}
{{- define "postern.endpoint" -}}
port: ops
path: /metrics
interval: {{ .monitor.interval }}
scrapeTimeout: {{ .monitor.scrapeTimeout }}
relabelings:
  - { targetLabel: job, replacement: {{ include "postern.job" . }} }
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
  {{- with include "postern.ipFamilies" (dict "root" .root "spec" dict) }}
  {{- . | nindent 2 }}
  {{- end }}
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
{{- $panels := $dashboard.panels | default list -}}
{{- range $row := $panels }}{{ $panels = concat $panels ($row.panels | default list) }}{{ end -}}
{{- range $panel := $panels -}}
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
