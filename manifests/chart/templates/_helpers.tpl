{{/* A file of the manifests, in the namespace of the release. */}}
{{- define "windlass.file" -}}
{{ .root.Files.Get (printf "files/%s" .path) | replace "windlass-system" .root.Release.Namespace }}
{{- end }}

{{- define "windlass.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Flags as a list of arguments. Numbers are float64 here, and a great one would be written 1e+06. */}}
{{- define "windlass.flags" -}}
{{- range $name, $value := . }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value = int64 $value }}{{ end }}{{ end }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}

{{/* The flags of a role: its own, with those that follow from other values. */}}
{{- define "windlass.roleFlags" -}}
{{- $flags := deepCopy .flags }}
{{- if and .root.Values.metrics.serviceMonitor.enabled (eq (index $flags "bind-address") "127.0.0.1") }}
{{- $_ := set $flags "bind-address" "0.0.0.0" }}
{{- end }}
{{- if ne .root.Values.logLevel "info" }}{{ $_ := set $flags "log-level" .root.Values.logLevel }}{{ end }}
{{- if ne .root.Values.logFormat "text" }}{{ $_ := set $flags "log-format" .root.Values.logFormat }}{{ end }}
{{- toYaml $flags }}
{{- end }}

{{- define "windlass.controllerPort" -}}
{{ index .Values.controller.flags "secure-port" | default (ternary 9860 10258 .Values.loadBalancerOnly) | int64 }}
{{- end }}

{{/* What controller and agent have in common, put into the object of the manifests. */}}
{{- define "windlass.workload" -}}
{{- $pod := .workload.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" (include "windlass.image" .root) }}
{{- $_ := set $container "imagePullPolicy" .root.Values.image.pullPolicy }}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources .values.resources) }}
{{- if .root.Values.apiServer.host }}
{{- $host := dict "name" "KUBERNETES_SERVICE_HOST" "value" .root.Values.apiServer.host }}
{{- $port := dict "name" "KUBERNETES_SERVICE_PORT" "value" (.root.Values.apiServer.port | int64 | toString) }}
{{- $_ := set $container "env" (concat ($container.env | default list) (list $host $port)) }}
{{- end }}
{{- $_ := set $pod "priorityClassName" .values.priorityClassName }}
{{- with .root.Values.image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- $_ := set $pod "nodeSelector" (merge $pod.nodeSelector .values.nodeSelector) }}
{{- with .values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- with .values.podAnnotations }}{{ $_ := set $.workload.spec.template.metadata "annotations" . }}{{ end }}
{{- $_ := set .workload.spec.template.metadata "labels" (merge .workload.spec.template.metadata.labels .values.podLabels) }}
{{- end }}
