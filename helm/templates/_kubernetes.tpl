{{/* Guards against what Kubernetes itself would refuse, which would leave a release half installed, and what it would take and not mean. */}}

{{/* Settings and references below one plane that only the other one uses: dict root, into. */}}
{{- define "postern.guardPlaces" -}}
{{- range $plane, $foreign := (include "postern.known" .root | fromJson).foreign -}}
{{- $other := eq $plane "gateway" | ternary "console" "gateway" -}}
{{- range $tree := list "config" "secrets" -}}
{{- $given := index $.root.Values $plane $tree -}}
{{- range $path := $foreign -}}
{{- if include "postern.at" (dict "tree" $given "path" $path) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.%s.%s has no effect, because only the %s uses it: move it to %s.%s" $plane $tree $path $other $other $tree)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fields of Services that belong to other types: dict root, into. */}}
{{- define "postern.guardServices" -}}
{{- $used := dict -}}
{{- $needs := dict "loadBalancerClass" "LoadBalancer" "loadBalancerSourceRanges" "LoadBalancer" "allocateLoadBalancerNodePorts" "LoadBalancer" "healthCheckNodePort" "LoadBalancer" "externalTrafficPolicy" "NodePort or LoadBalancer" -}}
{{- $paths := list -}}
{{- if .root.Values.gateway.enabled }}{{ $paths = append $paths "gateway.service" }}{{ end -}}
{{- if .root.Values.console.enabled }}{{ $paths = concat $paths (list "console.service" "console.internalService") }}{{ end -}}
{{- range $path := $paths -}}
{{- $parts := splitList "." $path -}}
{{- $service := index $.root.Values (first $parts) (last $parts) -}}
{{- with $service.nodePort -}}
{{- $port := toString (int .) -}}
{{- if eq $service.type "ClusterIP" -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.nodePort is %s, and a Service of the type ClusterIP has no port on nodes: set %s.type to NodePort or LoadBalancer, or nodePort to null" $path $port $path)) -}}
{{- else if hasKey $used $port -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.nodePort and %s.nodePort are both %s: set different ports" (get $used $port) $path $port)) -}}
{{- end -}}
{{- $_ := set $used $port $path -}}
{{- end -}}
{{- range $field, $types := $needs -}}
{{- if and (hasKey $service.spec $field) (not (contains $service.type $types)) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.spec.%s is for Services of the type %s, and this is a %s: remove it, or set %s.type" $path $field $types $service.type $path)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq ($service.spec.clusterIP | default "") "None") (ne $service.type "ClusterIP") -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.spec.clusterIP is None, and a Service of the type %s needs an address: remove it" $path $service.type)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Pods that a number or a share of them is, rounded up as Kubernetes does: dict pods, share. */}}
{{- define "postern.ofPods" -}}
{{- if kindIs "string" .share -}}
{{- div (add (mul .pods (trimSuffix "%" .share | atoi)) 99) 100 -}}
{{- else -}}
{{- int .share -}}
{{- end -}}
{{- end -}}

{{/* A quantity, such as 1.5Gi, as a number. */}}
{{- define "postern.quantity" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[A-Za-z]+$" $text -}}
{{- $factors := dict "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- mulf (trimSuffix $unit $text | float64) (get $factors $unit | default 1.0) -}}
{{- end -}}

{{/* An amount of bytes that can be meant: dict into, path, value. */}}
{{- define "postern.guardBytes" -}}
{{- if .value -}}
{{- if lt (include "postern.quantity" .value | float64) 1048576.0 -}}
{{- include "postern.wrong" (dict "into" .into "say" (printf "%s is %v, which is less than 1 MiB (m means thousandths of a byte): set a unit such as Mi" .path .value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* No request above its limit, and memory in bytes: dict into, path, resources. */}}
{{- define "postern.guardResources" -}}
{{- $limits := .resources.limits | default dict -}}
{{- range $kind, $amounts := pick .resources "requests" "limits" -}}
{{- range $name := list "memory" "ephemeral-storage" -}}
{{- include "postern.guardBytes" (dict "into" $.into "path" (printf "%s.%s.%s" $.path $kind $name) "value" (get ($amounts | default dict) $name)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $request := .resources.requests -}}
{{- $limit := get $limits $name -}}
{{- if and $request $limit -}}
{{- if gt (include "postern.quantity" $request | float64) (include "postern.quantity" $limit | float64) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.requests.%s is %v, which is more than %s.limits.%s, %v: set a lower request or a higher limit" $.path $name $request $.path $name $limit)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A size that can be meant, and what Kubernetes cannot change of a claim that exists: dict root, into, path, claim, volume. */}}
{{- define "postern.guardVolume" -}}
{{- include "postern.guardBytes" (dict "into" .into "path" (printf "%s.size" .path) "value" .volume.size) -}}
{{- with lookup "v1" "PersistentVolumeClaim" (include "postern.namespace" .root) .claim -}}
{{- $size := .spec.resources.requests.storage -}}
{{- if lt (include "postern.quantity" $.volume.size | float64) (include "postern.quantity" $size | float64) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.size is %v, and the claim %s has %v, which Kubernetes cannot reduce: set at least %v" $.path $.volume.size $.claim $size $size)) -}}
{{- end -}}
{{- $class := $.volume.storageClassName -}}
{{- if and $class (ne (eq $class "-" | ternary "" $class) (.spec.storageClassName | default "")) -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.storageClassName is %s, and the claim %s has %q, which Kubernetes cannot change: set it back, or copy the data to a claim of your own and name it in %s.existingClaim" $.path $class $.claim (.spec.storageClassName | default "") $.path)) -}}
{{- end -}}
{{- if ne (sortAlpha .spec.accessModes | join ", ") (sortAlpha $.volume.accessModes | join ", ") -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "%s.accessModes is %s, and the claim %s has %s, which Kubernetes cannot change: set it back" $.path ($.volume.accessModes | join ", ") $.claim (.spec.accessModes | join ", "))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "postern.guardBackup" -}}
{{- $backup := .root.Values.console.backup -}}
{{- if $backup.enabled -}}
{{- include "postern.guardResources" (dict "into" .into "path" "console.backup.resources" "resources" $backup.resources) -}}
{{- if not $backup.persistence.existingClaim -}}
{{- $claim := include "postern.planeName" (dict "root" .root "plane" "backup") -}}
{{- include "postern.guardVolume" (dict "root" .root "into" .into "path" "console.backup.persistence" "claim" $claim "volume" $backup.persistence) -}}
{{- end -}}
{{- with include "postern.scheduleMistake" $backup.schedule -}}
{{- include "postern.wrong" (dict "into" $.into "say" (printf "console.backup.schedule is %q, %s" $backup.schedule .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is wrong with the schedule of a CronJob, as Kubernetes reads it; empty if nothing is. */}}
{{- define "postern.scheduleMistake" -}}
{{- $months := list "jan" "feb" "mar" "apr" "may" "jun" "jul" "aug" "sep" "oct" "nov" "dec" -}}
{{- $days := list "sun" "mon" "tue" "wed" "thu" "fri" "sat" -}}
{{- $known := list (list "minute" 0 59 list) (list "hour" 0 23 list) (list "day of the month" 1 31 list) (list "month" 1 12 $months) (list "day of the week" 0 6 $days) -}}
{{- $fields := regexSplit "\\s+" (trim .) -1 -}}
{{- if contains "TZ=" . -}}
which has a time zone: set console.backup.timeZone
{{- else if hasPrefix "@" . -}}
{{- if not (regexMatch "^@(yearly|annually|monthly|weekly|daily|midnight|hourly|every ([0-9]+(\\.[0-9]+)?(h|m|s))+)$" .) -}}
which Kubernetes does not know: set five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly
{{- end -}}
{{- else if ne (len $fields) 5 -}}
which has {{ len $fields }} fields: set five, for minute, hour, day of the month, month and day of the week
{{- else -}}
{{- range $index, $field := $fields -}}
{{- $part := index $known $index -}}
{{- if not (include "postern.isScheduleField" (dict "field" $field "least" (index $part 1) "most" (index $part 2) "names" (index $part 3))) -}}
whose {{ first $part }} is {{ $field }}: set numbers from {{ index $part 1 }} to {{ index $part 2 }}, ranges or *;{{ " " }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Non-empty for a valid field of a schedule: dict field, least, most, names. */}}
{{- define "postern.isScheduleField" -}}
{{- $good := true -}}
{{- range splitList "," .field -}}
{{- $ends := regexReplaceAll "/0*[1-9][0-9]*$" (lower .) "" | splitList "-" -}}
{{- $numbers := list -}}
{{- range $end := $ends -}}
{{- if regexMatch "^[0-9]{1,4}$" $end }}{{ $numbers = append $numbers (atoi $end) }}{{ end -}}
{{- range $index, $name := $.names }}{{ if eq $name $end }}{{ $numbers = append $numbers (add $index $.least | int) }}{{ end }}{{ end -}}
{{- end -}}
{{- if not (has (first $ends) (list "*" "?")) -}}
{{- if or (gt (len $ends) 2) (ne (len $numbers) (len $ends)) -}}
{{- $good = false -}}
{{- else if or (lt (first $numbers) $.least) (gt (last $numbers) $.most) (gt (first $numbers) (last $numbers)) -}}
{{- $good = false -}}
{{- end -}}
{{- else if gt (len $ends) 1 -}}
{{- $good = false -}}
{{- end -}}
{{- end -}}
{{- if $good }}yes{{ end -}}
{{- end -}}
