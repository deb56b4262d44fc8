import { MAX_REGIONS, REGION_NAME } from '../../domain/region.ts'
import {
  bearerTokens,
  boolean,
  circuit,
  file,
  httpUrl,
  integer,
  list,
  milliseconds,
  oneOf,
  optional,
  seconds,
  secretText,
  section,
  text,
  type ValueOf,
} from './schema-builders.ts'

/** Short: the revocation guarantee counts from the key service's recovery, not from when a gateway notices it. */
const MAX_KEY_SERVICE_OPEN_MS = 500

const redisNodes = (description: string) =>
  list(text({ format: 'redis-node' }), { default: [], maxItems: 64, description })
const userName = (description: string) => text({ minLength: 1, maxLength: 256, description })

export const redis = section({
  url: optional(
    text({
      format: 'redis-url',
      secret: true,
      description:
        'Shared cache of key records: one server, `redis://`, `rediss://`, `valkey://` or `valkeys://`. Instead of it, set Sentinels or a cluster; without any, gateways use memory and the key service',
    }),
  ),
  sentinel: section({
    name: optional(
      text({
        minLength: 1,
        maxLength: 256,
        pattern: '^[A-Za-z0-9._-]+$',
        description: 'Name under which the Sentinels monitor the primary, often `mymaster`',
      }),
    ),
    urls: redisNodes(
      'The Sentinels, such as `redis-0:26379`; `rediss:` means TLS to them and to the servers they name',
    ),
    username: optional(userName('ACL user at the Sentinels')),
    password: optional(secretText({ description: 'Password at the Sentinels' })),
  }),
  cluster: section({
    urls: redisNodes('Some nodes of a Redis Cluster; the others are discovered from them'),
  }),
  username: optional(userName('ACL user at the servers that hold the records')),
  password: optional(secretText({ description: 'Password of that user' })),
  caFile: optional(file('Certificate authority of Redis (PEM), for `rediss:` addresses')),
  heartbeats: boolean({
    default: true,
    description:
      'Whether the key service publishes heartbeats; without them the revocation guarantee does not cover its losing Redis',
  }),
  circuit: circuit('Redis', { failures: 5, openMs: 500, maxOpenMs: 60_000 }),
  commandTimeoutMs: milliseconds({ default: 100, description: 'Time after which a command fails' }),
  connectTimeoutMs: milliseconds({ default: 1000, description: 'Time to establish a connection' }),
})

/** The Redis of a region as its console uses it. */
export type RegionRedis = Omit<ValueOf<typeof redis>, 'circuit' | 'heartbeats'>

/** Commands of the console to a region cross the distance between them. */
export const REGION_REDIS_DEFAULTS = { commandTimeoutMs: 1000, connectTimeoutMs: 2000 }

const secretFile = (of: string) => optional(file(`File with ${of}, instead of it`))
const regionRedis = section({
  url: redis.properties.url,
  urlFile: secretFile('that address'),
  sentinel: optional(
    section({
      ...redis.properties.sentinel.properties,
      passwordFile: secretFile('that password'),
    }),
  ),
  cluster: optional(redis.properties.cluster),
  username: redis.properties.username,
  password: redis.properties.password,
  passwordFile: secretFile('that password'),
  caFile: redis.properties.caFile,
  commandTimeoutMs: optional(
    milliseconds({ description: 'Time after which a command fails, 1000 by default' }),
  ),
  connectTimeoutMs: optional(
    milliseconds({ description: 'Time to establish a connection, 2000 by default' }),
  ),
})

/** An entry of `regions`, as it is written. */
export const region = section({
  name: text({ pattern: REGION_NAME, description: 'Name, the same as `region` of its gateways' }),
  redis: { ...regionRedis, description: 'Its Redis: `url`, `sentinel` or `cluster`, as in `redis`' },
})

export const regions = list(region, {
  default: [],
  maxItems: MAX_REGIONS,
  description:
    'Regions of the console, each with a `name` and a `redis` of its own (`url`, `sentinel` or `cluster`, as in `redis`; secrets also as `urlFile` and `passwordFile`); every change is announced to each. If empty, there is one region, whose Redis is `redis`',
})

export const regionOfGateway = optional(
  text({
    pattern: REGION_NAME,
    description: 'Region of a gateway, as the console names it in `regions`; its Redis is that of `redis`',
  }),
)

export const keyService = section({
  url: optional(
    httpUrl(
      'The key service, where gateways look up keys that Redis does not know: the internal listener of the console, or a service of your own',
    ),
  ),
  token: optional(
    bearerTokens({
      description:
        'Bearer tokens between gateway and key service, separated by commas: gateways send the first, the console accepts all',
    }),
  ),
  circuit: circuit('the key service', { failures: 5, openMs: 250, maxOpenMs: MAX_KEY_SERVICE_OPEN_MS }),
  timeoutMs: milliseconds({ default: 1000, description: 'Time after which a lookup fails' }),
  tls: section({
    caFile: optional(file('Certificate authority of the key service (PEM)')),
    certFile: optional(file('Client certificate for the key service (PEM)')),
    keyFile: optional(file('Private key of that certificate (PEM)')),
  }),
})

export const keys = section({
  format: oneOf(['signed', 'any', 'opaque'], {
    default: 'signed',
    description:
      '`signed`: keys hold a MAC that rejects forged ones without a lookup. `any`: besides, keys of another system that the console imported, which do not begin with `keys.prefix`. `opaque`: no check of form and MAC, for keys that another service issued',
  }),
  prefix: text({
    default: 'wsk_',
    pattern: '^[A-Za-z][A-Za-z0-9_-]{0,31}$',
    description: 'Prefix of every key',
  }),
  signingSecrets: list(text({ format: 'signing-secret' }), {
    default: [],
    maxItems: 8,
    secret: true,
    description:
      'Base64 of at least 32 random bytes each (`openssl rand -base64 32`); the first signs, all verify. Required unless the format is `opaque`',
  }),
  memory: section({
    ttlSeconds: seconds({
      default: 30,
      minimum: 0,
      maximum: 3600,
      description:
        'Time that a record in memory is trusted before it is verified again; revocations do not wait for it',
    }),
    absentTtlSeconds: seconds({
      default: 5,
      minimum: 0,
      maximum: 60,
      description: 'Time that an unknown key is remembered as unknown',
    }),
    maxEntries: integer({
      default: 100_000,
      minimum: 1,
      maximum: 10_000_000,
      description: 'Maximum number of records in memory',
    }),
  }),
  unsignedLookups: section({
    perSecond: integer({
      default: 500,
      minimum: 1,
      maximum: 1_000_000,
      description:
        'With the formats `any` and `opaque`: lookups a second of keys that do not exist. Beyond that, a gateway answers 503 to keys without a MAC that it does not have in memory',
    }),
    perAddress: integer({
      default: 100,
      minimum: 1,
      maximum: 1_000_000,
      description: 'The same for one client: an IPv4 address, or the /64 of an IPv6 address',
    }),
  }),
  staleSeconds: seconds({
    default: 300,
    minimum: 0,
    maximum: 86_400,
    description:
      'Time that a good record stays usable after its last verification while neither Redis nor the key service answers',
  }),
})

export const database = section({
  url: text({
    format: 'database-url',
    default: 'sqlite:postern.db',
    secret: true,
    description: 'The console’s system of record: `sqlite:FILE`, or `postgres://…` for more than one console',
  }),
})

/** What gateways count and the console keeps. Gateway and console have the same settings: each reads its own. */
export const usage = section({
  enabled: boolean({
    default: true,
    description:
      'Counts requests per key and keeps the counts; if false, neither counts nor refusals are kept, and `lastUsedAt` goes on',
  }),
  reportSeconds: seconds({
    default: 10,
    minimum: 0,
    maximum: 300,
    description:
      'Interval at which gateways report usage to the key service; 0 disables all reports, also those of `lastUsedAt`',
  }),
  maxEntries: integer({
    default: 100_000,
    minimum: 1000,
    maximum: 10_000_000,
    description:
      'Entries of unreported usage in a gateway’s memory: one for each key, and one for each of its routes and outcomes. Beyond it, requests are counted by workspace',
  }),
  export: section({
    url: optional(
      httpUrl(
        'HTTP collector to which gateways also send the counts, one JSON object a line, such as `http://collector:8080/usage`',
      ),
    ),
  }),
})

export const refusals = section({
  enabled: boolean({
    default: true,
    description:
      'Keeps the last 200 refused requests of each workspace for 7 days, with the network of the client’s address',
  }),
})
