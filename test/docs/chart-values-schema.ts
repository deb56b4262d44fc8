import {
  closed,
  configValuesSchema,
  type JsonSchema,
  referenceDefinitions,
  referencesSchema,
} from './chart-config-schema.ts'

const threshold: JsonSchema = { type: 'number', exclusiveMinimum: 0 }
const text = { type: 'string' }
const flag = { type: 'boolean' }
const texts = { type: 'object', additionalProperties: { type: 'string' } }
const list = { type: 'array' }
const objects = { type: 'array', items: { type: 'object' } }
/** Kubernetes validates its own objects itself. */
const map = { type: 'object' }
const config = { $ref: '#/$defs/config' }
const secrets = { $ref: '#/$defs/secrets' }
const pod = { $ref: '#/$defs/pod' }
const duration = { type: 'string', pattern: '^([0-9]+(ms|s|m|h))+$' }
/** Processor time: cores, or thousandths of one. */
const cpu = { type: ['string', 'number'], exclusiveMinimum: 0, pattern: '^[0-9]+(\\.[0-9]{1,3})?$|^[0-9]+m$' }
/** Bytes. The chart itself refuses less than 1 MiB, and says what the unit m means. */
const bytes = {
  type: ['string', 'integer'],
  pattern: '^[0-9]+(\\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$',
}
const portNumber = { type: 'integer', minimum: 1, maximum: 65_535 }
const whole = (minimum: number, maximum = 1_000_000) => ({ type: 'integer', minimum, maximum })
const countOrShare = { anyOf: [whole(0), { type: 'string', pattern: '^[0-9]{1,3}%$' }] }
const countShareOrNull = { anyOf: [...countOrShare.anyOf, { type: 'null' }] }
const oneOf = (...values: string[]) => ({ enum: values })
const orNull = (schema: JsonSchema) => ({ ...schema, type: [schema['type'], 'null'].flat() })
const within = (properties: JsonSchema) => closed('', properties)

const probe = within({
  initialDelaySeconds: whole(0),
  periodSeconds: whole(1),
  timeoutSeconds: whole(1),
  failureThreshold: whole(1),
  successThreshold: whole(1),
})

const peers = within({ to: objects, ports: { type: 'array', items: portNumber } })

const imagePullSecrets = { type: 'array', items: closed('', { name: text }, { required: ['name'] }) }

const environment = {
  type: 'array',
  items: closed('', { name: text, value: text, valueFrom: map }, { required: ['name'] }),
}

const podSchema = within({
  labels: texts,
  annotations: texts,
  heapPercent: orNull(whole(10, 95)),
  tmpSizeLimit: bytes,
  terminationGracePeriodSeconds: orNull(whole(1)),
  securityContext: map,
  containerSecurityContext: map,
  probes: within({ startup: probe, liveness: probe, readiness: probe }),
  topologySpreadConstraints: objects,
  nodeSelector: texts,
  tolerations: objects,
  affinity: map,
  priorityClassName: text,
  runtimeClassName: text,
  hostAliases: objects,
  dnsPolicy: oneOf('', 'ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'),
  dnsConfig: map,
  schedulerName: text,
  hostUsers: orNull(flag),
  lifecycle: within({ preStop: map, postStart: map }),
  extraEnv: environment,
  extraEnvFrom: objects,
  extraVolumes: objects,
  extraVolumeMounts: objects,
  initContainers: objects,
  extraContainers: objects,
})

const image = {
  registry: text,
  repository: text,
  tag: { type: 'string', not: { const: 'latest' } },
  digest: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
  pullPolicy: oneOf('Always', 'IfNotPresent', 'Never'),
}

const quantities = {
  type: 'object',
  properties: { cpu: orNull(cpu), memory: orNull(bytes), 'ephemeral-storage': orNull(bytes) },
}
const resources = within({ requests: quantities, limits: quantities, claims: list })
const strategy = within({
  type: oneOf('RollingUpdate', 'Recreate'),
  rollingUpdate: within({ maxUnavailable: countOrShare, maxSurge: countOrShare }),
})

const service = within({
  type: oneOf('ClusterIP', 'NodePort', 'LoadBalancer'),
  port: portNumber,
  nodePort: orNull(whole(1, 65_535)),
  labels: texts,
  annotations: texts,
  // Kubernetes validates the others; these have values of their own, and a second key would silently win or lose.
  spec: { type: 'object', propertyNames: { not: { enum: ['type', 'ports', 'selector'] } } },
})

const plane = {
  enabled: flag,
  replicas: whole(1, 1000),
  config,
  secrets,
  pod,
  image: within(image),
  labels: texts,
  annotations: texts,
  resources,
  strategy,
  minReadySeconds: whole(0),
  revisionHistoryLimit: whole(0),
  progressDeadlineSeconds: orNull(whole(1)),
  podDisruptionBudget: within({
    enabled: flag,
    maxUnavailable: countShareOrNull,
    minAvailable: countShareOrNull,
    unhealthyPodEvictionPolicy: oneOf('AlwaysAllow', 'IfHealthyBudget'),
  }),
  service,
  httpRoute: within({
    enabled: flag,
    labels: texts,
    annotations: texts,
    parentRefs: objects,
    hostnames: { type: 'array', items: text },
    rules: objects,
  }),
  ingress: within({
    enabled: flag,
    className: text,
    labels: texts,
    annotations: texts,
    hosts: {
      type: 'array',
      items: closed(
        '',
        {
          host: text,
          paths: {
            type: 'array',
            items: within({
              path: text,
              pathType: oneOf('Prefix', 'Exact', 'ImplementationSpecific'),
            }),
          },
        },
        { required: ['host'] },
      ),
    },
    tls: objects,
  }),
}

const monitor = within({
  enabled: flag,
  namespace: text,
  labels: texts,
  annotations: texts,
  interval: duration,
  scrapeTimeout: duration,
  sampleLimit: orNull(whole(1)),
  relabelings: objects,
  metricRelabelings: objects,
})

const properties: JsonSchema = {
  // Values that Helm adds if this chart is a subchart.
  enabled: flag,
  tags: map,
  global: { type: 'object', properties: { imageRegistry: text, imagePullSecrets } },
  nameOverride: text,
  fullnameOverride: text,
  namespaceOverride: { type: 'string', pattern: '^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$' },
  commonLabels: texts,
  commonAnnotations: texts,
  ipFamilyPolicy: oneOf('', 'SingleStack', 'PreferDualStack', 'RequireDualStack'),
  ipFamilies: { type: 'array', items: oneOf('IPv4', 'IPv6'), maxItems: 2, uniqueItems: true },
  image: within(image),
  imagePullSecrets,
  config,
  secrets,
  generatedSecret: within({ enabled: flag, withoutCluster: flag, annotations: texts }),
  pod,
  gateway: within({
    ...plane,
    replicas: orNull(whole(0, 1000)),
    autoscaling: within({
      enabled: flag,
      labels: texts,
      annotations: texts,
      minReplicas: whole(1, 1000),
      maxReplicas: whole(1, 1000),
      targetCPU: orNull(cpu),
      targetCPUUtilizationPercentage: orNull(whole(1, 100)),
      metrics: objects,
      behavior: map,
    }),
    checkService: within({ port: portNumber, labels: texts, annotations: texts }),
  }),
  console: within({
    ...plane,
    internalService: service,
    persistence: within({
      existingClaim: text,
      storageClassName: text,
      selector: within({ matchLabels: texts, matchExpressions: objects }),
      dataSource: within({ apiGroup: text, kind: text, name: text }),
      accessModes: {
        type: 'array',
        minItems: 1,
        items: oneOf('ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany'),
      },
      size: bytes,
      labels: texts,
      annotations: texts,
    }),
    switchDatabase: flag,
    backup: within({
      enabled: flag,
      schedule: { type: 'string', minLength: 1 },
      timeZone: {
        type: 'string',
        pattern: '^([A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*)?$',
        not: { const: 'Local' },
      },
      suspend: flag,
      labels: texts,
      annotations: texts,
      pod: within({ labels: texts, annotations: texts }),
      extraContainers: orNull(objects),
      keep: whole(1, 1000),
      timeoutSeconds: whole(1),
      resources,
      persistence: within({
        existingClaim: text,
        storageClassName: text,
        accessModes: { type: 'array', minItems: 1, items: oneOf('ReadWriteOnce', 'ReadWriteMany') },
        size: bytes,
        labels: texts,
        annotations: texts,
      }),
    }),
  }),
  networkPolicy: within({
    enabled: flag,
    gatewayFrom: objects,
    checkFrom: objects,
    consoleFrom: objects,
    internalFrom: objects,
    opsFrom: objects,
    dns: peers,
    redis: peers,
    regions: { type: 'object', additionalProperties: peers },
    upstream: peers,
    keyService: peers,
    database: peers,
    identityProvider: peers,
    triedRequests: peers,
    webhook: peers,
    tracing: peers,
    usageExport: peers,
    workspaceWebhooks: peers,
    leakKeys: peers,
    egressProxy: peers,
    extraIngress: objects,
    extraEgress: objects,
  }),
  monitoring: within({
    trustApis: flag,
    podMonitor: monitor,
    serviceMonitor: monitor,
    prometheusRule: within({
      enabled: flag,
      namespace: text,
      labels: texts,
      annotations: texts,
      alertLabels: texts,
      selector: text,
      disabled: { type: 'array', items: text },
      thresholds: within({
        PosternRevocationLagHigh: threshold,
        PosternKeyStoreUnavailable: threshold,
        PosternKeyStoreDegraded: threshold,
        PosternCacheHitRatioLow: threshold,
        PosternUnknownKeySpike: threshold,
        PosternRateLimiterLocalMode: threshold,
        PosternUpstreamDown: threshold,
        PosternEventLoopLagHigh: threshold,
        PosternHeapNearLimit: threshold,
        PosternBackupMissing: threshold,
      }),
      overrides: {
        type: 'object',
        additionalProperties: within({
          for: duration,
          keep_firing_for: duration,
          expr: text,
          labels: texts,
          annotations: texts,
        }),
      },
      runbookUrl: text,
      dashboardUrl: text,
      extraGroups: objects,
    }),
    dashboards: within({
      enabled: flag,
      namespace: text,
      labels: texts,
      annotations: texts,
      runbookUrl: text,
      logsUrl: text,
      tracesUrl: text,
      grafanaOperator: within({ enabled: flag, instanceSelector: map }),
    }),
  }),
  serviceAccount: within({ create: flag, name: text, labels: texts, annotations: texts, automount: flag }),
  tests: within({ enabled: flag, pod: within({ labels: texts, annotations: texts }), resources }),
  extraObjects: { type: 'array', items: { type: ['object', 'string'] } },
}

/** The text of `helm/values.schema.json`. */
export function chartValuesSchema(): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the Postern chart',
    ...withoutEmptyDescriptions(closed('', properties)),
    $defs: {
      ...referenceDefinitions,
      config: configValuesSchema(),
      secrets: referencesSchema(),
      pod: withoutEmptyDescriptions(podSchema),
    },
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}

function withoutEmptyDescriptions(schema: JsonSchema): JsonSchema {
  return JSON.parse(
    JSON.stringify(schema, (name, value: unknown) =>
      name === 'description' && value === '' ? undefined : value,
    ),
  ) as JsonSchema
}
