{{/* The pod of a plane: dict root, plane, and data (name of a claim) if it has a volume. */}}
{{- define "postern.podSettings" -}}
{{- mergeOverwrite (deepCopy .root.Values.pod) (deepCopy (index .root.Values .plane).pod) | toJson -}}
{{- end -}}

{{- define "postern.podTemplate" -}}
{{- $root := .root -}}
{{- $values := index .root.Values .plane -}}
{{- $pod := include "postern.podSettings" . | fromJson -}}
{{- $references := (include "postern.references" . | fromJson).found -}}
{{- $generated := include "postern.wanting" . -}}
{{- $image := include "postern.planeImage" . | fromYaml -}}
metadata:
  labels:
    {{- include "postern.selector" . | nindent 4 }}
    app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
    app.kubernetes.io/part-of: postern
    {{- with $root.Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $pod.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The settings file, mounted below: each revision of the workload carries its own, so that every rollback restores it.
    postern/settings: |
      # Rendered from the chart's values. Settings not listed here have the defaults of config/default.yaml.
      {{- include "postern.settingsFile" . | nindent 6 }}
    {{- if $generated }}
    checksum/secret: {{ include "postern.generatedData" $root | sha256sum }}
    {{- end }}
    kubectl.kubernetes.io/default-container: {{ .plane }}
    {{- with $pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "postern.serviceAccountName" $root }}
  automountServiceAccountToken: {{ $root.Values.serviceAccount.automount }}
  # Kubernetes would set POSTERN_… variables for Services of this namespace, which Postern would read as settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ kindIs "invalid" $pod.terminationGracePeriodSeconds | ternary (include "postern.drainSeconds" . | int) ($pod.terminationGracePeriodSeconds | default 0 | int) }}
  {{- with concat (list) $root.Values.global.imagePullSecrets $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "postern.securityContext" (dict "value" $pod.securityContext) | nindent 2 }}
  {{- with $pod.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- range $name := list "runtimeClassName" "schedulerName" "dnsPolicy" }}
  {{- with index $pod $name }}
  {{ $name }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- if not (kindIs "invalid" $pod.hostUsers) }}
  hostUsers: {{ $pod.hostUsers }}
  {{- end }}
  {{- range $name := list "nodeSelector" "tolerations" "affinity" "hostAliases" "dnsConfig" }}
  {{- with index $pod $name }}
  {{ $name }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if $pod.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml $pod.topologySpreadConstraints | nindent 4 }}
  {{- else if not .data }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "postern.selector" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  {{- with $pod.initContainers }}
  initContainers:
    {{- tpl (toYaml .) $root | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .plane }}
      image: {{ include "postern.imageOf" (dict "root" $root "image" $image) }}
      imagePullPolicy: {{ $image.pullPolicy }}
      args: [{{ .plane }}]
      {{- include "postern.securityContext" (dict "value" $pod.containerSecurityContext) | nindent 6 }}
      env:
        - name: POSTERN_CONFIG
          value: /etc/postern/config/postern.yaml
        {{- $names := list }}
        {{- range $pod.extraEnv }}{{ $names = append $names .name }}{{ end }}
        {{- if and (eq .plane "console") (not (has "POSTERN_CONSOLE_HOST" $names)) }}
        # In place of the image's own value, which would take precedence over the settings file.
        - name: POSTERN_CONSOLE_HOST
          value: {{ include "postern.at" (dict "tree" (include "postern.given" . | fromJson) "path" "console.host") | default "::" | quote }}
        {{- end }}
        {{- $memory := ($values.resources.limits | default dict).memory }}
        {{- if and $pod.heapPercent $memory (not (has "NODE_OPTIONS" $names)) }}
        - name: NODE_OPTIONS
          value: --max-old-space-size-percentage={{ $pod.heapPercent }}
        {{- end }}
        {{- with $pod.extraEnv }}
        {{- tpl (toYaml .) $root | nindent 8 }}
        {{- end }}
      {{- with $pod.extraEnvFrom }}
      envFrom:
        {{- tpl (toYaml .) $root | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ include "postern.port" (merge (dict "listener" .plane) .) }}
          protocol: TCP
        {{- if and (eq .plane "gateway") (include "postern.checkPort" $root) }}
        - name: check
          containerPort: {{ include "postern.checkPort" $root }}
          protocol: TCP
        {{- end }}
        {{- if eq .plane "console" }}
        - name: internal
          containerPort: {{ include "postern.port" (merge (dict "listener" "console.internal") .) }}
          protocol: TCP
        {{- end }}
        - name: ops
          containerPort: {{ include "postern.port" (merge (dict "listener" "ops") .) }}
          protocol: TCP
      startupProbe:
        httpGet: { path: /livez, port: ops }
        {{- toYaml $pod.probes.startup | nindent 8 }}
      livenessProbe:
        httpGet: { path: /livez, port: ops }
        {{- toYaml $pod.probes.liveness | nindent 8 }}
      readinessProbe:
        httpGet: { path: /readyz, port: ops }
        {{- toYaml $pod.probes.readiness | nindent 8 }}
      {{- with $pod.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: config
          mountPath: /etc/postern/config
          readOnly: true
        {{- if $references }}
        - name: secrets
          mountPath: {{ include "postern.secretsDirectory" . }}
          readOnly: true
        {{- end }}
        - name: tmp
          mountPath: /tmp
        {{- if .data }}
        - name: data
          mountPath: {{ include "postern.dataDirectory" . }}
        {{- end }}
        {{- with $pod.extraVolumeMounts }}
        {{- tpl (toYaml .) $root | nindent 8 }}
        {{- end }}
    {{- with $pod.extraContainers }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      downwardAPI:
        items:
          - path: postern.yaml
            fieldRef: { fieldPath: "metadata.annotations['postern/settings']" }
    {{- if $references }}
    - name: secrets
      projected:
        # Without fsGroup, the group of the files is unknown, so every user in the container may read them.
        defaultMode: {{ kindIs "invalid" ($pod.securityContext | default dict).fsGroup | ternary 0444 0440 }}
        sources:
          {{- range $references }}
          - {{ .kind }}:
              name: {{ tpl .name $root }}
              items: [{ key: {{ .key | quote }}, path: {{ .path | quote }} }]
          {{- end }}
    {{- end }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ $pod.tmpSizeLimit }}
    {{- with .data }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ . }}
    {{- end }}
    {{- with $pod.extraVolumes }}
    {{- tpl (toYaml .) $root | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* A security context without its null fields, which the platform chooses. */}}
{{- define "postern.securityContext" -}}
{{- $kept := dict -}}
{{- range $name, $value := .value }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $name $value }}{{ end }}{{ end -}}
securityContext:
  {{- toYaml $kept | nindent 2 }}
{{- end -}}

{{/* The address families of a Service: dict root, spec (its further fields, which come first). Kubernetes chooses where none is set. */}}
{{- define "postern.ipFamilies" -}}
{{- $families := dict -}}
{{- range $name := list "ipFamilyPolicy" "ipFamilies" -}}
{{- $value := index $.root.Values $name -}}
{{- if and $value (not (hasKey ($.spec | default dict) $name)) }}{{ $_ := set $families $name $value }}{{ end -}}
{{- end -}}
{{- if $families }}{{ toYaml $families }}{{ end -}}
{{- end -}}

{{- define "postern.service" -}}
{{- $service := (index .root.Values .plane).service -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .) "labels" $service.labels "annotations" $service.annotations) .) | nindent 2 }}
spec:
  type: {{ $service.type }}
  {{- with include "postern.ipFamilies" (dict "root" .root "spec" $service.spec) }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $service.spec }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  selector:
    {{- include "postern.selector" . | nindent 4 }}
  ports:
    - name: http
      port: {{ $service.port }}
      targetPort: http
      {{- with $service.nodePort }}
      nodePort: {{ . }}
      {{- end }}
      protocol: TCP
      appProtocol: http
{{- end -}}

{{/* The Service of the console's internal listener. Its type does not follow that of the console's own Service. */}}
{{- define "postern.internalService" -}}
{{- $place := dict "root" . "plane" "console" -}}
{{- $service := .Values.console.internalService -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.internalName" .) "labels" $service.labels "annotations" $service.annotations) $place) | nindent 2 }}
spec:
  type: {{ $service.type }}
  {{- with include "postern.ipFamilies" (dict "root" . "spec" $service.spec) }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $service.spec }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  selector:
    {{- include "postern.selector" $place | nindent 4 }}
  ports:
    - name: internal
      port: {{ $service.port }}
      targetPort: internal
      {{- with $service.nodePort }}
      nodePort: {{ . }}
      {{- end }}
      protocol: TCP
      appProtocol: {{ include "postern.internalTls" . | empty | ternary "http" "https" }}
{{- end -}}

{{/* The Service of the gateway's check listener: always a ClusterIP, because only a proxy may reach it. */}}
{{- define "postern.checkService" -}}
{{- $place := dict "root" . "plane" "gateway" -}}
{{- $service := .Values.gateway.checkService -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.checkName" .) "labels" $service.labels "annotations" $service.annotations) $place) | nindent 2 }}
spec:
  type: ClusterIP
  {{- with include "postern.ipFamilies" (dict "root" . "spec" dict) }}
  {{- . | nindent 2 }}
  {{- end }}
  selector:
    {{- include "postern.selector" $place | nindent 4 }}
  ports:
    - name: check
      port: {{ $service.port }}
      targetPort: check
      protocol: TCP
      appProtocol: http
{{- end -}}

{{- define "postern.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .)) .) | nindent 2 }}
spec:
  {{- $budget := (index .root.Values .plane).podDisruptionBudget }}
  {{- range $name := list "maxUnavailable" "minAvailable" }}
  {{- if not (kindIs "invalid" (index $budget $name)) }}
  {{ $name }}: {{ index $budget $name }}
  {{- end }}
  {{- end }}
  unhealthyPodEvictionPolicy: {{ $budget.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels:
      {{- include "postern.selector" . | nindent 6 }}
{{- end -}}

{{/*
Number of pods; empty beside an autoscaler, which alone owns the field. A number in the manifest, even the live one, would be
what a rollback restores, and Helm 4 would conflict with the autoscaler.
*/}}
{{- define "postern.replicas" -}}
{{- $values := index .root.Values .plane -}}
{{- if not (or (and (eq .plane "gateway") $values.autoscaling.enabled) (kindIs "invalid" $values.replicas)) -}}
{{- $values.replicas -}}
{{- end -}}
{{- end -}}

{{/* The fewest pods that a plane has in operation. Another autoscaler is expected to keep at least two. */}}
{{- define "postern.fewestPods" -}}
{{- $values := index .root.Values .plane -}}
{{- if and (eq .plane "gateway") $values.autoscaling.enabled -}}
{{- $values.autoscaling.minReplicas -}}
{{- else -}}
{{- kindIs "invalid" $values.replicas | ternary 2 $values.replicas -}}
{{- end -}}
{{- end -}}

{{- define "postern.deployment" -}}
{{- $values := index .root.Values .plane -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .) "labels" $values.labels "annotations" $values.annotations) .) | nindent 2 }}
spec:
  {{- with include "postern.replicas" . }}
  replicas: {{ . }}
  {{- end }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  minReadySeconds: {{ $values.minReadySeconds }}
  {{- with $values.progressDeadlineSeconds }}
  progressDeadlineSeconds: {{ . }}
  {{- end }}
  strategy:
    {{- eq $values.strategy.type "Recreate" | ternary (omit $values.strategy "rollingUpdate") $values.strategy | toYaml | nindent 4 }}
  selector:
    matchLabels:
      {{- include "postern.selector" . | nindent 6 }}
  template:
    {{- include "postern.podTemplate" . | nindent 4 }}
{{- end -}}

{{- define "postern.httpRoute" -}}
{{- $route := (index .root.Values .plane).httpRoute -}}
{{- $service := (index .root.Values .plane).service -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .) "labels" $route.labels "annotations" $route.annotations) .) | nindent 2 }}
spec:
  parentRefs:
    {{- toYaml $route.parentRefs | nindent 4 }}
  {{- with $route.hostnames }}
  hostnames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    {{- range $route.rules }}
    {{- $rule := deepCopy . }}
    {{- if not $rule.backendRefs }}
    {{- $_ := set $rule "backendRefs" (list (dict "name" (include "postern.planeName" $) "port" $service.port)) }}
    {{- end }}
    - {{- toYaml $rule | nindent 6 }}
    {{- end }}
{{- end -}}

{{- define "postern.ingress" -}}
{{- $ingress := (index .root.Values .plane).ingress -}}
{{- $everything := list (dict "path" "/" "pathType" "Prefix") -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "postern.metadata" (merge (dict "name" (include "postern.planeName" .) "labels" $ingress.labels "annotations" $ingress.annotations) .) | nindent 2 }}
spec:
  {{- with $ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with $ingress.tls }}
  tls:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    {{- range $ingress.hosts }}
    - host: {{ .host | quote }}
      http:
        paths:
          {{- range .paths | default $everything }}
          - path: {{ .path }}
            pathType: {{ .pathType | default "Prefix" }}
            backend:
              service:
                name: {{ include "postern.planeName" $ }}
                port: { name: http }
          {{- end }}
    {{- end }}
{{- end -}}
