/** The settings that locate Redis. At most one of the three is set. */
export interface RedisLocation {
  readonly url?: string | undefined
  readonly sentinel: { readonly name?: string | undefined; readonly urls: readonly string[] }
  readonly cluster: { readonly urls: readonly string[] }
}

export type RedisTopology =
  | { readonly kind: 'standalone'; readonly url: string }
  /** The addresses of the Sentinels, and their name for the primary. */
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  /** Some nodes of the cluster; they name the others. */
  | { readonly kind: 'cluster'; readonly urls: readonly string[] }

/** @returns the kind of Redis and its addresses; null if no Redis is configured */
export function findRedisTopology({ url, sentinel, cluster }: RedisLocation): RedisTopology | null {
  if (url !== undefined) return { kind: 'standalone', url }
  // The check of the settings rejects a name without addresses, and addresses without a name.
  if (sentinel.name !== undefined || sentinel.urls.length > 0) {
    return { kind: 'sentinel', name: sentinel.name ?? '', urls: sentinel.urls }
  }
  return cluster.urls.length > 0 ? { kind: 'cluster', urls: cluster.urls } : null
}

/** The schemes of Redis and of Valkey mean the same. */
export const REDIS_PROTOCOLS = ['redis:', 'rediss:', 'valkey:', 'valkeys:'] as const

/** @param text an address, or host and port alone, which mean no TLS */
export function isEncryptedRedis(text: string): boolean {
  return /^(?:rediss|valkeys):/i.test(text.trimStart())
}

/** Query parameters that clients of Redis know, and what to write instead. */
const INSTEAD: Readonly<Record<string, string>> = {
  db: 'write the number as the path, as in redis://host:6379/2',
  database: 'write the number as the path, as in redis://host:6379/2',
  ssl: 'write rediss: for TLS',
  tls: 'write rediss: for TLS',
  ssl_cert_reqs: 'certificates are always verified; set redis.caFile for an authority of your own',
  ssl_ca_certs: 'set redis.caFile',
  user: 'set redis.username',
  username: 'set redis.username',
  password: 'set redis.password',
  timeout: 'set redis.commandTimeoutMs',
  socket_timeout: 'set redis.commandTimeoutMs',
  commandTimeout: 'set redis.commandTimeoutMs',
  connectTimeout: 'set redis.connectTimeoutMs',
  socket_connect_timeout: 'set redis.connectTimeoutMs',
}
const MAX_NAME_LENGTH = 32

/**
 * What an address of a single Redis says and would not do. It passes the schema.
 * @returns each completes a sentence that begins with the name of the setting
 */
export function findIdleParts(address: string): string[] {
  const { pathname, searchParams, hash } = new URL(address)
  const parameters = new Set(searchParams.keys())
  return [
    ...[...parameters].map(idleParameter),
    ...(hash === '' ? [] : ['has a part after #, which has no effect: encode a # of the password as %23']),
    ...(/^\/?\d{0,5}$/.test(pathname)
      ? []
      : ['has a path that is no database number: write it as in redis://host:6379/2']),
  ]
}

function idleParameter(name: string): string {
  const instead = Object.hasOwn(INSTEAD, name) ? INSTEAD[name] : undefined
  const shown = /^[A-Za-z0-9_.-]+$/.test(name) && name.length <= MAX_NAME_LENGTH ? `${name} ` : ''
  return `has the query parameter ${shown}which has no effect: ${instead ?? 'remove it'}`
}
