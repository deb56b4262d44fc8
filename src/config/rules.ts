import { mayBeFixed, mayReachClient, mayReachUpstream } from '../domain/header-names.ts'
import { findIdleParts, findRedisTopology, isEncryptedRedis } from '../domain/redis-address.ts'
import type { ConfigProblem } from './config-error.ts'
import { findRegionProblems, findSecondRedis } from './regions.ts'
import { findLimitProblems, findRewrittenPaths, findRouteProblems, findUnknownScopes } from './route-rules.ts'
import type { Config } from './schema/schema.ts'
import { isSet, valueAt } from './settings.ts'
import { isObviouslyWeak } from './weak-secret.ts'

/** What runs in a process: it decides which settings are required. */
export type Plane = 'gateway' | 'console'

type Listener = Plane | 'gateway.check' | 'console.internal' | 'ops'

const LISTENERS: readonly Listener[] = ['gateway', 'gateway.check', 'console', 'console.internal', 'ops']

/** A rule between settings. */
type Rule = (SingleRule | SearchRule) & {
  /** Settings and sections that the rule reads. It is checked only where each of them is valid by itself. */
  readonly reads: readonly string[]
  /** The rule applies only where this plane runs; without one, always. */
  readonly plane?: Plane
}

interface SingleRule {
  readonly setting: string
  readonly problem: string
  isBroken(config: Config, planes: readonly Plane[]): boolean
}

/** A rule that can be broken in several places. */
interface SearchRule {
  findProblems(config: Config, planes: readonly Plane[]): ConfigProblem[]
}

const THIS_MACHINE = new Set(['localhost', '127.0.0.1', '[::1]'])
const HTTPS_FOR_COOKIES =
  'must be https: over http a session can be stolen on the way (http only on this machine)'

const GATEWAY_RULES = onPlane('gateway', [
  {
    reads: ['upstream.url'],
    setting: 'upstream.url',
    problem: 'is required (POSTERN_UPSTREAM_URL): the address of the upstream',
    isBroken: ({ upstream }) => upstream.url === undefined,
  },
  {
    reads: ['upstream.headers', 'gateway.requestHeaders', 'gateway.responseHeaders'],
    findProblems: findReservedHeaders,
  },
  {
    reads: ['upstream.cache.maxBytes', 'routes'],
    setting: 'upstream.cache.maxBytes',
    problem: 'has no effect: no route has coalesce: true',
    isBroken: ({ upstream, routes }) =>
      upstream.cache.maxBytes > 0 && !routes.some(({ coalesce }) => coalesce),
  },
  {
    reads: ['redis.url', 'redis.sentinel', 'redis.cluster', 'keyService.url'],
    setting: 'redis.url, keyService.url',
    problem: 'at least one is required: without them the gateway cannot verify any key',
    isBroken: ({ redis, keyService }) => findRedisTopology(redis) === null && keyService.url === undefined,
  },
  needsRule(
    'keyService.url',
    'keyService.token',
    `the same at gateway and console. ${howToMake('KEY_SERVICE_TOKEN')}`,
  ),
  {
    reads: ['keyService.url', 'keyService.tls'],
    setting: 'keyService.tls',
    problem: 'has no effect with a plain http: address: set keyService.url to https:',
    isBroken: ({ keyService: { url, tls } }) =>
      url?.startsWith('http:') === true && Object.values(tls).some(file => file !== undefined),
  },
  pairRule('gateway.check.port', 'gateway.check.proxy'),
  {
    reads: ['gateway.check'],
    setting: 'gateway.check.pathPrefix',
    problem: 'has no effect: only Envoy (gateway.check.proxy) adds a prefix to the original path',
    isBroken: ({ gateway: { check } }) => check.pathPrefix !== undefined && check.proxy !== 'envoy',
  },
  { reads: ['gateway.check.port', 'routes'], findProblems: findRewrittenPaths },
  pairRule('upstream.tls.certFile', 'upstream.tls.keyFile'),
  {
    reads: ['upstream.assertion', 'upstream.queue.maxWaitMs', 'upstream.connectTimeoutMs'],
    findProblems: findAssertionProblems,
  },
  pairRule('keyService.tls.certFile', 'keyService.tls.keyFile'),
])

const CONSOLE_RULES = onPlane('console', [
  {
    // Where the format is not opaque, every plane needs them.
    reads: ['keys.format', 'keys.signingSecrets'],
    setting: 'keys.signingSecrets',
    problem: `is required for the console, which signs the keys that it issues. ${howToMake('KEYS_SIGNING_SECRETS')}`,
    isBroken: ({ keys }) => keys.format === 'opaque' && keys.signingSecrets.length === 0,
  },
  pairRule('console.internal.tls.certFile', 'console.internal.tls.keyFile'),
  pairRule('console.webhook.url', 'console.webhook.secret'),
  {
    reads: ['console.internal.tls'],
    setting: 'console.internal.tls.clientCaFile',
    problem: 'requires TLS: set console.internal.tls.certFile and console.internal.tls.keyFile as well',
    isBroken: ({ console: { internal } }) =>
      internal.tls.clientCaFile !== undefined && internal.tls.certFile === undefined,
  },
  {
    reads: ['console.publicUrl'],
    setting: 'console.publicUrl',
    problem: HTTPS_FOR_COOKIES,
    isBroken: ({ console: { publicUrl } }) => publicUrl !== undefined && !isProtected(publicUrl),
  },
  {
    reads: ['console.publicUrl'],
    setting: 'console.publicUrl',
    problem: 'must have no path',
    isBroken: ({ console: { publicUrl } }) => publicUrl !== undefined && new URL(publicUrl).pathname !== '/',
  },
  {
    reads: ['console.oidc.issuer'],
    setting: 'console.oidc.issuer',
    problem: 'must be https (http only on this machine)',
    isBroken: ({ console: { oidc } }) => oidc.issuer !== undefined && !isProtected(oidc.issuer),
  },
  {
    reads: ['leaks.github.keysUrl'],
    setting: 'leaks.github.keysUrl',
    problem:
      'must be https: with other keys on the way, any peer could sign reports (http only on this machine)',
    isBroken: ({ leaks }) => !isProtected(leaks.github.keysUrl),
  },
  { reads: ['regions', 'redis.url', 'redis.sentinel', 'redis.cluster'], findProblems: findSecondRedis },
  needsRule('console.oidc.issuer', 'console.oidc.clientId', 'the name of the console there'),
  needsRule('console.oidc.clientId', 'console.oidc.issuer', 'the provider at which people sign in'),
  needsRule(
    'console.oidc.tokenEndpointAuthMethod',
    'console.oidc.clientSecret',
    'a public client has none to send',
  ),
  needsRule('console.oidc.issuer', 'console.publicUrl', 'the provider sends people back to it'),
  {
    reads: ['console.session.idleSeconds', 'console.session.absoluteSeconds'],
    setting: 'console.session.idleSeconds',
    problem: 'is longer than console.session.absoluteSeconds',
    isBroken: ({ console: { session } }) => session.idleSeconds > session.absoluteSeconds,
  },
])

const REDIS_RULES: readonly Rule[] = [
  {
    reads: ['redis.url', 'redis.sentinel.name', 'redis.sentinel.urls', 'redis.cluster.urls'],
    findProblems: findRedisContradiction,
  },
  {
    reads: ['redis.url'],
    findProblems: ({ redis: { url } }) =>
      (url === undefined ? [] : findIdleParts(url)).map(problem => ({ source: 'redis.url', problem })),
  },
  needsRule('redis.sentinel.name', 'redis.sentinel.urls', 'the addresses of the Sentinels'),
  needsRule('redis.sentinel.urls', 'redis.sentinel.name', 'the name of the primary (often mymaster)'),
  ...(['sentinel', 'cluster'] as const).map(kind => ({
    reads: [`redis.${kind}.urls`],
    setting: `redis.${kind}.urls`,
    problem: 'must be rediss: (or valkeys:) addresses all of them, or none',
    // Servers discovered from these nodes have no scheme of their own: one answer must hold for all.
    isBroken: ({ redis }: Config) => new Set(redis[kind].urls.map(isEncryptedRedis)).size > 1,
  })),
]

const RULES: readonly Rule[] = [
  {
    reads: ['keys.format', 'keys.signingSecrets'],
    setting: 'keys.signingSecrets',
    problem: `is required. ${howToMake('KEYS_SIGNING_SECRETS')}`,
    isBroken: ({ keys }, planes) =>
      planes.length > 0 && keys.format !== 'opaque' && keys.signingSecrets.length === 0,
  },
  {
    reads: ['keys.signingSecrets'],
    setting: 'keys.signingSecrets',
    problem: 'holds one that is obviously not random (openssl rand -base64 32 makes a good one)',
    isBroken: ({ keys }) => keys.signingSecrets.some(isObviouslyWeak),
  },
  ...GATEWAY_RULES,
  ...CONSOLE_RULES,
  ...REDIS_RULES,
  { reads: ['regions'], findProblems: ({ regions }) => findRegionProblems(regions) },
  ...LISTENERS.flatMap((one, index) => LISTENERS.slice(index + 1).map(other => portRule(one, other))),
  { reads: ['routes'], findProblems: findRouteProblems },
  { reads: ['routes', 'scopes'], findProblems: findUnknownScopes },
  { reads: ['limits.policies', 'limits.plans', 'routes', 'scopes'], findProblems: findLimitProblems },
]

/** @param isValid whether a setting, or all of a section, is valid by itself */
export function checkRules(
  config: Config,
  planes: readonly Plane[],
  isValid: (path: string) => boolean,
): ConfigProblem[] {
  return RULES.filter(({ plane }) => plane === undefined || planes.includes(plane))
    .filter(({ reads }) => reads.every(isValid))
    .flatMap(rule => {
      if ('findProblems' in rule) return rule.findProblems(config, planes)
      return rule.isBroken(config, planes) ? [{ source: rule.setting, problem: rule.problem }] : []
    })
}

function onPlane(plane: Plane, rules: readonly Rule[]): Rule[] {
  return rules.map(rule => ({ ...rule, plane }))
}

/** @param name of the variable, without its prefix and `_FILE` */
function howToMake(name: string): string {
  const variable = `POSTERN_${name}_FILE`
  return `Make one with \`openssl rand -base64 32\`, save it in a file, and set ${variable} to the name of the file`
}

function isProtected(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol === 'https:' || THIS_MACHINE.has(hostname)
}

/** Two settings, each of which is useless without the other. */
function pairRule(one: string, other: string): Rule {
  return {
    reads: [one, other],
    setting: `${one}, ${other}`,
    problem: 'belong together: set both or neither',
    isBroken: config => isSet(valueAt(config, one)) !== isSet(valueAt(config, other)),
  }
}

/** @param meaning of the setting that is needed */
function needsRule(given: string, needed: string, meaning: string): Rule {
  return {
    reads: [given, needed],
    setting: needed,
    problem: `is required with ${given}: ${meaning}`,
    isBroken: config => isSet(valueAt(config, given)) && !isSet(valueAt(config, needed)),
  }
}

/** Headers that only the gateway may set: it would not start with them. */
function findReservedHeaders({ upstream, gateway }: Config): ConfigProblem[] {
  const { requestHeaders, responseHeaders } = gateway
  const reserved = Object.keys(upstream.headers).filter(name => !mayBeFixed(name))
  return [
    ...reserved.map(name => ({ source: `upstream.headers.${name}`, problem: explainReserved(name) })),
    ...namesReserved('gateway.requestHeaders', requestHeaders, mayReachUpstream),
    ...namesReserved('gateway.responseHeaders', responseHeaders, mayReachClient),
  ]
}

function namesReserved(
  source: string,
  names: readonly string[],
  isAllowed: (name: string) => boolean,
): ConfigProblem[] {
  const reserved = names.filter(name => !isAllowed(name))
  return reserved.map(name => ({ source, problem: `names ${name}, which the gateway sets itself` }))
}

function explainReserved(name: string): string {
  const step =
    name.toLowerCase() === 'host'
      ? 'name the host in upstream.url, and the servers in upstream.addresses'
      : 'remove it'
  return `is a header that the gateway sets itself: ${step}`
}

function findRedisContradiction({ redis: { url, sentinel, cluster } }: Config): ConfigProblem[] {
  const places = [
    ...(url === undefined ? [] : ['redis.url']),
    ...(sentinel.name === undefined && sentinel.urls.length === 0 ? [] : ['redis.sentinel']),
    ...(cluster.urls.length === 0 ? [] : ['redis.cluster.urls']),
  ]
  if (places.length < 2) return []
  const problem =
    'contradict each other: set redis.url for a single server, redis.sentinel.name and redis.sentinel.urls for Sentinel, or redis.cluster.urls for Redis Cluster'
  return [{ source: places.join(', '), problem }]
}

/** Two listeners of one process cannot share a port. */
function portRule(one: Listener, other: Listener): Rule {
  return {
    reads: [`${one}.port`, `${other}.port`],
    findProblems: (config, planes) => findSharedPort([one, other], config, planes),
  }
}

/** Port 0 is any free one. */
function findSharedPort(
  [one, other]: readonly [Listener, Listener],
  config: Config,
  planes: readonly Plane[],
): ConfigProblem[] {
  const port = listenerPort(config, other)
  if (!listens(one, planes) || !listens(other, planes)) return []
  if (port === undefined || port === 0 || port !== listenerPort(config, one)) return []
  return [{ source: `${other}.port`, problem: `is ${port}, which ${one}.port already uses` }]
}

function listenerPort(config: Config, listener: Listener): number | undefined {
  if (listener === 'gateway.check') return config.gateway.check.port
  return listener === 'console.internal' ? config.console.internal.port : config[listener].port
}

function listens(listener: Listener, planes: readonly Plane[]): boolean {
  return listener === 'ops' || planes.some(plane => listener === plane || listener.startsWith(`${plane}.`))
}

export const ASSERTION_KEY_FILES = 'upstream.assertion.keyFiles'
const TOO_SHORT =
  'is too short: half of it must exceed upstream.queue.maxWaitMs and upstream.connectTimeoutMs together, or assertions expire while requests wait'

/** Names of both parties, keys, and a life that outlasts the wait for a connection. */
function findAssertionProblems({ upstream }: Config): ConfigProblem[] {
  const { keyFiles, lifetimeSeconds, ...others } = upstream.assertion
  const isOn = keyFiles.length > 0
  const problems = (['issuer', 'audience'] as const)
    .filter(name => (others[name] !== undefined) !== isOn)
    .map(name =>
      isOn
        ? { source: `upstream.assertion.${name}`, problem: `is required with ${ASSERTION_KEY_FILES}` }
        : { source: ASSERTION_KEY_FILES, problem: `is required with upstream.assertion.${name}` },
    )
  const longestWaitMs = upstream.queue.maxWaitMs + upstream.connectTimeoutMs
  if (!isOn || lifetimeSeconds * 500 > longestWaitMs) return problems
  return [...problems, { source: 'upstream.assertion.lifetimeSeconds', problem: TOO_SHORT }]
}
