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
    about: ['redis.url', 'redis.sentinel', 'redis.cluster', 'origin.url'],
    check: ({ redis, origin }) =>
      mistakeIf(
        redisTopologyOf(redis) === null && origin.url === undefined,
        'redis.url, origin.url',
        'at least one is required: nobody could say which keys are good',
      ),
  },
  {
    plane: 'gateway',
    about: ['origin.url', 'origin.token'],
    check: ({ origin }) =>
      mistakeIf(
        origin.url !== undefined && origin.token === undefined,
        'origin.token',
        'is required with origin.url (POSTERN_ORIGIN_TOKEN)',
      ),
  },
  {
    plane: 'gateway',
    about: ['upstream.tls.certFile', 'upstream.tls.keyFile'],
    check: ({ upstream: { tls } }) =>
      mistakeIf(
        (tls.certFile === undefined) !== (tls.keyFile === undefined),
        'upstream.tls.certFile, upstream.tls.keyFile',
        'belong together: set both or neither',
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
  portRule('gateway', 'ops'),
  portRule('console', 'ops'),
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

/** Two listeners of one process cannot have one port; 0 is any that is free. */
function portRule(one: Plane, other: Plane | 'ops'): Rule {
  return {
    about: [`${one}.port`, `${other}.port`],
    check: (config, planes) => {
      const { port } = config[other]
      const both = planes.includes(one) && (other === 'ops' || planes.includes(other))
      const taken = both && port !== 0 && port === config[one].port
      return mistakeIf(taken, `${other}.port`, `is ${port}, which ${one}.port takes already`)
    },
  }
}
