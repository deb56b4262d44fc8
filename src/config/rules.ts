import { redisTopologyOf } from '../domain/redis-topology.ts'
import { parseTemplate, WORKSPACE_PARAMETER } from '../domain/route.ts'
import { checkLimits } from './limit-rules.ts'
import type { Config } from './schema.ts'
import { checkSignIn } from './sign-in-rules.ts'
import type { Mistake } from './sources.ts'

/** What runs in a process: it decides which settings are required. */
export type Plane = 'gateway' | 'console'

/** Rules between settings, each a sentence that says what to set. Every setting is right by itself already. */
export function checkRules(config: Config, planes: readonly Plane[]): Mistake[] {
  return [
    ...(planes.length > 0 ? checkKeys(config) : []),
    ...(planes.includes('gateway') ? checkGateway(config) : []),
    ...(planes.includes('console') ? checkConsole(config) : []),
    ...checkRedis(config),
    ...checkPorts(config, planes),
    ...config.routes.flatMap(route => checkRoute(config, route)),
    ...checkUnique(config),
    ...checkLimits(config),
  ]
}

function checkKeys({ keys }: Config): Mistake[] {
  if (keys.format === 'opaque' || keys.signingSecrets.length > 0) return []
  return [
    mistake('keys.signingSecrets', 'is required (POSTERN_KEYS_SIGNING_SECRETS): base64 of at least 32 bytes'),
  ]
}

function checkGateway({ upstream, redis, origin, routes }: Config): Mistake[] {
  const mistakes: Mistake[] = []
  if (upstream.cache.maxBytes > 0 && !routes.some(({ shareAnswers }) => shareAnswers)) {
    mistakes.push(mistake('upstream.cache.maxBytes', 'has no meaning where no route has shareAnswers: true'))
  }
  if (upstream.url === undefined) {
    mistakes.push(
      mistake('upstream.url', 'is required (POSTERN_UPSTREAM_URL): the address of the service behind'),
    )
  }
  if (redisTopologyOf(redis) === null && origin.url === undefined) {
    mistakes.push(
      mistake('redis.url, origin.url', 'at least one is required: nobody could say which keys are good'),
    )
  }
  if (origin.url !== undefined && origin.token === undefined) {
    mistakes.push(mistake('origin.token', 'is required with origin.url (POSTERN_ORIGIN_TOKEN)'))
  }
  if ((upstream.tls.certFile === undefined) !== (upstream.tls.keyFile === undefined)) {
    mistakes.push(
      mistake('upstream.tls.certFile, upstream.tls.keyFile', 'belong together: set both or neither'),
    )
  }
  return mistakes
}

function checkConsole({ keys, console }: Config): Mistake[] {
  const mistakes = checkSignIn(console)
  if ((console.webhook.url === undefined) !== (console.webhook.secret === undefined)) {
    mistakes.push(
      mistake('console.webhook.url, console.webhook.secret', 'belong together: set both or neither'),
    )
  }
  // Otherwise it is required of every plane, and said there.
  if (keys.format === 'opaque' && keys.signingSecrets.length === 0) {
    mistakes.push(
      mistake('keys.signingSecrets', 'is required for the console: it signs the keys that it issues'),
    )
  }
  return mistakes
}

/** One kind of Redis or none; half a kind would be none, unnoticed. */
function checkRedis({ redis: { url, sentinel, cluster } }: Config): Mistake[] {
  const places = [
    ...(url === undefined ? [] : ['redis.url']),
    ...(sentinel.name === undefined && sentinel.urls.length === 0 ? [] : ['redis.sentinel']),
    ...(cluster.urls.length === 0 ? [] : ['redis.cluster.urls']),
  ]
  const mistakes: Mistake[] = []
  if (places.length > 1) {
    mistakes.push(
      mistake(
        places.join(', '),
        'contradict each other: set redis.url for a single server, redis.sentinel.name and redis.sentinel.urls for Sentinel, or redis.cluster.urls for Redis Cluster',
      ),
    )
  }
  if (sentinel.name !== undefined && sentinel.urls.length === 0) {
    mistakes.push(
      mistake('redis.sentinel.urls', 'is required with redis.sentinel.name: where the Sentinels are'),
    )
  }
  if (sentinel.urls.length > 0 && sentinel.name === undefined) {
    mistakes.push(
      mistake(
        'redis.sentinel.name',
        'is required with redis.sentinel.urls: the name of the primary (often mymaster)',
      ),
    )
  }
  return [
    ...mistakes,
    ...checkOneScheme('redis.sentinel.urls', sentinel.urls),
    ...checkOneScheme('redis.cluster.urls', cluster.urls),
  ]
}

/** What is learnt from these nodes has no scheme of its own: it is spoken to as they are. */
function checkOneScheme(spelling: string, urls: readonly string[]): Mistake[] {
  const encrypted = urls.filter(url => url.startsWith('rediss:')).length
  if (encrypted === 0 || encrypted === urls.length) return []
  return [mistake(spelling, 'must be rediss: addresses all of them, or none')]
}

function checkPorts(config: Config, planes: readonly Plane[]): Mistake[] {
  const used = new Map<number, string>()
  return [...planes, 'ops' as const].flatMap(name => {
    const { port } = config[name]
    const other = port === 0 ? undefined : used.get(port)
    used.set(port, `${name}.port`)
    return other === undefined ? [] : [mistake(`${name}.port`, `is ${port}, which ${other} takes already`)]
  })
}

function checkRoute(config: Config, route: Config['routes'][number]): Mistake[] {
  const at = `routes.${route.name}`
  const mistakes: Mistake[] = []
  if (route.scope !== undefined && !Object.hasOwn(config.scopes, route.scope)) {
    mistakes.push(mistake(`${at}.scope`, `is ${route.scope}, which scopes does not name`))
  }
  const parameters = parametersOf(route.path)
  if (new Set(parameters).size !== parameters.length) {
    mistakes.push(mistake(`${at}.path`, 'names one parameter twice'))
  }
  if (route.answeredBy === 'gateway') {
    if (route.upstreamPath !== undefined) {
      mistakes.push(mistake(`${at}.upstreamPath`, 'has no meaning where the gateway itself answers'))
    }
    if (route.shareAnswers !== undefined) {
      mistakes.push(mistake(`${at}.shareAnswers`, 'has no meaning where the gateway itself answers'))
    }
  } else mistakes.push(...checkForwarded(route, parameters))
  for (const [name, rule] of Object.entries(route.query ?? {})) {
    if (rule.type === 'integer' && rule.minimum > rule.maximum) {
      mistakes.push(mistake(`${at}.query.${name}`, 'has a minimum above its maximum'))
    }
  }
  return mistakes
}

/** Whatever reaches the upstream is about the key's own workspace: a path that does not name it cannot be bound to it. */
function checkForwarded(route: Config['routes'][number], parameters: readonly string[]): Mistake[] {
  const mistakes: Mistake[] = []
  const bound = `{${WORKSPACE_PARAMETER}}`
  if (!parameters.includes(WORKSPACE_PARAMETER)) {
    mistakes.push(
      mistake(`routes.${route.name}.path`, `must have ${bound} in it: keys are bound to a workspace`),
    )
  }
  if (route.upstreamPath === undefined) return mistakes
  const upstream = parametersOf(route.upstreamPath)
  const unknown = upstream.filter(parameter => !parameters.includes(parameter))
  if (!upstream.includes(WORKSPACE_PARAMETER)) {
    mistakes.push(mistake(`routes.${route.name}.upstreamPath`, `must have ${bound} in it`))
  }
  for (const parameter of unknown) {
    mistakes.push(mistake(`routes.${route.name}.upstreamPath`, `has {${parameter}}, which path has not`))
  }
  return mistakes
}

function checkUnique({ routes }: Config): Mistake[] {
  const names = duplicatesOf(routes.map(route => route.name))
  const forms = duplicatesOf(routes.map(route => route.path.replace(/\{[^}]*\}/g, '{}')))
  return [
    ...names.map(name => mistake('routes', `has two entries of the name ${name}`)),
    ...forms.map(form => mistake('routes', `has two entries that match the same paths: ${form}`)),
  ]
}

function parametersOf(template: string): string[] {
  return parseTemplate(template).flatMap(segment => ('parameter' in segment ? [segment.parameter] : []))
}

function duplicatesOf(texts: readonly string[]): string[] {
  return [...new Set(texts.filter((text, index) => texts.indexOf(text) !== index))]
}

function mistake(spelling: string, problem: string): Mistake {
  return { spelling, problem }
}
