{{/*
Rejects values that contradict each other, all in one message, each with what to set. values.schema.json checks single
values.
*/}}
{{- define "postern.guards" -}}
{{- $wrong := dict "list" list -}}
{{- if not (or .Values.gateway.enabled .Values.console.enabled) -}}
{{- include "postern.wrong" (dict "into" $wrong "say" "gateway.enabled and console.enabled are both false: set one of them to true") -}}
{{- end -}}
{{- $former := include "postern.formerName" . -}}
{{- range $plane := list "gateway" "console" -}}
{{- if and $former (lookup "v1" "Service" (include "postern.namespace" $) (printf "%s-%s" $former $plane)) -}}
{{- include "postern.wrong" (dict "into" $wrong "say" (printf "the objects of this release are named %s-…, and its long name would now be cut to %s, which would leave Secret and volume behind: set fullnameOverride to %s" $former (include "postern.fullname" $) $former)) -}}
{{- end -}}
{{- end -}}
{{- $unnamed := false -}}
{{- range $plane := include "postern.planes" . | splitList " " | compact -}}
{{- if not (include "postern.planeImage" (dict "root" $ "plane" $plane) | fromYaml).repository }}{{ $unnamed = true }}{{ end -}}
{{- end -}}
{{- if $unnamed -}}
{{- include "postern.wrong" (dict "into" $wrong "say" "image.repository is missing, and no image is published yet: build one from the Dockerfile, push it, and set image.repository to its name, such as registry.example.com/postern") -}}
{{- end -}}
{{- include "postern.guardPlaces" (dict "root" . "into" $wrong) -}}
{{- include "postern.guardServices" (dict "root" . "into" $wrong) -}}
{{- if .Values.tests.enabled }}{{ include "postern.guardResources" (dict "into" $wrong "path" "tests.resources" "resources" .Values.tests.resources) }}{{ end -}}
{{- range $plane := include "postern.planes" . | splitList " " | compact -}}
{{- $place := dict "root" $ "plane" $plane "into" $wrong -}}
{{- include "postern.guardResources" (dict "into" $wrong "path" (printf "%s.resources" $plane) "resources" (index $.Values $plane).resources) -}}
{{- include "postern.guardSettings" $place -}}
{{- include "postern.guardSecrets" $place -}}
{{- include "postern.guardRedis" $place -}}
{{- include "postern.guardPod" $place -}}
{{- include "postern.guardWorkload" $place -}}
{{- include "postern.guardRoutes" $place -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}
{{- include "postern.guardGateway" (dict "root" . "plane" "gateway" "into" $wrong) -}}
{{- include "postern.guardRegionOfGateways" (dict "root" . "plane" "gateway" "into" $wrong) -}}
{{- end -}}
{{- if .Values.console.enabled -}}
{{- range $guard := list "guardConsole" "guardBackup" "guardInternalService" "guardSignIn" "guardRegions" -}}
{{- include (printf "postern.%s" $guard) (dict "root" $ "plane" "console" "into" $wrong) -}}
{{- end -}}
{{- end -}}
{{- include "postern.guardMonitoring" (dict "root" . "into" $wrong) -}}
{{- if $wrong.list -}}
{{- fail (printf "\n\nThese values cannot be installed:\n  - %s\n" ($wrong.list | uniq | join "\n  - ")) -}}
{{- end -}}
{{- end -}}

{{- define "postern.wrong" -}}
{{- $_ := set .into "list" (append .into.list .say) -}}
{{- end -}}

{{- define "postern.guardSettings" -}}
{{- $settings := include "postern.given" . | fromJson -}}
{{- $used := dict -}}
{{- $listeners := list .plane "ops" -}}
{{- if eq .plane "console" }}{{ $listeners = list "console" "console.internal" "ops" }}{{ end -}}
{{- if and (eq .plane "gateway") (include "postern.checkPort" .root) }}{{ $listeners = list "gateway" "gateway.check" "ops" }}{{ end -}}
{{- range $listener := $listeners -}}
{{- $port := include "postern.port" (merge (dict "listener" $listener) $) | int -}}
{{- if eq $port 0 -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.%s.port is 0, which means any free port: set the port for Services and probes, such as 8080" $listener)) -}}
{{- else if hasKey $used (toString $port) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.%s.port and config.%s.port are both %d: set different ports" (get $used (toString $port)) $listener $port)) -}}
{{- end -}}
{{- $_ := set $used (toString $port) $listener -}}
{{- $host := include "postern.at" (dict "tree" $settings "path" (printf "%s.host" $listener)) -}}
{{- if regexMatch "^(127\\.|localhost$|\\[?::1\\]?$)" $host -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.%s.host is %s, which is not reachable from outside the pod: remove it" $listener $host)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardSecrets" -}}
{{- $given := include "postern.given" . | fromJson -}}
{{- $references := dict -}}
{{- range (include "postern.named" . | fromJson).found }}{{ $_ := set $references .path true }}{{ end -}}
{{- $environment := dict -}}
{{- range $secret := (include "postern.known" .root | fromJson).secrets -}}
{{- $_ := set $environment .environment . -}}
{{- $value := include "postern.at" (dict "tree" $given "path" .path) -}}
{{- if eq .path "upstream.headers" -}}
{{- range $name, $header := ($given.upstream | default dict).headers -}}
{{- if not (kindIs "map" $header) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.upstream.headers.%s may be a secret, and values must not contain secrets: put it into a Secret and set secrets.upstream.headers.%s.existingSecret" $name $name)) -}}
{{- end -}}
{{- end -}}
{{- else if and $value (not .address) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.%s is a secret, and values must not contain secrets: put it into a Secret and set secrets.%s.existingSecret" .path .path)) -}}
{{- else if regexMatch "//[^,]*:[^,]*@|[?&]password=" $value -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "config.%s contains a password, and values must not contain secrets: put the address into a Secret and set secrets.%s.existingSecret" .path .path)) -}}
{{- end -}}
{{- $twin := include "postern.at" (dict "tree" $given "path" (printf "%sFile" .path)) -}}
{{- if and (hasKey $references .path) (or $value $twin) (ne .path "upstream.headers") -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "secrets.%s and config.%s%s set the same setting: remove one of them" .path .path (ternary "File" "" (not (empty $twin))))) -}}
{{- end -}}
{{- end -}}
{{- $pod := include "postern.podSettings" . | fromJson -}}
{{- range $pod.extraEnv -}}
{{- $secret := get $environment (upper .name) -}}
{{- /* An address without a password is none. */}}
{{- if and $secret .value (or (not $secret.address) (regexMatch "//[^,]*:[^,]*@|[?&]password=" .value)) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "extraEnv contains %s, and an environment must not contain secrets: put it into a Secret and set secrets.%s.existingSecret" .name $secret.path)) -}}
{{- end -}}
{{- end -}}
{{- $wanting := include "postern.wanting" . | splitList " " | compact -}}
{{- $generated := .root.Values.generatedSecret -}}
{{- $blind := not (or $generated.withoutCluster (include "postern.hasCluster" .root)) -}}
{{- range $wanting -}}
{{- if not $generated.enabled -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "the %s needs %s and generatedSecret.enabled is false: set secrets.%s.existingSecret" $.plane . .)) -}}
{{- else if and $blind $.root.Values.console.enabled -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "the chart would generate %s, but cannot see the cluster (helm template, Argo CD), so each rendering would replace it and reject every key: set secrets.%s.existingSecret, render with --dry-run=server, or set generatedSecret.withoutCluster for a trial" . .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* At most one kind of Redis. A name without Sentinels, or Sentinels without a name, would silently mean no Redis. */}}
{{- define "postern.guardRedis" -}}
{{- $redis := (include "postern.settingsFile" . | fromYaml).redis | default dict -}}
{{- $sentinel := $redis.sentinel | default dict -}}
{{- $kinds := list -}}
{{- if or $redis.url $redis.urlFile }}{{ $kinds = append $kinds "redis.url" }}{{ end -}}
{{- if or $sentinel.name $sentinel.urls }}{{ $kinds = append $kinds "redis.sentinel" }}{{ end -}}
{{- if ($redis.cluster | default dict).urls }}{{ $kinds = append $kinds "redis.cluster" }}{{ end -}}
{{- if gt (len $kinds) 1 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s are different kinds of Redis: set one of them" ($kinds | join " and "))) -}}
{{- end -}}
{{- if and (has "redis.sentinel" $kinds) (not (and $sentinel.name $sentinel.urls)) -}}
{{- include "postern.wrong" (dict "into" .into "say" "config.redis.sentinel is incomplete: set name, the Sentinels' name of the primary, and urls, their addresses") -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardPod" -}}
{{- $pod := include "postern.podSettings" . | fromJson -}}
{{- include "postern.guardBytes" (dict "into" .into "path" "pod.tmpSizeLimit" "value" $pod.tmpSizeLimit) -}}
{{- $least := include "postern.drainSeconds" . | int -}}
{{- if not (kindIs "invalid" $pod.terminationGracePeriodSeconds) -}}
{{- if lt (int $pod.terminationGracePeriodSeconds) $least -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "pod.terminationGracePeriodSeconds is %d, which cuts off requests: set at least %d (config.drain.delayMs, config.drain.timeoutMs and 5 s), or null for the default" (int $pod.terminationGracePeriodSeconds) $least)) -}}
{{- end -}}
{{- end -}}
{{- $bytes := include "postern.settingsFile" . | len -}}
{{- if gt $bytes 200000 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the %s's settings have %d bytes, and Kubernetes stores at most 262144 bytes of annotations with a pod: shorten config, or mount a file of your own and name it in POSTERN_CONFIG (pod.extraEnv)" .plane $bytes)) -}}
{{- end -}}
{{- range $mount := list "/etc/postern/config" (include "postern.secretsDirectory" .) "/tmp" -}}
{{- range $pod.extraVolumeMounts -}}
{{- if eq (trimSuffix "/" (toString .mountPath)) $mount -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "extraVolumeMounts has %s, which the chart mounts itself: set another mountPath" $mount)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $pod.extraVolumes -}}
{{- if has .name (list "config" "secrets" "tmp" "data") -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "extraVolumes has one named %s, a name that the chart uses itself: set another name" .name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardWorkload" -}}
{{- $values := index .root.Values .plane -}}
{{- $pod := include "postern.podSettings" . | fromJson -}}
{{- $dns := $pod.dnsConfig | default dict -}}
{{- if and (eq ($pod.dnsPolicy | default "") "None") (not $dns.nameservers) -}}
{{- include "postern.wrong" (dict "into" .into "say" "pod.dnsPolicy is None, and the pods would have no DNS server: set pod.dnsConfig.nameservers") -}}
{{- end -}}
{{- with $values.progressDeadlineSeconds -}}
{{- if le (int .) (int $values.minReadySeconds) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.progressDeadlineSeconds is %d, and a pod is available only after minReadySeconds, %d: set a longer deadline" $.plane (int .) (int $values.minReadySeconds))) -}}
{{- end -}}
{{- end -}}
{{- $budget := $values.podDisruptionBudget -}}
{{- if $budget.enabled -}}
{{- $pods := include "postern.fewestPods" . | int -}}
{{- $least := $budget.minAvailable -}}
{{- $most := $budget.maxUnavailable -}}
{{- if and (not (kindIs "invalid" $least)) (not (kindIs "invalid" $most)) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.podDisruptionBudget has minAvailable and maxUnavailable, and Kubernetes takes one: set maxUnavailable to null" .plane)) -}}
{{- else if and (kindIs "invalid" $least) (kindIs "invalid" $most) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.podDisruptionBudget limits nothing: set maxUnavailable or minAvailable, or enabled to false" .plane)) -}}
{{- else if and (not (kindIs "invalid" $most)) (has (toString $most) (list "0" "0%" "00%" "000%")) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.podDisruptionBudget.maxUnavailable is %v, so no node could be drained: set 1 or more" .plane $most)) -}}
{{- else if and (gt $pods 1) (not (kindIs "invalid" $least)) (ge (include "postern.ofPods" (dict "pods" $pods "share" $least) | int) $pods) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.podDisruptionBudget.minAvailable is %v of %d pods, so no node could be drained: set a lower number" .plane $least $pods)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardRoutes" -}}
{{- $values := index .root.Values .plane -}}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.httpRoute.enabled is true, but no Gateway serves the route: set %s.httpRoute.parentRefs to your Gateway" .plane .plane)) -}}
{{- end -}}
{{- range $values.httpRoute.rules -}}
{{- range .backendRefs -}}
{{- if hasSuffix "-ops" (toString .name) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.httpRoute.rules lead to %s: probes and metrics must not be public, remove backendRefs" $.plane .name)) -}}
{{- end -}}
{{- if eq (toString .name) (include "postern.checkName" $.root) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.httpRoute.rules lead to %s, which is only for the proxy of check mode: remove backendRefs" $.plane .name)) -}}
{{- end -}}
{{- if eq (toString .name) (include "postern.internalName" $.root) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.httpRoute.rules lead to %s, which is only for gateways: remove backendRefs" $.plane .name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.ingress.enabled is true without a host: set %s.ingress.hosts" .plane .plane)) -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardGateway" -}}
{{- $given := include "postern.given" . | fromJson -}}
{{- $values := .root.Values.gateway -}}
{{- if not (include "postern.at" (dict "tree" $given "path" "upstream.url")) -}}
{{- include "postern.wrong" (dict "into" .into "say" "config.upstream.url is missing: set it to the address of your service, such as http://workspaces.default.svc:8080") -}}
{{- end -}}
{{- $keyService := include "postern.at" (dict "tree" $given "path" "keyService.url") -}}
{{- if not (or $keyService .root.Values.console.enabled (include "postern.usesRedis" .)) -}}
{{- include "postern.wrong" (dict "into" .into "say" "there is no key service and no Redis: set secrets.redis.url.existingSecret or config.redis.url, console.enabled to true, or config.keyService.url to a key service of your own") -}}
{{- end -}}
{{- if and $keyService (not .root.Values.console.enabled) (not (include "postern.has" (merge (dict "path" "keyService.token") .))) -}}
{{- include "postern.wrong" (dict "into" .into "say" "config.keyService.url names a key service of your own, which requires a token: set secrets.keyService.token.existingSecret") -}}
{{- end -}}
{{- $format := include "postern.at" (dict "tree" (include "postern.effective" . | fromJson) "path" "keys.format") -}}
{{- $own := and (ne $format "opaque") (not (include "postern.has" (merge (dict "path" "keys.signingSecrets") .))) -}}
{{- if and $own (not .root.Values.console.enabled) -}}
{{- include "postern.wrong" (dict "into" .into "say" "this release has no console, so a signing secret of its own would reject every key: set secrets.keys.signingSecrets.existingSecret to the Secret of the console that issues the keys") -}}
{{- end -}}
{{- include "postern.guardPair" (merge (dict "section" "upstream.tls") .) -}}
{{- include "postern.guardPair" (merge (dict "section" "keyService.tls") .) -}}
{{- $wanted := and .root.Values.console.enabled (not $keyService) (include "postern.hasFile" (dict "root" .root "plane" "console" "path" "console.internal.tls.clientCaFile")) -}}
{{- if and $wanted (not (include "postern.hasFile" (merge (dict "path" "keyService.tls.certFile") .))) -}}
{{- include "postern.wrong" (dict "into" .into "say" "console.internal.tls.clientCaFile makes the console reject gateways without a certificate: set certFile and keyFile below secrets.keyService.tls") -}}
{{- end -}}
{{- with $values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "gateway.autoscaling.minReplicas is %d and maxReplicas %d: set minReplicas to no more than maxReplicas" (int .minReplicas) (int .maxReplicas))) -}}
{{- end -}}
{{- if not (or .targetCPU .targetCPUUtilizationPercentage .metrics) -}}
{{- include "postern.wrong" (dict "into" $.into "say" "gateway.autoscaling has no target: set targetCPU, targetCPUUtilizationPercentage or metrics") -}}
{{- end -}}
{{- if and .targetCPUUtilizationPercentage (not (($values.resources.requests | default dict).cpu)) -}}
{{- include "postern.wrong" (dict "into" $.into "say" "gateway.autoscaling needs a CPU request as its base: set gateway.resources.requests.cpu") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Requires certificate and key together: dict root, plane, into, section. */}}
{{- define "postern.guardPair" -}}
{{- $both := list -}}
{{- range $name := list "certFile" "keyFile" -}}
{{- if include "postern.hasFile" (merge (dict "path" (printf "%s.%s" $.section $name)) $) }}{{ $both = append $both $name }}{{ end -}}
{{- end -}}
{{- if eq (len $both) 1 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s.certFile and %s.keyFile belong together: set both below secrets.%s, or neither" .section .section .section)) -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardConsole" -}}
{{- $given := include "postern.given" . | fromJson -}}
{{- include "postern.guardPair" (merge (dict "section" "console.internal.tls") .) -}}
{{- if and (include "postern.hasFile" (merge (dict "path" "console.internal.tls.clientCaFile") .)) (not (include "postern.internalTls" .root)) -}}
{{- include "postern.wrong" (dict "into" .into "say" "console.internal.tls.clientCaFile requires TLS: set certFile and keyFile below secrets.console.internal.tls as well") -}}
{{- end -}}
{{- $volume := .root.Values.console.persistence -}}
{{- if and (eq (include "postern.database" .root) "sqlite") (not $volume.existingClaim) -}}
{{- include "postern.guardVolume" (merge (dict "path" "console.persistence" "claim" (printf "%s-data" (include "postern.planeName" .)) "volume" $volume) .) -}}
{{- end -}}
{{- range $name := list "labels" "selector" "dataSource" "storageClassName" -}}
{{- if and $volume.existingClaim (get $volume $name) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "console.persistence.%s has no effect on the claim %s, which already exists: remove one of them" $name $volume.existingClaim)) -}}
{{- end -}}
{{- end -}}
{{- $url := include "postern.at" (dict "tree" $given "path" "database.url") -}}
{{- include "postern.guardDatabase" . -}}
{{- if eq (include "postern.database" .root) "sqlite" -}}
{{- if and .root.Values.console.backup.enabled (has "ReadWriteOncePod" $volume.accessModes) -}}
{{- include "postern.wrong" (dict "into" .into "say" "console.backup needs the console's volume beside the console, and console.persistence.accessModes is ReadWriteOncePod: set ReadWriteOnce") -}}
{{- end -}}
{{- if gt (int .root.Values.console.replicas) 1 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "console.replicas is %d, but SQLite allows one pod: set console.replicas to 1, or secrets.database.url.existingSecret for PostgreSQL" (int .root.Values.console.replicas))) -}}
{{- end -}}
{{- if and $url (not (hasPrefix (printf "sqlite:%s/" (include "postern.dataDirectory" .)) $url)) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "config.database.url is %s, which is not on the volume and would be lost: remove it, or use a path below %s/" $url (include "postern.dataDirectory" .))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The internal listener is for gateways, also of other clusters; they send it the key service token. */}}
{{- define "postern.guardInternalService" -}}
{{- $type := .root.Values.console.internalService.type -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- if ne $type "ClusterIP" -}}
{{- if not (include "postern.internalTls" .root) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "console.internalService.type is %s, and the internal listener has no TLS, so that key service token and key records would cross the network unencrypted: set certFile and keyFile below secrets.console.internal.tls" $type)) -}}
{{- end -}}
{{- if and $policy.enabled (not $policy.internalFrom) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "console.internalService.type is %s, and the NetworkPolicy rejects gateways of other clusters: set networkPolicy.internalFrom to their addresses" $type)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The console of a release keeps its database: with another one, every key would be unknown. */}}
{{- define "postern.guardDatabase" -}}
{{- $name := include "postern.planeName" . -}}
{{- $namespace := include "postern.namespace" .root -}}
{{- $kind := include "postern.database" .root -}}
{{- $now := "" -}}
{{- $before := "" -}}
{{- if eq $kind "postgres" -}}
{{- if lookup "apps/v1" "StatefulSet" $namespace $name }}{{ $before = "SQLite" }}{{ $now = "PostgreSQL" }}{{ end -}}
{{- else -}}
{{- if lookup "apps/v1" "Deployment" $namespace $name }}{{ $before = "PostgreSQL" }}{{ $now = "SQLite" }}{{ end -}}
{{- $claim := .root.Values.console.persistence.existingClaim | default (printf "%s-data" $name) -}}
{{- $pod := ((lookup "apps/v1" "StatefulSet" $namespace $name).spec | default dict).template | default dict -}}
{{- range ($pod.spec | default dict).volumes -}}
{{- $used := (.persistentVolumeClaim | default dict).claimName -}}
{{- if and (eq .name "data") (ne $used $claim) }}{{ $before = printf "the claim %s" $used }}{{ $now = printf "the claim %s" $claim }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and $before (not .root.Values.console.switchDatabase) -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "the console of this release uses %s, and these values %s, which knows none of its keys: copy the database first (postern database copy, docs/operate/backup.md), and set console.switchDatabase to true for this upgrade" $before $now)) -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardSignIn" -}}
{{- $console := (include "postern.given" . | fromJson).console | default dict -}}
{{- $oidc := $console.oidc | default dict -}}
{{- if and $oidc.issuer (not (and $oidc.clientId $console.publicUrl)) -}}
{{- include "postern.wrong" (dict "into" .into "say" "config.console.oidc.issuer requires two more settings: set config.console.oidc.clientId to the console's client id at the provider, and config.console.publicUrl to its public address") -}}
{{- end -}}
{{- if and $oidc.clientId (not $oidc.issuer) -}}
{{- include "postern.wrong" (dict "into" .into "say" "config.console.oidc.clientId has no effect alone: set config.console.oidc.issuer to your identity provider") -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardMonitoring" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if and $monitoring.podMonitor.enabled $monitoring.serviceMonitor.enabled -}}
{{- include "postern.wrong" (dict "into" .into "say" "monitoring.podMonitor and monitoring.serviceMonitor would scrape the same pods twice: set enabled: false on one of them") -}}
{{- end -}}
{{- if and $monitoring.dashboards.grafanaOperator.enabled (not $monitoring.dashboards.enabled) -}}
{{- include "postern.wrong" (dict "into" .into "say" "monitoring.dashboards.grafanaOperator reads the dashboards' ConfigMaps: set monitoring.dashboards.enabled to true") -}}
{{- end -}}
{{- $rules := include "postern.ruleFiles" .root | fromYaml -}}
{{- $names := list -}}
{{- range $rules.groups }}{{ range .rules }}{{ with .alert }}{{ $names = append $names . }}{{ end }}{{ end }}{{ end -}}
{{- range $name := concat (list) $monitoring.prometheusRule.disabled (keys $monitoring.prometheusRule.overrides) -}}
{{- if not (has $name $names) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "monitoring.prometheusRule names the alert %s, which does not exist: use one of %s" $name ($names | uniq | sortAlpha | join ", "))) -}}
{{- end -}}
{{- end -}}
{{- range $group := $monitoring.prometheusRule.extraGroups -}}
{{- range $rule := $group.rules -}}
{{- if has ($rule.alert | default "") $names -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "monitoring.prometheusRule.extraGroups has an alert %s, as the chart does: use overrides, or another name" $rule.alert)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
