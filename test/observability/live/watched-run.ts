import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { assertionKeyPem } from '../../support/assertion-keys.ts'
import { makeCertificates } from '../../support/certificates.ts'
import { KubernetesMetricsDouble } from '../../support/kubernetes-metrics-double.ts'
import { Parts } from '../../support/parts.ts'
import { PrometheusServer, type Series } from '../../support/prometheus-server.ts'
import { startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { until } from '../../support/until.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'
import { buildWorld, type World } from '../../support/world.ts'
import type { Panel } from '../dashboards.ts'
import { RULE_FILES } from '../rule-files.ts'
import { Clients, SHARED_PATH, upstreamScripts } from './faults.ts'
import { shortened, shortenedRules } from './shorten.ts'

/** The default routes and one with request coalescing. */
const ROUTES = { shared: { path: SHARED_PATH, coalesce: true } }

/** Limits so low that a run of a minute reaches all of them. */
const SETTINGS = {
  POSTERN_ROUTES: JSON.stringify(ROUTES),
  POSTERN_UPSTREAM_CACHE_MAX_BYTES: '100000',
  POSTERN_GATEWAY_MAX_IN_FLIGHT: '24',
  POSTERN_UPSTREAM_CONNECTIONS: '8',
  POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '500',
  POSTERN_UPSTREAM_BODY_IDLE_TIMEOUT_MS: '500',
  POSTERN_KEYS_MEMORY_TTL_SECONDS: '2',
  POSTERN_KEYS_MEMORY_MAX_ENTRIES: '12',
  POSTERN_LIMITS_POLICIES: JSON.stringify([
    { name: 'burst', per: 'key', route: 'auth', requests: 5, windowSeconds: 2 },
  ]),
  POSTERN_METRICS_WORKSPACES: 'ws_1',
  POSTERN_LOG_LEVEL: 'warn',
  POSTERN_DRAIN_DELAY_MS: '2500',
  POSTERN_DRAIN_TIMEOUT_MS: '500',
}
const KEYS = 16

/** From when a phase has lasted its time: the longest period of what a console counts, and a minute. */
const SHOWN_WITHIN_MS = 120_000
const SCRAPE_MS = 1000

interface Phase {
  /** At least. */
  readonly seconds: number
  /** @param isOver whether the phase is to end */
  readonly act?: (isOver: () => boolean) => Promise<unknown>
  /** Queries: the phase lasts until each has had a value other than zero since the run began. */
  readonly shows?: readonly string[]
}

export interface WatchedRun {
  readonly prometheus: PrometheusServer
  readonly world: World
  readonly answers: number
  /** Name and start of each phase, in seconds since the epoch. */
  readonly phases: readonly (readonly [what: string, atSeconds: number])[]
  /** Rendered descriptions of the alerts that fired. */
  readonly descriptions: readonly string[]
  readonly fromSeconds: number
  readonly toSeconds: number
  /** The values of a panel over the run, query by query. */
  valuesOf(panel: Panel): Promise<Series[][]>
  stop(): Promise<void>
}

/** Runs gateway and console under load and one fault after another, scraped by a real Prometheus. */
export function runWatched(): Promise<WatchedRun> {
  return Parts.start(watch)
}

async function watch(parts: Parts): Promise<WatchedRun> {
  const certificates = await makeCertificates()
  await parts.own({ stop: () => certificates.remove() })
  const assertionKey = join(await parts.directory('watched'), 'assertion.pem')
  writeFileSync(assertionKey, assertionKeyPem())
  const upstream = await parts.own(await startScriptedUpstream(upstreamScripts.well))
  const receiver = await parts.own(await WebhookReceiver.start())
  // Some responses of each kind.
  receiver.answer = (response, number) => response.writeHead(number % 3 === 0 ? 500 : 204).end()
  const world = await buildWorld(
    parts,
    {
      ...SETTINGS,
      POSTERN_UPSTREAM_URL: upstream.url,
      POSTERN_UPSTREAM_TLS_CA_FILE: certificates.caFile,
      POSTERN_UPSTREAM_ASSERTION_KEY_FILES: assertionKey,
      POSTERN_UPSTREAM_ASSERTION_ISSUER: 'postern',
      POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
    },
    {
      POSTERN_CONSOLE_WEBHOOK_URL: receiver.url,
      POSTERN_CONSOLE_WEBHOOK_SECRET: Buffer.alloc(32, 7).toString('base64'),
      POSTERN_LEAKS_ENABLED: 'true',
    },
  )
  const target = (job: string, url: string) => ({
    url,
    labels: { namespace: 'files', job, pod: `${job}-0` },
  })
  const pods = (['gateway', 'console'] as const).map(container => ({
    namespace: 'files',
    pod: `postern-${container}-0`,
    container,
  }))
  const kubernetes = await parts.own(await KubernetesMetricsDouble.start(pods))
  const prometheus = await PrometheusServer.start(
    [
      target('postern-gateway', world.gateway.urls.ops),
      target('postern-console', world.console.urls.ops),
      { url: kubernetes.url, labels: { job: 'kubernetes-double' } },
    ],
    RULE_FILES.map(file => shortenedRules(readFileSync(file, 'utf8'))),
  )
  await parts.own(prometheus)
  const clients = new Clients(world)
  for (let index = 0; index < KEYS; index++) clients.keys.push(await world.issue())
  // A key of an unnamed workspace.
  clients.keys.push(await world.issue({ workspaceId: 'ws_2' }))
  const phases: [string, number][] = []
  const fromSeconds = Date.now() / 1000
  const descriptions = new Set<string>()
  const phase = async (what: string, { seconds, act, shows = [] }: Phase) => {
    phases.push([what, Date.now() / 1000])
    let isOver = false
    const acting = act?.(() => isOver)
    await new Promise(resolve => setTimeout(resolve, seconds * 1000))
    // A busy machine takes longer to show it, and misses scrapes.
    for (const query of shows) {
      await until(
        `the phase "${what}" shows ${query}`,
        () => hasShown(prometheus, query, fromSeconds),
        SHOWN_WITHIN_MS,
        SCRAPE_MS,
      )
    }
    isOver = true
    await acting
    for (const { annotations } of await prometheus.firing())
      descriptions.add(annotations['description'] ?? '')
    // It stores each request, and there are many.
    upstream.requests.length = 0
  }
  const during = (script: keyof typeof upstreamScripts) => async () => {
    upstream.script = upstreamScripts[script]
  }

  clients.begin(6, 15)
  clients.beginAdmin(100)
  clients.beginSharing(100)
  await phase('normal operation', { seconds: 7 })
  await phase('the upstream fails', { seconds: 4, act: during('failing') })
  await phase('it truncates responses', { seconds: 5, act: during('breaking') })
  await phase('it does not respond', {
    seconds: 4,
    act: during('silent'),
    shows: ['PosternUpstreamDown', 'PosternUpstreamCircuitOpen', 'PosternErrorBudgetBurnFast'].map(firing),
  })
  upstream.script = upstreamScripts.slow
  await phase('overload', {
    seconds: 5,
    act: async isOver => {
      while (!isOver()) await clients.crowd(120)
    },
    shows: [firing('PosternUpstreamQueueing')],
  })
  await phase('clients disconnect', {
    seconds: 3,
    act: async () => {
      upstream.script = upstreamScripts.endless
      for (let wave = 0; wave < 4; wave++) await clients.leave(5)
      upstream.script = upstreamScripts.silent
      for (let wave = 0; wave < 4; wave++) await clients.leave(5)
    },
  })
  upstream.script = upstreamScripts.well
  await phase('normal operation again', { seconds: 4, act: () => reportLeak(world) })
  await phase('Redis hangs', { seconds: 3, act: async () => world.redis.freeze() })
  await phase('Redis is down', {
    seconds: 6,
    act: () => world.redis.kill(),
    shows: ['PosternRevocationStreamDown', 'PosternKeyStoreUnavailable', 'PosternRateLimiterLocalMode'].map(
      firing,
    ),
  })
  // The console counts keys each minute, first when there are none.
  await phase('Redis is back', { seconds: 7, act: () => world.redis.revive(), shows: ['postern_keys'] })
  await phase('the gateway receives SIGTERM with a request that does not end', {
    seconds: 7,
    act: async () => {
      upstream.script = upstreamScripts.trickling
      await clients.beginEndless()
      upstream.script = upstreamScripts.well
      await world.gateway.process.stop('SIGTERM')
    },
    shows: ['PosternDrainDeadlineHit', 'PosternTargetDown', 'PosternCertificateExpiresSoon'].map(firing),
  })
  await clients.stop()
  const toSeconds = Date.now() / 1000

  return {
    prometheus,
    world,
    answers: clients.answers,
    phases,
    descriptions: [...descriptions],
    fromSeconds,
    toSeconds,
    valuesOf: panel =>
      Promise.all(panel.queries.map(({ expr }) => prometheus.range(shortened(expr), fromSeconds, toSeconds))),
    stop: () => parts.stop(),
  }
}

function firing(alert: string): string {
  return `ALERTS{alertname="${alert}",alertstate="firing"}`
}

async function hasShown(prometheus: PrometheusServer, query: string, fromSeconds: number): Promise<boolean> {
  const series = await prometheus.range(query, fromSeconds, Date.now() / 1000)
  return series.some(({ points }) => points.some(([, value]) => value > 0))
}

/** A token that is no key. Once Prometheus has the zero of the counter, since a rate needs two values. */
async function reportLeak(world: World): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const sent = { method: 'POST', headers, body: '{"token":"wsk_unknown"}' }
  await (await fetch(`${world.console.urls.console}/leaks/report`, sent)).arrayBuffer()
}
