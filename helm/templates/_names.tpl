{{/* Names and labels. Templates take the root, or a dict with root and plane ("gateway" or "console"). */}}

{{- define "postern.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "postern.fullname" -}}
{{- $name := include "postern.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- include "postern.cut" .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- include "postern.cut" .Release.Name -}}
{{- else -}}
{{- include "postern.cut" (printf "%s-%s" .Release.Name $name) -}}
{{- end -}}
{{- end -}}

{{/* At most 40 characters. A longer name ends in a hash, so that two releases with the same beginning have different names. */}}
{{- define "postern.cut" -}}
{{- if gt (len .) 40 -}}
{{- printf "%s-%s" (. | trunc 31 | trimSuffix "-") (. | sha256sum | trunc 8) -}}
{{- else -}}
{{- . | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What a long name was cut to before it ended in a hash; empty for a short one. */}}
{{- define "postern.formerName" -}}
{{- $name := include "postern.name" . -}}
{{- $whole := .Values.fullnameOverride | default (contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name)) -}}
{{- if gt (len $whole) 40 }}{{ $whole | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{/* The namespace of the objects. Helm keeps the release itself in its own. */}}
{{- define "postern.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "postern.planeName" -}}
{{- printf "%s-%s" (include "postern.fullname" .root) .plane -}}
{{- end -}}

{{/* The Service of the gateway's check listener. */}}
{{- define "postern.checkName" -}}
{{- printf "%s-check" (include "postern.planeName" (dict "root" . "plane" "gateway")) -}}
{{- end -}}

{{/* The Service of the console's internal listener. */}}
{{- define "postern.internalName" -}}
{{- printf "%s-internal" (include "postern.planeName" (dict "root" . "plane" "console")) -}}
{{- end -}}

{{- define "postern.selector" -}}
app.kubernetes.io/name: {{ include "postern.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .plane }}
{{- end -}}

{{/* Labels of an object. Omit the plane for an object that belongs to both. */}}
{{- define "postern.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: {{ include "postern.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .plane }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: postern
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: dict root, plane, name, and optionally namespace, labels and annotations. */}}
{{- define "postern.metadata" -}}
name: {{ .name }}
namespace: {{ .namespace | default (include "postern.namespace" .root) }}
labels:
  {{- include "postern.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "postern.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "postern.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "postern.image" -}}
{{- include "postern.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{/* The image values of a plane, as YAML: `image`, overridden by `gateway.image` or `console.image`. Its tag replaces a common digest. */}}
{{- define "postern.planeImage" -}}
{{- $own := deepCopy (index .root.Values .plane).image -}}
{{- if and $own.tag (not $own.digest) }}{{ $_ := set $own "digest" "" }}{{ end -}}
{{- mergeOverwrite (deepCopy .root.Values.image) $own | toYaml -}}
{{- end -}}

{{/* Name of an image: dict root, image. */}}
{{- define "postern.imageOf" -}}
{{- with .root.Values.global.imageRegistry | default .image.registry }}{{ . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "postern.planes" -}}
{{- $planes := list -}}
{{- if .Values.gateway.enabled }}{{ $planes = append $planes "gateway" }}{{ end -}}
{{- if .Values.console.enabled }}{{ $planes = append $planes "console" }}{{ end -}}
{{- $planes | join " " -}}
{{- end -}}
