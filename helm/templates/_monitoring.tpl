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

{{- define "postern.endpoint" -}}
port: ops
path: /metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
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
