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

{{/* dict root, plane, monitor. The rules know their targets by a job with "postern" in it, whatever the release is called. */}}
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
