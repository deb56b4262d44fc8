import { redisTopologyOf } from '../domain/redis-topology.ts'
import { checkLimits } from './limit-rules.ts'
import { redisRules } from './redis-rules.ts'
import { routeRules } from './route-rules.ts'
import { mistakeIf, type Plane, type Rule } from './rule.ts'
import type { Config } from './schema.ts'
import { signInRules } from './sign-in-rules.ts'
import type { Mistake } from './sources.ts'
import { isObviouslyWeak } from './weak-secret.ts'

export type { Plane } from './rule.ts'

/** Rules between settings, each mistake a sentence that says what to set. */
const RULES: readonly Rule[] = [
  {
    about: ['keys.format', 'keys.signingSecrets'],
    check: ({ keys }, planes) =>
      mistakeIf(
        planes.length > 0 && keys.format !== 'opaque' && keys.signingSecrets.length === 0,
        'keys.signingSecrets',
        'is required (POSTERN_KEYS_SIGNING_SECRETS): base64 of at least 32 bytes',
      ),
  },
  {
    about: ['keys.signingSecrets'],
    check: ({ keys }) =>
      mistakeIf(
        keys.signingSecrets.some(isObviouslyWeak),
        'keys.signingSecrets',
        'holds one that is obviously not random (openssl rand -base64 32 makes a good one)',
      ),
  },
  {
    plane: 'gateway',
    about: ['upstream.url'],
    check: ({ upstream }) =>
      mistakeIf(
        upstream.url === undefined,
        'upstream.url',
        'is required (POSTERN_UPSTREAM_URL): the address of the service behind',
      ),
  },
  {
    plane: 'gateway',
    about: ['upstream.cache.maxBytes', 'routes'],
    check: ({ upstream, routes }) =>
      mistakeIf(
        upstream.cache.maxBytes > 0 && !routes.some(({ shareAnswers }) => shareAnswers),
        'upstream.cache.maxBytes',
        'has no meaning where no route has shareAnswers: true',
      ),
  },
  {
    plane: 'gateway',
    about: ['redis.url', 'redis.sentinel', 'redis.cluster', 'keyService.url'],
    check: ({ redis, keyService }) =>
      mistakeIf(
        redisTopologyOf(redis) === null && keyService.url === undefined,
        'redis.url, keyService.url',
        'at least one is required: nobody could say which keys are good',
      ),
  },
  {
    plane: 'gateway',
    about: ['keyService.url', 'keyService.token'],
    check: ({ keyService }) =>
      mistakeIf(
        keyService.url !== undefined && keyService.token === undefined,
        'keyService.token',
        'is required with keyService.url (POSTERN_KEY_SERVICE_TOKEN)',
      ),
  },
  {
    plane: 'gateway',
    about: ['keyService.url', 'keyService.tls'],
    check: ({ keyService: { url, tls } }) =>
      mistakeIf(
        url?.startsWith('http:') === true && Object.values(tls).some(file => file !== undefined),
        'keyService.tls',
        'has no effect with a plain http: address: set keyService.url to https:',
      ),
  },
  pairRule('gateway', 'upstream.tls', ({ upstream }) => upstream.tls),
  pairRule('gateway', 'keyService.tls', ({ keyService }) => keyService.tls),
  pairRule('console', 'console.internal.tls', ({ console }) => console.internal.tls),
  {
    plane: 'console',
    about: ['console.internal.tls'],
    check: ({ console: { internal } }) =>
      mistakeIf(
        internal.tls.clientCaFile !== undefined && internal.tls.certFile === undefined,
        'console.internal.tls.clientCaFile',
        'requires TLS: set console.internal.tls.certFile and console.internal.tls.keyFile as well',
      ),
  },
  {
    plane: 'console',
    about: ['console.webhook.url', 'console.webhook.secret'],
    check: ({ console: { webhook } }) =>
      mistakeIf(
        (webhook.url === undefined) !== (webhook.secret === undefined),
        'console.webhook.url, console.webhook.secret',
        'belong together: set both or neither',
      ),
  },
  {
    plane: 'console',
    about: ['keys.format', 'keys.signingSecrets'],
    // With any other format they are required of every plane, by the first rule.
    check: ({ keys }) =>
      mistakeIf(
        keys.format === 'opaque' && keys.signingSecrets.length === 0,
        'keys.signingSecrets',
        'is required for the console: it signs the keys that it issues',
      ),
  },
  ...signInRules,
  ...redisRules,
  portRule('gateway', 'console'),
  portRule('gateway', 'console.internal'),
  portRule('console', 'console.internal'),
  portRule('gateway', 'ops'),
  portRule('console', 'ops'),
  portRule('console.internal', 'ops'),
  ...routeRules,
  { about: ['limits.policies', 'routes', 'scopes'], check: checkLimits },
]

/** @param isSound whether a setting, or all of a section, is right by itself */
export function checkRules(
  config: Config,
  planes: readonly Plane[],
  isSound: (path: string) => boolean,
): Mistake[] {
  return RULES.filter(({ plane }) => plane === undefined || planes.includes(plane))
    .filter(({ about }) => about.every(isSound))
    .flatMap(({ check }) => check(config, planes))
}

/** A certificate and its key. */
function pairRule(
  plane: Plane,
  at: string,
  tlsOf: (config: Config) => { readonly certFile?: string; readonly keyFile?: string },
): Rule {
  return {
    plane,
    about: [`${at}.certFile`, `${at}.keyFile`],
    check: config => {
      const { certFile, keyFile } = tlsOf(config)
      return mistakeIf(
        (certFile === undefined) !== (keyFile === undefined),
        `${at}.certFile, ${at}.keyFile`,
        'belong together: set both or neither',
      )
    },
  }
}

type Listener = Plane | 'console.internal' | 'ops'

/** Two listeners of one process cannot have one port; 0 is any that is free. */
function portRule(one: Listener, other: Listener): Rule {
  return {
    about: [`${one}.port`, `${other}.port`],
    check: (config, planes) => {
      const port = portOf(config, other)
      const both = listens(one, planes) && listens(other, planes)
      const taken = both && port !== 0 && port === portOf(config, one)
      return mistakeIf(taken, `${other}.port`, `is ${port}, which ${one}.port takes already`)
    },
  }
}

function portOf(config: Config, listener: Listener): number {
  return listener === 'console.internal' ? config.console.internal.port : config[listener].port
}

function listens(listener: Listener, planes: readonly Plane[]): boolean {
  return listener === 'ops' || planes.includes(listener === 'console.internal' ? 'console' : listener)
}
