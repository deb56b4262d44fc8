import { Type } from 'typebox'
import { host, httpUrl, milliseconds, optional, port, seconds, section } from './schema-parts.ts'

/** Settings of what every process does beside its work: to be looked at, to be changed, to end. */
export const operations = {
  ops: section({
    host: host('Address of probes and metrics'),
    port: port('Port of probes and metrics; 0 takes a free one'),
  }),
  drain: section({
    delayMs: milliseconds('Time after SIGTERM in which new requests are still served', 0),
    timeoutMs: milliseconds('Time after that in which requests in flight may end', 0),
  }),
  reload: section({
    everySeconds: seconds(
      'Time between two looks at the files that secrets and certificates come from; 0 is never, and SIGHUP always',
      0,
      3600,
    ),
  }),
  metrics: section({
    workspaces: Type.Array(Type.String({ format: 'counted-workspace' }), {
      maxItems: 50,
      description:
        'Workspaces whose requests are counted one by one, all others as `other`; with none nothing is counted by workspace',
    }),
    exemplars: Type.Boolean({
      description:
        'Whether metrics are shown as OpenMetrics, with the trace ids of recorded requests beside their durations',
    }),
  }),
  tracing: section({
    endpoint: optional(
      httpUrl('OTLP/HTTP collector, such as `http://collector:4318`; without it there are no spans'),
    ),
    sampleRatio: Type.Number({
      minimum: 0,
      maximum: 1,
      description:
        'Share of traces that is recorded, of those that begin here or whose parent is not trusted (`tracing.trustParent`)',
    }),
    trustParent: Type.Union(
      [Type.Literal('trusted-proxies'), Type.Literal('always'), Type.Literal('never')],
      {
        description:
          'Whose `traceparent` decides whether a trace is recorded: that of `gateway.trustedProxies`, every client’s, or none',
      },
    ),
  }),
  log: section({
    level: Type.Union(
      [
        Type.Literal('trace'),
        Type.Literal('debug'),
        Type.Literal('info'),
        Type.Literal('warn'),
        Type.Literal('error'),
        Type.Literal('fatal'),
        Type.Literal('silent'),
      ],
      { description: 'Least severe level that is logged' },
    ),
  }),
}
