import { Type } from 'typebox'
import {
  bearerToken,
  circuit,
  file,
  httpUrl,
  milliseconds,
  optional,
  redisNodes,
  secret,
  section,
} from './schema-parts.ts'

const MAX_REDIS_OPEN_MS = 60_000
/** Short: the promise on revocation counts from when the key service answers, not from when that is noticed. */
const MAX_KEY_SERVICE_OPEN_MS = 500

export const redis = section({
  url: optional(
    Type.String({
      format: 'redis-url',
      description:
        'Shared cache of key records, a single server; with none of the three kinds of Redis there are memory and the key service only',
      ...secret,
    }),
  ),
  sentinel: section({
    name: optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        pattern: '^[A-Za-z0-9._-]+$',
        description: 'Name under which the Sentinels watch the primary, often `mymaster`',
      }),
    ),
    urls: redisNodes(
      'The Sentinels, in place of `redis.url`; `rediss:` means TLS to them and to the servers they name',
    ),
    username: optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'ACL user at the Sentinels' }),
    ),
    password: optional(
      Type.String({ minLength: 1, maxLength: 1024, description: 'Password at the Sentinels', ...secret }),
    ),
  }),
  cluster: section({
    urls: redisNodes(
      'Some nodes of a Redis Cluster, in place of `redis.url`; the others are learnt from them',
    ),
  }),
  username: optional(Type.String({ minLength: 1, maxLength: 256, description: 'ACL user' })),
  password: optional(Type.String({ minLength: 1, maxLength: 1024, description: 'Its password', ...secret })),
  caFile: optional(file('Certificate authority of Redis (PEM), for `rediss:` addresses')),
  beats: Type.Boolean({
    description:
      'Whether the key service sends beats; without them the bound on revocation does not cover its losing Redis',
  }),
  circuit: circuit(
    'Failed connections and time-outs in a row after which Redis is not asked for a while',
    'How long it is not asked before it is tried again',
    MAX_REDIS_OPEN_MS,
  ),
  commandTimeoutMs: milliseconds('Time after which a command is given up'),
  connectTimeoutMs: milliseconds('Time for a connection to be made'),
})

export const keyService = section({
  url: optional(httpUrl('Key service that is asked where Redis does not know; the console, or your own')),
  token: optional(
    Type.String({
      ...bearerToken,
      description: 'Bearer token between gateway and key service, the same at both ends',
      ...secret,
    }),
  ),
  circuit: circuit(
    'Failed connections and time-outs in a row after which the key service is not asked for a while',
    'How long it is not asked before it is tried again',
    MAX_KEY_SERVICE_OPEN_MS,
  ),
  timeoutMs: milliseconds('Time after which a look-up is given up'),
  tls: section({
    caFile: optional(file('Certificate authority of the key service (PEM)')),
    certFile: optional(file('Client certificate shown to the key service (PEM)')),
    keyFile: optional(file('Its private key (PEM)')),
  }),
})
