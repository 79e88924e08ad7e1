{{/* A file of `headrace config write` as an item of the Secret's volume. */}}
{{- define "headrace.item" -}}
{key: {{ . | replace "/" "__" | replace "@" "." | quote }}, path: {{ . | quote }}}
{{- end }}

{{- define "headrace.restricted" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{- define "headrace.labels" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What the pods of all services have. */}}
{{- define "headrace.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{/*
What the volumes of NATS are claimed with. Kubernetes refuses a change of a claim's template, so an upgrade keeps that of the StatefulSet that
is there; deploy/README.md says how to enlarge the volumes.
*/}}
{{- define "headrace.natsClaim" -}}
{{- $made := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-nats" .Release.Name) }}
{{- if $made }}
{{- $spec := (index $made.spec.volumeClaimTemplates 0).spec }}
{{- dict "storage" $spec.resources.requests.storage "storageClass" (default "" $spec.storageClassName) | toJson }}
{{- else }}
{{- dict "storage" .Values.nats.storage "storageClass" .Values.nats.storageClass | toJson }}
{{- end }}
{{- end }}
